#!/usr/bin/env python3
"""The story of docs/standalone.md with real containers; run.sh has made the namespaces that it happens in.

    story.py BINARY WORK MARK

WORK is an empty directory for everything that is written, MARK names the control groups.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys

MANIFESTS = {
    "settings.yaml": """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: %s}
""",
    "key.yaml": """
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {password: correct horse}
""",
    "web.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: app
    image: busybox
    volumeMounts:
    - {name: settings, mountPath: /etc/settings}
    - {name: key, mountPath: /etc/key}
    - {name: scratch, mountPath: /scratch}
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: key, secret: {secretName: key}}
  - {name: scratch, emptyDir: {}}
""",
}

# What runs in the containers: tells what it sees, then waits until the greeting is another one.
APPLICATION = """#!/bin/sh
first=$(cat /etc/settings/greeting)
echo "greeting: $first"
echo "password: $(cat /etc/key/password)"
echo "key is on: $(awk '$2 == "/etc/key" { print $3 }' /proc/mounts)"
if touch /etc/settings/mine 2>/dev/null; then echo "settings: writable"; else echo "settings: read-only"; fi
echo "scratch: $(ls -A /scratch | tr '\\n' ' ')"
echo "$first" >"/scratch/$first"
echo "waiting"
tries=0
while [ "$(cat /etc/settings/greeting)" = "$first" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 1000 ]; then echo "the greeting is still $first"; exit 1; fi
    usleep 20000
done
echo "greeting: $(cat /etc/settings/greeting)"
"""

# The whole story takes a few seconds.
DEADLINE_SECONDS = 120


class Failed(Exception):
    """Something is not as docs/standalone.md says."""


def check(condition, why):
    if not condition:
        raise Failed(why)


def run(*command, check_status=True, **options):
    """What a command prints; it fails with what it said."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **options)
    if check_status and done.returncode != 0:
        raise Failed(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def merged(whole, part):
    """An object with the parts of another: objects are merged, and lists go on."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return {**whole, **{key: merged(whole[key], it) if key in whole else it for key, it in part.items()}}
    return whole + part if isinstance(whole, list) else part


def mounts_below(path):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        points = [line.split()[4] for line in table]
    return [point for point in points if point.startswith(path + "/")]


