#!/bin/sh
# Runs the golden cases on windlass: all, or those that are named. What cannot be run here is said.
set -eu

cd "$(dirname "$0")/../.."

subject="the golden cases were not run"
. tests/script.sh

[ "$(id -u)" -eq 0 ] || skip "they mount file systems and that takes root"
command -v python3 >/dev/null || skip "python3 is missing"
unshare --mount true 2>/dev/null || skip "this root may not make a mount namespace"

if [ $# -eq 0 ] && [ ! -e /dev/loop-control ]; then
    for case in tests/golden/*/expected.json; do
        case=${case%/expected.json}
        name=${case##*/}
        if grep -q losetup "$case/setup.sh" 2>/dev/null; then
            echo "SKIPPED: $name was not run, for there are no loop devices here."
        else
            set -- "$@" "$name"
        fi
    done
fi

cargo build --workspace --bins --tests --examples --locked
target=$(cargo metadata --format-version 1 --no-deps --locked |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/debug

# golden AGENT...: runs the cases with this agent.
# A case mostly waits for the disk to stay as it is, so more of them run than there are processors.
golden() {
    agent="$1 --manifests {manifests} --root {root} --registry {registry} --pods={pods}"
    shift
    tests/golden/run_cases.py --jobs "$((2 * $(nproc)))" --agent "$agent" "$@"
}

# The embedded crate and the daemon are given the same, and are to do the same.
echo '--> the crate'
golden "'$target/examples/golden_agent'" "$@"
echo '--> the daemon'
golden "'$target/examples/golden_daemon' --windlass '$target/windlass'" "$@"
