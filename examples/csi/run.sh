#!/bin/bash
# A daemon, a CSI driver and a pod with one of its volumes, without a cluster.
#
#   examples/csi/run.sh WINDLASS DRIVER
#
# As root, for loop devices. All of it happens in a mount namespace that nobody else sees, in a tmpfs over /srv. At the end
# the daemon and the driver are ended, and no loop device is left.
set -euo pipefail

place=/srv

fail() {
    printf 'demo-csi: %s\n' "$@" >&2
    exit 1
}

if [ "${WINDLASS_DEMO:-}" != inside ]; then
    [ $# -eq 2 ] || fail 'usage: examples/csi/run.sh WINDLASS DRIVER'
    [ "$(id -u)" -eq 0 ] || fail 'loop devices take root: sudo make demo-csi'
    [ -e /dev/loop-control ] || fail 'there are no loop devices here: modprobe loop'
    command -v mkfs.ext4 >/dev/null || fail 'mkfs.ext4 is missing: apt install e2fsprogs'
    command -v mkfs.xfs >/dev/null || fail 'mkfs.xfs is missing: apt install xfsprogs'
    [ -d "$place" ] || fail "there is no directory $place to put the demo over: mkdir $place"
    WINDLASS_DEMO=inside exec unshare --mount --propagation private "$0" "$(realpath "$1")" "$(realpath "$2")"
fi

exec {program}<"$1" {driver}<"$2"
cd "$(dirname "$0")"
windlass() { "/proc/self/fd/$program" "$@"; }

bold='' blue='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$'\e[1m' blue=$'\e[34m' plain=$'\e[0m'
fi

# show COMMAND [STATUS]: shows a command and runs it; unless it ends as it should, this is the end.
show() {
    local status=0
    printf '%s$%s %s%s%s\n' "$blue" "$plain" "$bold" "$1" "$plain"
    eval "$1" 2>&1 || status=$?
    [ "$status" -eq "${2:-0}" ] || fail "'$1' ended with status $status, expected ${2:-0}"
}

mount --types tmpfs -o mode=0755 demo "$place"
mkdir "$place/run" "$place/manifests" "$place/driver"
cp driver.yaml notes.yaml "$place/manifests/"
cp books.yaml "$place/"
cd "$place"
unset "${!WINDLASS_@}"
export WINDLASS_CONFIG=/dev/null WINDLASS_SOCKET=$place/run/api.sock

processes=()
end() {
    local status=$?
    trap - EXIT
    for process in "${processes[@]}"; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    if [ "$status" -eq 1 ]; then
        printf '%s\n' 'demo-csi: the last lines of the logs:' >&2
        tail --quiet --lines 10 daemon.log driver.log >&2 || true
    fi
    exit "$status"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# until_true COMMAND: for what no verb waits for; no longer than ten seconds.
until_true() {
    local last=$((SECONDS + 10))
    until eval "$1"; do
        [ "$SECONDS" -lt "$last" ] || fail "ten seconds have passed, and this is still not so: $1"
        sleep 0.01
    done
}

echo "${bold}1. A daemon; the pod waits for its driver${plain}"
setpriv --pdeathsig TERM "/proc/self/fd/$program" run --manifests manifests --root node --node-name node-1 \
    --runtime-directory run --controller "loop.csi.windlass.dev=$place/driver/csi.sock" 2>daemon.log &
processes=("$!")
until_true 'test -S run/api.sock'
show 'windlass wait --for=mounted notes --timeout 1s' 4
show 'windlass explain notes'

echo "${bold}2. The driver comes${plain}"
setpriv --pdeathsig TERM "/proc/self/fd/$driver" --endpoint "$place/driver/csi.sock" --state "$place/driver/state" \
    --node-id node-1 --registry "$place/node/plugins_registry" >driver.out 2>driver.log &
processes=("$!" "${processes[@]}")
show 'windlass wait --for=mounted notes'
show 'windlass get drivers'
show 'windlass describe driver loop.csi.windlass.dev'
show 'windlass tree'

echo "${bold}3. The volume is a file system of its own${plain}"
# shellcheck disable=SC2034 # It is used in commands that are shown.
volume=$(echo node/pods/*/volumes/kubernetes.io~csi/scratch/mount)
# shellcheck disable=SC2016 # It is meant to be read.
show 'echo "forty fathoms of rope" > $volume/order; ls -l $volume'
# shellcheck disable=SC2016
show 'df --human-readable --output=fstype,size $volume'

echo "${bold}4. The driver is killed and comes back; the pod notices nothing${plain}"
kill -9 "${processes[0]}"
wait "${processes[0]}" 2>/dev/null || true
# shellcheck disable=SC2016
show 'cat $volume/order'
setpriv --pdeathsig TERM "/proc/self/fd/$driver" --endpoint "$place/driver/csi.sock" --state "$place/driver/state" \
    --node-id node-1 --registry "$place/node/plugins_registry" >driver.out 2>>driver.log &
processes[0]=$!

echo "${bold}5. The pod goes, and its volume with it${plain}"
show 'rm manifests/notes.yaml'
show 'windlass wait --for=unmounted notes --timeout 20s'

echo "${bold}6. A claim gets a volume of its own, which grows with it${plain}"
show 'cp books.yaml manifests/ && windlass wait --for=mounted books'
# shellcheck disable=SC2034
volume=$(echo node/pods/*/volumes/kubernetes.io~csi/*/mount)
# shellcheck disable=SC2016
show 'echo "of ropes and knots" > $volume/title; df --human-readable --output=fstype,size $volume'
show 'sed -i "s/storage: 320Mi/storage: 512Mi/" manifests/books.yaml'
until_true 'grep --quiet "the volume has grown" daemon.log'
# shellcheck disable=SC2016
show 'cat $volume/title; df --human-readable --output=fstype,size $volume'

echo "${bold}7. Without the claim it is deleted: after a while in which the claim can be put back, or when you say so${plain}"
show 'rm manifests/books.yaml && windlass wait --for=unmounted books --timeout 20s'
until_true 'windlass get claims | grep --quiet Deleting'
show 'windlass get claims'
show 'windlass delete claim books'
until_true 'grep --quiet "was deleted" daemon.log'
show 'losetup --list --noheadings --output BACK-FILE | grep --count "^$PWD/driver/"' 1
show 'ls -A node/pods driver/state/images'
echo "${bold}That was all; nothing is left. docs/csi.md says how to try a driver of your own.${plain}"
