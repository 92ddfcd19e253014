#!/usr/bin/env python3
"""Run golden cases on an implementation and compare what it leaves on disk.

    run_cases.py --agent COMMAND [--cases DIR] [--jobs N] [--texts] [--strict-after] [--keep] [NAME ...]

COMMAND is a program that speaks the agent protocol (README.md) on its standard input and output;
{manifests}, {root} and {pods} in it are filled in. The trees are read here, not by the agent. Needs root
and loop devices; each case runs in a process and a mount namespace of its own, N of them at a time.
"""

import argparse
import concurrent.futures
import glob
import hashlib
import json
import os
import re
import select
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
BASE = "/tmp/windlass-golden"
STAMP = re.compile(r"\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+")
LOOP = re.compile(r"/dev/loop\d+")
QUIET = {"relatime", "inode32", "inode64", "seclabel"}
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo",
         stat.S_IFSOCK: "socket", stat.S_IFBLK: "block", stat.S_IFCHR: "char"}


class Failed(Exception):
    """A case could not be carried through."""


def fold(text, root):
    return LOOP.sub("/dev/loopN", STAMP.sub("..STAMP", text.replace(root, "ROOT")))


def mounts_below(top):
    below, outside = [], set()
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            left, _, right = line.partition(" - ")
            left, right = left.split(), right.split()
            if left[4].startswith(top + "/"):
                below.append((left[2], left[4], left[5], right[0], right[2]))
            else:
                outside.add(left[2])
    found = {}
    for device, point, flags, fstype, options in below:
        flags = set(flags.split(","))
        if device in outside:
            fstype = "host"
        elif fstype in ("tmpfs", "hugetlbfs"):
            flags |= set(options.split(","))
        found[point.encode().decode("unicode_escape")] = (fstype, ",".join(sorted(flags - QUIET)))
    return found


def tree(top, root):
    """Everything below top, in the schema of expected.json."""
    mounts, entries = mounts_below(top), []

    def entry(path):
        info = os.lstat(path)
        kind = KINDS[stat.S_IFMT(info.st_mode)]
        item = {"path": fold(os.path.relpath(path, top), root), "kind": kind, "uid": 0, "gid": 0}
        if kind not in ("block", "char"):
            item.update(mode=f"{info.st_mode & 0o7777:04o}", uid=info.st_uid, gid=info.st_gid)
        if kind == "link":
            item["target"] = fold(os.readlink(path), root)
        if kind == "file":
            with open(path, "rb") as file:
                item["sha256"] = hashlib.sha256(file.read()).hexdigest()
        if path in mounts:
            item["fstype"], item["opts"] = mounts[path]
        entries.append(item)
        return kind

    def walk(directory):
        for name in os.listdir(directory):
            path = os.path.join(directory, name)
            try:
                if entry(path) == "dir":
                    walk(path)
            except FileNotFoundError:
                pass

    if os.path.isdir(top):
        walk(top)
    return sorted(entries, key=lambda item: item["path"].encode())


class Run:
    """One run of one case."""

    def __init__(self, case, options):
        self.case, self.options = case, options
        self.name = os.path.basename(case)
        os.makedirs(BASE, exist_ok=True)
        self.work = tempfile.mkdtemp(prefix="run-", dir=BASE)
        self.root = os.path.join(self.work, "root")
        os.makedirs(self.root)
        self.agent = None

    def start(self):
        places = {"manifests": self.case, "root": self.root, "pods": "", "registry": os.path.join(self.work, "registry")}
        os.makedirs(places["registry"])
        command = [part.format(**places) for part in shlex.split(self.options.agent)]
        with open(os.path.join(self.work, "agent.log"), "ab") as log:
            self.agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def ask(self, seconds=30, **command):
        line = json.dumps({**command, "seconds": seconds}) + "\n"
        try:
            self.agent.stdin.write(line.encode())
            self.agent.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"the agent ended before {line.strip()}") from None
        if not select.select([self.agent.stdout], [], [], seconds + 10)[0]:
            raise Failed(f"no answer to {line.strip()}")
        answer = self.agent.stdout.readline()
        if not answer:
            raise Failed(f"the agent ended at {line.strip()}")
        return json.loads(answer)

    def good(self, answer):
        if answer.get("error"):
            raise Failed(answer["error"])
        return answer

    def on_disk(self):
        host = os.path.join(BASE, self.name)
        found = {"tree": tree(self.root, self.root)}
        if os.path.isdir(host):
            found["host"] = tree(host, self.root)
        return found

    def data_directories(self):
        """Which directory each written volume shows now; trees do not tell, for there its name is folded."""
        links = glob.glob(os.path.join(glob.escape(self.root), "pods/*/volumes/*/*/..data"))
        return {os.path.relpath(os.path.dirname(link), self.root): os.readlink(link) for link in links}

    def settled(self):
        """The disk once it has stayed the same for a while."""
        last, same = None, 0
        for _ in range(40):
            time.sleep(0.15)
            now = self.on_disk()
            same = same + 1 if now == last else 0
            last = now
            if same == 3:
                break
        return last

    def step(self, pods, seconds):
        """Waits for every pod; one that fails is asked again when all else is at rest."""
        answers = {pod: self.ask(do="wait", pod=pod, seconds=seconds) for pod in pods}
        self.settled()
        for pod, answer in answers.items():
            if answer.get("error"):
                answers[pod] = self.ask(do="wait", pod=pod, seconds=2)
        disk = self.settled()
        reports = []
        for pod, answer in answers.items():
            report = {"pod": pod, **answer.get("pod", {})}
            if answer.get("error"):
                report["error"] = fold(answer["error"], self.root)
            reports.append(report)
        return {"pods": reports, **disk}

    def go(self, expected):
        script = os.path.join(self.case, "setup.sh")
        if os.path.exists(script):
            subprocess.run(["sh", script], check=True)
        try:
            self.start()
            pods = [pod["pod"] for pod in expected["pods"]]
            for pod in pods:
                self.good(self.ask(do="run", pod=pod))
            patience = 8 if any("error" in pod for pod in expected["pods"]) else 20
            actual = self.step(pods, patience)
            if "updated" in expected:
                before = self.data_directories()
                self.good(self.ask(do="replace", dir=os.path.join(self.case, "update")))
                pods = [pod["pod"] for pod in expected["updated"]["pods"]]
                actual["updated"] = self.step(pods, 16)
                now = self.data_directories()
                actual["updated"]["rewritten"] = sorted(path for path in now if before.get(path, now[path]) != now[path])
            for pod in pods:
                self.good(self.ask(do="remove", pod=pod))
            self.good(self.ask(do="settle", seconds=30))
            actual["after"] = self.settled()
            return actual
        finally:
            self.end()
            script = os.path.join(self.case, "cleanup.sh")
            if os.path.exists(script):
                subprocess.run(["sh", script], check=False)

    def end(self):
        if self.agent:
            self.agent.kill()
            self.agent.wait()
        left = [point for point in mounts_below(self.root)]
        for point in sorted(left, reverse=True):
            subprocess.run(["umount", "-l", point], check=False)
        if left:
            raise Failed(f"{len(left)} mounts are left, the first at {fold(sorted(left)[0], self.root)}")


