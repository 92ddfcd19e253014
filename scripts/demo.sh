#!/bin/bash
# The first minute with windlass: a daemon on a copy of examples/, and the commands that one would type.
#
#   scripts/demo.sh [--color] BINARY
#
# All of it happens in a mount namespace that nobody else sees, in a tmpfs over /srv: when the last process in there has
# ended, however it ends, nothing is left. Any user may run it where user namespaces are allowed. With --color the output
# is as on a terminal, though without the pauses; scripts/picture.py draws that.
set -euo pipefail

place=/srv

fail() {
    printf 'demo: %s\n' "$@" >&2
    exit 1
}

# --- Outside: find a way to mount, and begin again in a namespace.

outside() {
    local binary rights script
    binary=$(realpath -- "${!#}")
    if [ $# -eq 0 ] || [ ! -x "$binary" ]; then
        fail 'usage: scripts/demo.sh [--color] BINARY'
    fi
    script=$(realpath -- "$0")
    command -v openssl >/dev/null || fail 'openssl is missing, which makes the key that tokens are signed with.'
    [ -d "$place" ] || fail "there is no directory $place to put the demo over. This makes it: sudo mkdir $place"
    for rights in --mount '--map-root-user --mount'; do
        # shellcheck disable=SC2086 # These are two words.
        if unshare $rights --propagation private mount --types tmpfs demo "$place" 2>/dev/null; then
            # shellcheck disable=SC2086
            WINDLASS_DEMO=inside exec unshare $rights --propagation private "$script" "${@:1:$#-1}" "$binary"
        fi
    done
    printf '%s\n' \
        'demo: nothing can be mounted here, neither with the rights of this user nor in a user namespace.' \
        'One of these helps:' \
        "  as root:          sudo $script $binary" \
        '  on Ubuntu:        sudo sysctl --write kernel.apparmor_restrict_unprivileged_userns=0' \
        '  in a container:   start it with --privileged' \
        '  without rights:   cargo run --release --package windlass-sim -- demo, on a simulated node' >&2
    exit 1
}

[ "${WINDLASS_DEMO:-}" = inside ] || outside "$@"

# --- Inside: how it is told.

color=auto
pause=0
bold='' dim='' blue='' plain=''
if [ "$1" = --color ]; then
    color=always
    export LC_ALL=C.UTF-8
    shift
elif [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    color=always
fi
if [ "$color" = always ]; then
    bold=$'\e[1m' dim=$'\e[2m' blue=$'\e[34m' plain=$'\e[0m'
fi
[ ! -t 1 ] || pause=1

# Whatever is put over the place where the program and the examples are, what is open stays what it is.
exec {program}<"$1"
cd "$(dirname "$0")/../examples"
# As on a terminal, also where this is none.
ls() { command ls -C --width 100 --tabsize 0 "$@"; }
windlass() { "/proc/self/fd/$program" --color "$color" "$@"; }

# title TEXT: begins a part.
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# say TEXT: what happened between two commands.
say() { printf '%s# %s%s\n' "$dim" "$*" "$plain"; }

# prompt COMMAND: shows it as if it were typed.
prompt() {
    sleep "$pause"
    printf '%s$%s %s%s%s\n' "$blue" "$plain" "$bold" "$1" "$plain"
}

# show COMMAND [STATUS]: shows a command and runs it; unless it ends as it should, this is the end.
show() {
    local status=0
    prompt "$1"
    eval "$1" 2>&1 || status=$?
    [ "$status" -eq "${2:-0}" ] || fail "'$1' ended with status $status, expected ${2:-0}"
}

# until_true COMMAND: for what no verb waits for; no longer than ten seconds.
until_true() {
    local end=$((SECONDS + 10))
    until eval "$1"; do
        kill -0 "$daemon" 2>/dev/null || fail 'the daemon has ended'
        [ "$SECONDS" -lt "$end" ] || fail "ten seconds have passed, and this is still not so: $1"
        sleep 0.01
    done
}

# --- The place: a directory of manifests, and what they need of this machine.

mount --types tmpfs -o mode=0755 demo "$place"
mkdir "$place/run" "$place/shop" "$place/manifests"
cp ./*.yaml "$place/manifests/"
cd "$place"
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out token-key.pem 2>/dev/null
echo 'order 1: forty fathoms of rope' >shop/orders
unset "${!WINDLASS_@}"
# What the daemon is not told on its command line below, and so that no other installation on this machine counts.
export WINDLASS_CONFIG=$place/config.yaml WINDLASS_SOCKET=$place/run/api.sock
cat >config.yaml <<'CONFIG'
node-name: node-1
runtime-directory: /srv/run
token-key: /srv/token-key.pem
CONFIG

daemon=
# The daemon ends first, and its mounts go with the namespace.
end() {
    local status=$?
    trap - EXIT
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" || true
        if [ "$status" -eq 1 ]; then
            printf '%s\n' 'demo: the last lines of the log of the daemon:' >&2
            tail --lines 20 log >&2
        fi
    fi
    exit "$status"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- The story.

title '1. A daemon on a directory of manifests'
show 'ls manifests'
show 'windlass validate manifests'
prompt 'windlass run --manifests manifests --root node &'
# If this script is killed, the daemon is told to end.
setpriv --pdeathsig TERM "/proc/self/fd/$program" run --manifests manifests --root node 2>log &
daemon=$!
until_true 'test -S run/api.sock'
show 'windlass wait --for=mounted web'
show 'windlass get pods'
show 'windlass get mounts'

title '2. Where the volumes are'
show 'windlass tree'

title '3. What a container is to be given'
show 'windlass mounts web -o podman'

title '4. A ConfigMap changes'
settings='node/pods/*/volumes/kubernetes.io~configmap/settings'
show "cat $settings/shop.conf"
show "sed -i 's/blue/green/' manifests/settings.yaml"
until_true "grep --quiet green $settings/shop.conf"
show "cat $settings/shop.conf"
# Both names were put in place by a rename, and an inode keeps the time of that.
# shellcheck disable=SC2086 # The asterisk is meant.
took=$(stat --format %.3Z manifests/settings.yaml $settings/..data |
    awk 'NR == 1 { begin = $1 } END { printf "%.0f", ($1 - begin) * 1000 }')
say "The file changed $took ms after the manifest."

title '5. A pod whose volumes cannot come'
cat >report.yaml <<'POD'
apiVersion: v1
kind: Pod
metadata:
  name: report
spec:
  containers:
  - name: report
    image: docker.io/library/busybox
    volumeMounts:
    - {name: mail, mountPath: /run/mail}
    - {name: out, mountPath: /out}
  volumes:
  - name: mail
    secret: {secretName: mail}
  - name: out
    hostPath: {path: /srv/reports, type: Directory}
POD
touch reports
show 'mv report.yaml manifests/'
show 'windlass wait --for=mounted report --timeout 1s' 4
show 'windlass get pods'
show 'windlass explain report'

title '6. Both causes are mended'
cat >mail.yaml <<'SECRET'
apiVersion: v1
kind: Secret
metadata:
  name: mail
stringData:
  password: rope and tackle
SECRET
show 'mv mail.yaml manifests/'
show 'rm reports; mkdir reports'
show 'windlass wait --for=mounted report'

title '7. The pods go'
show 'rm manifests/web.yaml manifests/report.yaml'
show 'windlass wait --for=unmounted web report'
show 'windlass get pods'
show 'grep --count /srv/node/ /proc/self/mounts' 1
show 'ls -A node/pods'
[ -z "$(ls -A node/pods)" ] || fail 'something is left of the pods'
say 'What the claim stands for stays:'
show 'cat shop/orders'

title '8. The daemon ends'
prompt 'kill %1; wait %1'
kill "$daemon"
wait "$daemon" || fail "the daemon ended with status $?"
daemon=
title 'That was all; nothing is left. README.md says how to go on.'
