#!/bin/sh
# Boots systemd in a container on a copy of this system, and lets the package come, run and go there.
#
#   tests/package/service.sh PACKAGE DIRECTORY    DIRECTORY is empty and stays so
#
# run.sh has looked whether this can be. The copy is in memory, the container sees no devices and changes no settings of
# the kernel. Where systemd does not start in a container, that is said.
set -eu

cd "$(dirname "$0")/../.."

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# The name of all control groups that come of this.
mark=windlass-service-$$

# In the namespaces: makes the copy, boots it, and looks at what it wrote.
if [ "${1:-}" = --inside ]; then
    package=$2
    work=$3
    mark=$4
    for path in "$work" /run /dev/shm; do mount -t tmpfs tmpfs "$path"; done
    mkdir "$work/upper" "$work/work" "$work/system"
    system=$work/system
    mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$system"
    for path in tmp run; do mount -t tmpfs tmpfs "$system/$path"; done
    chroot "$system" dpkg --purge windlass >/dev/null 2>&1 || true
    # Nothing of this system is to start there but systemd itself and its log.
    rm -rf "$system"/etc/systemd/system/*.wants "$system"/etc/systemd/system/windlass.service* "$system/etc/windlass" \
        "$system/var/lib/windlass"
    find "$system"/lib/systemd/system/*.wants ! -name 'systemd-journald*' -type l -delete
    rm -rf "$system/var/log/journal"
    : >"$system/etc/fstab"
    # An image for containers may forbid services, and the index of manual pages takes long.
    rm -f "$system/etc/crypttab" "$system/usr/sbin/policy-rc.d" "$system/var/lib/man-db/auto-update"
    cp "$package" "$system/windlass.deb"
    cp tests/package/service-check.sh "$system/check.sh"
    cat >"$system/etc/systemd/system/check.service" <<'UNIT'
[Service]
Type=oneshot
ExecStart=/bin/sh /check.sh
StandardOutput=file:/said
StandardError=inherit
TimeoutStartSec=100
ExecStopPost=/bin/systemctl exit 0
UNIT
    podman --runtime runc --cgroup-manager=cgroupfs --storage-driver vfs --root "$work/storage" \
        --network-config-dir "$work/networks" run --rm --systemd=always --cap-add=all --security-opt=seccomp=unconfined \
        --security-opt=apparmor=unconfined --security-opt=label=disable --network=none --cgroup-parent "/$mark" \
        --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
        --rootfs "$system" /lib/systemd/systemd --unit=check.service >"$work/boot" 2>&1 || true
    if [ ! -e "$system/said" ]; then
        echo "SKIPPED: the service was not started, for systemd does not start in a container here: $(tail -n 3 "$work/boot")"
    elif [ "$(tail -n 1 "$system/said")" != 'all as it should be' ]; then
        cat "$system/said" >&2
        fail "the package does not serve as it should under systemd"
    fi
    exit 0
fi

[ $# -eq 2 ] || fail "usage: tests/package/service.sh PACKAGE DIRECTORY"

# podman leaves the group above its own.
clean() {
    if [ -n "$boot" ]; then
        # The first process of the namespace: it is gone only when all others are, and unshare ends with it.
        first=$(tr -d ' ' <"/proc/$boot/task/$boot/children" || true)
        kill -s KILL "${first:-$boot}" || true
        wait "$boot" || true
    fi 2>/dev/null
    find /sys/fs/cgroup -depth -type d -path "*/$mark*" 2>/dev/null | while IFS= read -r group; do
        rmdir "$group" 2>/dev/null || true
    done
}
boot=
trap clean EXIT
trap 'exit 1' HUP INT TERM

# In the background, so that this script can be interrupted.
unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
    timeout 120 tests/package/service.sh --inside "$1" "$2" "$mark" &
boot=$!
wait "$boot"
boot=
