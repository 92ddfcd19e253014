#!/bin/sh
# Tests the API of a running daemon against its contract, docs/openapi.json: schemathesis makes up requests, and watch.py
# reads every kind of watch. Usage: run.sh [WINDLASS], by default the debug build. For any user. EXAMPLES and SEED say how
# many requests are made up for each path, and which.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
windlass=${1:-$top/target/debug/windlass}
schemathesis=4.32.5

subject="the API was not tested against its contract"
. "$top/tests/script.sh"

[ -x "$windlass" ] || { echo "$windlass is not there; build it with: cargo build --package windlass-cli" >&2; exit 1; }
command -v python3 >/dev/null || skip "python3 is missing"

# Everything below runs in a mount namespace of its own, in which this directory is in memory.
if [ -z "${WINDLASS_API_INSIDE:-}" ]; then
    venv=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/windlass/schemathesis-$schemathesis
    if [ ! -e "$venv/ready" ]; then
        python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "schemathesis==$schemathesis" && touch "$venv/ready" ||
            skip "schemathesis cannot be installed"
    fi
    directory=$(mktemp -d)
    trap 'rmdir "$directory"' EXIT
    export WINDLASS_API_INSIDE="$directory" WINDLASS_API_VENV="$venv"
    for rights in --mount '--map-root-user --mount'; do
        # shellcheck disable=SC2086 # the words are options
        unshare $rights --propagation private true 2>/dev/null || continue
        # shellcheck disable=SC2086
        unshare $rights --propagation private "$0" "$windlass" && exit 0
        exit 1
    done
    skip "nothing can be mounted here"
fi

directory=$WINDLASS_API_INSIDE
mount -t tmpfs windlass-api "$directory"
mkdir "$directory/manifests"
cp "$here"/manifests/*.yaml "$directory/manifests/"
mkfifo "$directory/port"
"$here/daemon.py" "$directory/api.sock" "$windlass" run --manifests "$directory/manifests" --root "$directory/root" \
    --socket "$directory/api.sock" --runtime-directory "$directory/run" --log-format text \
    >"$directory/port" 2>"$directory/log" &
daemon=$!
trap 'kill "$daemon" 2>/dev/null; wait "$daemon"' EXIT
read -r port <"$directory/port" || { cat "$directory/log" >&2; exit 1; }

failed=0
"$WINDLASS_API_VENV/bin/python" "$here/watch.py" "http://127.0.0.1:$port" || failed=1
# It keeps what it learns in its working directory.
cd "$directory"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$here" SCHEMATHESIS_HOOKS=hooks
"$WINDLASS_API_VENV/bin/st" run "http://127.0.0.1:$port/openapi.json" --url "http://127.0.0.1:$port" --checks all \
    --max-examples "${EXAMPLES:-50}" --seed "${SEED:-1}" || failed=1

trap - EXIT
kill "$daemon"
wait "$daemon" || { echo "the daemon did not end in order" >&2; failed=1; }
[ "$failed" -eq 0 ] || cat "$directory/log" >&2
exit "$failed"
