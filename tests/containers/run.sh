#!/bin/sh
# Does what docs/standalone.md says, with real containers: runc by a bundle, then podman.
#
#   tests/containers/run.sh BINARY
#
# Everything happens in a mount and a process namespace of its own, on file systems in memory, so whatever goes wrong
# ends with them. What cannot be run here is said.
set -eu

cd "$(dirname "$0")/../.."

subject="no container was started"
. tests/script.sh

[ $# -eq 1 ] || fail "usage: tests/containers/run.sh BINARY"
[ -x "$1" ] || fail "there is no program at $1"
[ "$(id -u)" -eq 0 ] || skip "that takes root"
for tool in python3 unshare runc busybox; do
    command -v "$tool" >/dev/null || skip "$tool is missing"
done
unshare --mount --pid --fork true 2>/dev/null || skip "this root may not make namespaces"

# The name of all control groups that come of this.
mark=windlass-containers-$$
work=$(mktemp -d)

# What a failure may have left: processes, and control groups once those have ended.
groups() { find /sys/fs/cgroup -depth -type d -path "*/$mark*" 2>/dev/null || true; }
clean() {
    if [ -n "$story" ]; then
        # The first process of the namespace: it is gone only when all others are, and unshare ends with it.
        first=$(tr -d ' ' <"/proc/$story/task/$story/children" || true)
        kill -s KILL "${first:-$story}" || true
        wait "$story" || true
    fi 2>/dev/null
    groups | while IFS= read -r group; do rmdir "$group" 2>/dev/null || true; done
    rmdir "$work"
}
story=
trap clean EXIT
trap 'exit 1' HUP INT TERM

# In the background, so that this script can be interrupted.
unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
    python3 -B tests/containers/story.py "$1" "$work" "$mark" &
story=$!
wait "$story"
story=

[ -z "$(ls -A "$work")" ] || fail "files are left in $work"
[ -z "$(groups)" ] || fail "control groups are left: $(groups)"
if grep -qF "$work" /proc/self/mountinfo; then fail "mounts are left below $work"; fi
