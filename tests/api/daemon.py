#!/usr/bin/env python3
"""Runs a daemon and forwards a port of the loopback device to its socket, for programs that cannot speak to one.

Usage: daemon.py SOCKET COMMAND... Prints the port once the daemon says that it is ready. On SIGTERM it ends the daemon,
and ends as that does.
"""

import os
import select
import signal
import socket
import socketserver
import subprocess
import sys
import threading

# How long the daemon may take to be ready.
SECONDS = 30


class Forward(socketserver.BaseRequestHandler):
    """One connection: both ways until one side ends."""

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as inside:
            inside.connect(self.server.path)
            others = {self.request: inside, inside: self.request}
            while True:
                for end in select.select(list(others), [], [])[0]:
                    try:
                        data = end.recv(65536)
                        if not data:
                            return
                        others[end].sendall(data)
                    except ConnectionError:
                        return


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, path: str) -> None:
        super().__init__(("127.0.0.1", 0), Forward)
        self.path = path


def start(path: str, command: list[str]) -> subprocess.Popen:
    """Starts the daemon and waits until it tells its service manager, which is this program, that it is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(f"{path}.notify")
        told.settimeout(SECONDS)
        daemon = subprocess.Popen(command, env={**os.environ, "NOTIFY_SOCKET": f"{path}.notify"})
        try:
            while b"READY=1" not in told.recv(4096):
                pass
        except TimeoutError:
            daemon.kill()
            sys.exit(f"the daemon was not ready after {SECONDS} s")
        return daemon


def main() -> None:
    path, command = sys.argv[1], sys.argv[2:]
    daemon = start(path, command)
    signal.signal(signal.SIGTERM, lambda *_: daemon.terminate())
    with Server(path) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_address[1], flush=True)
        os.close(1)
        code = daemon.wait()
        server.shutdown()
    sys.exit(code)


if __name__ == "__main__":
    main()