def differences(case, actual, options, ignored=()):
    """What compare.py finds."""
    command = [sys.executable, os.path.join(HERE, "compare.py")]
    command += ["--texts"] if options.texts else []
    command += [] if options.strict_after else ["--tidy"]
    command += [f"--ignore={pattern}" for pattern in ignored]
    result = subprocess.run(command + [os.path.join(case, "expected.json"), actual], capture_output=True, text=True, check=False)
    lines = result.stdout.splitlines() + result.stderr.splitlines()
    return lines or ([] if result.returncode == 0 else [f"compare.py ended with {result.returncode}"])


def judge(case, actual, options):
    """The verdict on a case and the lines to print below it; parity.json tells of a difference that is meant."""
    lines = differences(case, actual, options)
    note = os.path.join(case, "parity.json")
    if not os.path.exists(note):
        return ("different" if lines else "equal"), lines
    with open(note, encoding="utf-8") as file:
        note = json.load(file)
    if not lines:
        return "different", ["parity.json tells of a difference that is not there"]
    lines = differences(case, actual, options, note["ignore"])
    return ("different", lines) if lines else ("noted", [note["reason"]])


def run(case, options):
    """Runs a case; the verdict on it, and the lines to print below it."""
    with open(os.path.join(case, "expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    one = Run(case, options)
    try:
        actual = one.go(expected)
        path = os.path.join(one.work, "actual.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(actual, file, indent=1)
        return judge(case, path, options)
    except Failed as problem:
        with open(os.path.join(one.work, "agent.log"), encoding="utf-8", errors="replace") as log:
            return "different", [str(problem)] + log.read().splitlines()[-5:]
    finally:
        if not options.keep:
            shutil.rmtree(one.work, ignore_errors=True)


def run_alone(case):
    """Runs a case in a process and a mount namespace of its own, so that mounts of cases cannot mix."""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, os.path.abspath(__file__)]
    command += ["--in-namespace", case] + sys.argv[1:]
    begin = time.monotonic()
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        verdict, lines = json.loads(result.stdout)
    except ValueError:
        verdict, lines = "different", [f"the case's process ended with {result.returncode}"]
    return os.path.basename(case), verdict, lines, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases to run; by default all")
    parser.add_argument("--agent", required=True)
    parser.add_argument("--cases", default=HERE, help="directory of cases")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cases to run at the same time; by default 2")
    parser.add_argument("--texts", action="store_true", help="compare the texts of errors and events too")
    parser.add_argument("--strict-after", action="store_true", help="after removal the empty directories count too")
    parser.add_argument("--keep", action="store_true", help="keep the scratch directories")
    parser.add_argument("--in-namespace", metavar="CASE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.umask(0o022)
    if options.in_namespace:
        try:
            outcome = run(options.in_namespace, options)
        except (Failed, OSError, KeyError, ValueError, subprocess.CalledProcessError) as problem:
            outcome = "different", [str(problem)]
        print(json.dumps(outcome))
        return 0
    cases = sorted(os.path.dirname(path) for path in glob.glob(os.path.join(os.path.abspath(options.cases), "*/expected.json")))
    unknown = set(options.names) - {os.path.basename(case) for case in cases}
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}")
    cases = [case for case in cases if not options.names or os.path.basename(case) in options.names]
    equal = different = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        for name, verdict, lines, seconds in pool.map(run_alone, cases):
            equal, different = equal + (verdict != "different"), different + (verdict == "different")
            print(f"{verdict:9} {name} ({seconds:.1f} s)", flush=True)
            for line in lines:
                print("     " + line, flush=True)
    try:
        os.rmdir(BASE)
    except OSError:
        pass  # something was kept, or another run is under way
    print(f"{equal} equal, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
