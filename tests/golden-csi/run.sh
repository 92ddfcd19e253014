#!/bin/sh
# Runs the golden cases of CSI drivers on windlass: all, or those that are named. What cannot be run here is said.
set -eu

cd "$(dirname "$0")/../.."

subject="the golden cases of drivers were not run"
. tests/script.sh

[ "$(id -u)" -eq 0 ] || skip "they mount file systems and that takes root"
command -v python3 >/dev/null || skip "python3 is missing"
command -v go >/dev/null || skip "go is missing, which builds the recording driver"
unshare --mount true 2>/dev/null || skip "this root may not make a mount namespace"

if [ $# -eq 0 ] && [ ! -e /dev/loop-control ]; then
    for case in tests/golden-csi/*/steps.json; do
        case=${case%/steps.json}
        name=${case##*/}
        if grep -q 'volumeMode: Block' "$case/manifests.yaml"; then
            echo "SKIPPED: $name was not run, for there are no loop devices here."
        else
            set -- "$@" "$name"
        fi
    done
fi

cargo build --workspace --bins --tests --examples --locked
target=$(cargo metadata --format-version 1 --no-deps --locked |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/debug
go build -C tests/golden-csi/recorder -o "$target/recorder" .

# A case mostly waits, so more of them run than there are processors.
tests/golden-csi/run_cases.py --jobs "$((2 * $(nproc)))" --recorder "$target/recorder" \
    --agent "'$target/examples/golden_agent' --manifests {manifests} --root {root} --registry {registry} --pods={pods}" "$@"