class Daemon:
    """`windlass run`, started as a service manager does."""

    def __init__(self, binary, work):
        self.binary, self.work, self.process = binary, work, None

    def start(self):
        address = os.path.join(self.work, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(address)
            with open(os.path.join(self.work, "log"), "a", encoding="utf-8") as log:
                environment = dict(os.environ, NOTIFY_SOCKET=address)
                self.process = subprocess.Popen([self.binary, "run"], stderr=log, stdout=log, env=environment)
            ended = os.pidfd_open(self.process.pid)
            try:
                ready = False
                while not ready:
                    readable, _, _ = select.select([told, ended], [], [])
                    check(ended not in readable, "the daemon has ended")
                    ready = b"READY=1" in told.recv(4096)
            finally:
                os.close(ended)
                os.unlink(address)

    def stop(self):
        self.process.terminate()
        status = self.process.wait()
        self.process = None
        check(status == 0, f"the daemon ended with status {status}")

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def log(self):
        with open(os.path.join(self.work, "log"), encoding="utf-8") as log:
            return log.read()


class Story:
    def __init__(self, binary, work, mark):
        self.binary, self.work, self.mark = binary, work, mark
        self.manifests = os.path.join(work, "manifests")
        self.root = os.path.join(work, "root")
        os.mkdir(self.manifests)
        os.environ.update(WINDLASS_MANIFESTS=self.manifests, WINDLASS_ROOT=self.root, WINDLASS_CONFIG="/dev/null")
        self.daemon = Daemon(binary, work)
        self.greeting = "hello"
        # What containers have left for each other in the emptyDir.
        self.scratch = []

    def windlass(self, *arguments):
        return run(self.binary, *arguments)

    def write(self, name, *values):
        """Writes a manifest as careful people do: beside it, then in its place."""
        beside = os.path.join(self.work, name)
        with open(beside, "w", encoding="utf-8") as file:
            file.write(MANIFESTS[name] % values if values else MANIFESTS[name])
        os.rename(beside, os.path.join(self.manifests, name))

    def make_rootfs(self, path):
        """A file system for a container, with busybox and the application."""
        os.makedirs(os.path.join(path, "bin"))
        for directory in ("etc", "proc", "sys", "dev", "tmp", "run"):
            os.mkdir(os.path.join(path, directory))
        shutil.copy(shutil.which("busybox"), os.path.join(path, "bin/busybox"))
        run("chroot", path, "/bin/busybox", "--install", "-s", "/bin")
        with open(os.path.join(path, "bin/application"), "w", encoding="utf-8") as file:
            file.write(APPLICATION)
        os.chmod(os.path.join(path, "bin/application"), 0o755)
        return path

    def make_bundle(self, path, arguments, given):
        """A bundle for runc: its own default, and what windlass says the container is to be given."""
        self.make_rootfs(os.path.join(path, "rootfs"))
        run("runc", "spec", cwd=path)
        file = os.path.join(path, "config.json")
        with open(file, encoding="utf-8") as text:
            config = json.load(text)
        config["process"].update(terminal=False, args=arguments)
        config["linux"]["cgroupsPath"] = f"/{self.mark}/runc"
        with open(file, "w", encoding="utf-8") as text:
            json.dump(merged(config, given), text)
        return path

    def live(self, command, then, meanwhile):
        """A container's life: it sees what is there, and, while it runs, how the greeting changes."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            said = []
            for line in process.stdout:
                said.append(line.strip())
                if line == "waiting\n":
                    meanwhile()
                    self.write("settings.yaml", then)
            status = process.wait()
        finally:
            process.kill()
            process.wait()
        expected = [f"greeting: {self.greeting}", "password: correct horse", "key is on: tmpfs", "settings: read-only",
                    " ".join(["scratch:", *self.scratch]), "waiting", f"greeting: {then}"]
        self.scratch.append(self.greeting)
        self.greeting = then
        check(status == 0 and said == expected, f"the container ended with status {status} and said {said}")

    def probe(self, command):
        """Why a container cannot be started here, or nothing."""
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return None if done.returncode == 0 else done.stdout.strip()

    def runc(self):
        bundle = self.make_bundle(os.path.join(self.work, "probe"), ["/bin/true"], {})
        why = self.probe(["runc", "run", "--bundle", bundle, "probe"])
        if why is not None:
            print(f"SKIPPED: runc cannot start a container here, with windlass or without: {why}")
            return
        given = json.loads(self.windlass("mounts", "web", "-o", "oci"))
        bundle = self.make_bundle(os.path.join(self.work, "bundle"), ["/bin/application"], given)
        # The daemon may end and start again while a container runs (I-11).
        self.live(["runc", "run", "--bundle", bundle, "web"], "changed", self.restart)
        check(run("runc", "list", "--quiet") == "", "runc still has containers")
        print("runc: the container read both, and saw the ConfigMap change")

    def restart(self):
        mounted = mounts_below(self.root)
        self.daemon.stop()
        check(mounts_below(self.root) == mounted, "the volumes did not stay mounted while the daemon was away")
        self.daemon.start()

    def podman(self):
        if shutil.which("podman") is None:
            print("SKIPPED: podman is missing")
            return
        podman = ["podman", "--runtime", "runc", "--cgroup-manager=cgroupfs", "--storage-driver", "vfs",
                  "--root", os.path.join(self.work, "storage"),
                  "--network-config-dir", os.path.join(self.work, "networks")]
        # Limits that no machine refuses, and no network, for nothing here needs one.
        start = [*podman, "run", "--rm", "--network=none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
                 "--cgroup-parent", f"/{self.mark}"]
        rootfs = self.make_rootfs(os.path.join(self.work, "rootfs"))
        why = self.probe([*start, "--rootfs", rootfs, "/bin/true"])
        if why is not None:
            print(f"SKIPPED: podman cannot start a container here, with windlass or without: {why}")
            return
        given = self.windlass("mounts", "web", "-o", "podman").split()
        self.live([*start, *given, "--rootfs", rootfs, "/bin/application"], "again", lambda: None)
        check(run(*podman, "ps", "--all", "--quiet") == "", "podman still has containers")
        print("podman: the container read both, and saw the ConfigMap change")

    def tell(self):
        self.write("settings.yaml", self.greeting)
        self.write("key.yaml")
        self.write("web.yaml")
        self.daemon.start()
        self.windlass("wait", "web", "--timeout", "30s")
        check("web" in self.windlass("get", "pods"), "the pod is not listed")
        self.runc()
        self.podman()
        os.unlink(os.path.join(self.manifests, "web.yaml"))
        self.windlass("wait", "--for=unmounted", "web", "--timeout", "30s")
        check(mounts_below(self.root) == [], f"mounts are left: {mounts_below(self.root)}")
        pods = os.path.join(self.root, "pods")
        check(not os.path.isdir(pods) or os.listdir(pods) == [], "directories of pods are left")
        self.daemon.stop()
        check(not os.path.exists("/run/windlass/api.sock"), "the socket is left")
        check("correct horse" not in self.daemon.log(), "a secret is in the log (I-12)")


def reap():
    """Waits until every process of this namespace has ended, for the first of them inherits all others."""
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass


def groups(mark):
    """The control groups of this test, those furthest down first."""
    return [path for path, _, _ in os.walk("/sys/fs/cgroup", topdown=False) if f"/{mark}" in path]


def main():
    binary, work, mark = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]

    def too_late(_signal, _frame):
        raise Failed(f"not done after {DEADLINE_SECONDS} seconds")

    signal.signal(signal.SIGALRM, too_late)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.alarm(DEADLINE_SECONDS)
    # Whatever windlass, runc and podman write is in memory and only seen here.
    for path in (work, "/run", "/dev/shm"):
        run("mount", "-t", "tmpfs", "tmpfs", path)
    story = Story(binary, work, mark)
    try:
        story.tell()
        reap()
        # podman makes the group above its own and leaves it.
        for group in groups(mark):
            os.rmdir(group)
    except Failed as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        if os.path.exists(os.path.join(work, "log")):
            print(f"The daemon's log:\n{story.daemon.log()}", file=sys.stderr)
        sys.exit(1)
    finally:
        story.daemon.kill()
    print("containers: nothing is left")


if __name__ == "__main__":
    main()
