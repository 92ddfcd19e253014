#!/bin/sh
# Runs the fuzzer on each target, one after the other (see docs/fuzzing.md).
#
#   scripts/fuzz.sh SECONDS [TARGET...]
#
# What it makes up lies below target/fuzz/, what breaks a promise in target/fuzz/broken/. With KEEP=1 the inputs that reached
# code which the kept ones do not reach are added to fuzz/corpus/.
set -eu

cd "$(dirname "$0")/.."

seconds=$1
shift
[ $# -gt 0 ] || set -- $(sed -n 's/^    ("\([a-z]*\)", .*::target),$/\1/p' crates/windlass-fuzz/src/lib.rs)

# The targets have no memory of their own to misuse: without a sanitizer they run several times as fast.
fuzz="cargo +nightly fuzz"
$fuzz build --sanitizer none

broken=0
for target in "$@"; do
    found=target/fuzz/found/$target
    mkdir -p "$found" target/fuzz/broken
    printf '==> %s, for %s s\n' "$target" "$seconds"
    $fuzz run --sanitizer none "$target" "$found" "fuzz/corpus/$target" -- -max_total_time="$seconds" -max_len=4096 \
        -timeout=10 -verbosity=0 -print_final_stats=1 -artifact_prefix="target/fuzz/broken/$target-" || broken=1
    [ -z "${KEEP:-}" ] || $fuzz run --sanitizer none "$target" "fuzz/corpus/$target" "$found" -- -merge=1 -verbosity=0
done
[ "$broken" -eq 0 ] || {
    echo 'A promise is broken: what did it is in target/fuzz/broken/' >&2
    exit 1
}
