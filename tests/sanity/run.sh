#!/bin/sh
# Tests windlass-loop with csi-sanity, the public conformance suite for CSI drivers, built from the module registry.
#
#   tests/sanity/run.sh DRIVER [DIRECTORY]
#
# DIRECTORY is where csi-sanity is built, by default target/sanity. The suite runs with and without --attach, on mounts of
# ext4 and xfs and on raw devices. Whatever it skips must be something that the driver does not claim to do. Everything
# happens in a mount namespace of its own, on a file system in memory; afterwards nothing may be left.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)

subject="the driver was not tested with csi-sanity"
. "$top/tests/script.sh"

[ $# -ge 1 ] || fail "usage: tests/sanity/run.sh DRIVER [DIRECTORY]"
[ -x "$1" ] || fail "there is no program at $1"

if [ -z "${WINDLASS_SANITY_INSIDE:-}" ]; then
    [ "$(id -u)" -eq 0 ] || skip "that takes root"
    [ -e /dev/loop-control ] || skip "there are no loop devices here"
    for tool in go unshare losetup mkfs.ext4 mkfs.xfs; do
        command -v "$tool" >/dev/null || skip "$tool is missing"
    done
    unshare --mount true 2>/dev/null || skip "this root may not make namespaces"
    built=${2:-$top/target/sanity}
    mkdir -p "$built"
    built=$(cd "$built" && pwd)
    if ! go build -C "$here" -o "$built/" tool; then
        [ "${CI:-}" != true ] || fail "csi-sanity could not be built; what go said is above"
        skip "it could not be built; what go said is above"
    fi
    directory=$(mktemp -d)
    trap 'rmdir "$directory"' EXIT
    export WINDLASS_SANITY_INSIDE="$directory" WINDLASS_SANITY="$built/csi-sanity"
    driver=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
    unshare --mount --propagation private "$0" "$driver"
    left=$(losetup --all --noheadings --output BACK-FILE | grep -F "$directory/" || true)
    [ -z "$left" ] || fail "loop devices are left: $left"
    exit 0
fi

driver=$1
directory=$WINDLASS_SANITY_INSIDE
mount -t tmpfs windlass-sanity "$directory"
cd "$directory"
mkfifo ready

# Reasons to skip: what the driver does not claim to do, and says so.
cat >unclaimed <<'END'
CreateSnapshot not supported
ControllerGetVolumeHealth not supported
ControllerListVolumeHealth not supported
ControllerModifyVolume not supported
DeleteSnapshot not supported
GetSnapshot not supported
GroupControllerService not supported
ListSnapshots not supported
Modify Volume not supported
Modify volume not supported
NodeGetStorageHealth not supported
NodeGetVolumeHealth not supported
Snapshot not supported
Volume Cloning not supported
END
cat >unattached <<'END'
Controller Publish, UnpublishVolume not supported
ControllerPublishVolume not supported
ControllerUnpublishVolume not supported
END

process=
trap '[ -z "$process" ] || kill "$process"' EXIT

# once NAME ACCESS FILESYSTEM [OPTION]: the whole suite.
once() {
    name=$1 access=$2 filesystem=$3
    shift 3
    mkdir "$name"
    printf 'fsType: %s\n' "$filesystem" >"$name/parameters"
    "$driver" --endpoint "$directory/$name/csi.sock" --state "$directory/$name/state" --node-id sanity --capacity 100Gi \
        --volumes-max 4 "$@" >ready 2>"$name/log" &
    process=$!
    read -r line <ready || { cat "$name/log" >&2; fail "the driver did not start"; }
    # Large enough for an xfs.
    if ! "$WINDLASS_SANITY" -csi.endpoint "$directory/$name/csi.sock" -csi.mountdir "$directory/$name/mount" \
        -csi.stagingdir "$directory/$name/staging" -csi.testvolumeaccesstype "$access" \
        -csi.testvolumesize 335544320 -csi.testvolumeexpandsize 419430400 -csi.testnodevolumeattachlimit \
        -csi.testvolumeparameters "$directory/$name/parameters" \
        -ginkgo.no-color -ginkgo.junit-report "$name/report" >"$name/output" 2>&1; then
        cat "$name/output" "$name/log" >&2
        fail "csi-sanity, $name"
    fi
    kill "$process"
    wait "$process" || { cat "$name/log" >&2; fail "the driver did not end in order"; }
    process=
    printf '    %-14s %s\n' "$name" "$(grep -E '^(Ran [0-9]|[A-Z]+!)' "$name/output" | tr '\n' ' ')"

    sed -n 's/.*<skipped message="skipped - \([^"]*\)".*/\1/p' "$name/report" | sort -u >skipped
    known=unclaimed
    case $* in *--attach*) ;; *) cat unclaimed unattached >both; known=both ;; esac
    claimed=$(grep -vxF -f "$known" skipped || true)
    [ -z "$claimed" ] || fail "csi-sanity, $name: skipped although the driver claims it: $claimed"

    left=$(find "$name/state/images" "$name/state/records" "$name/mount" "$name/staging" -mindepth 1 2>/dev/null || true)
    [ -z "$left" ] || fail "csi-sanity, $name: files are left: $left"
    left=$(findmnt --noheadings --list --output TARGET | grep -F "$directory/" || true)
    [ -z "$left" ] || fail "csi-sanity, $name: mounts are left: $left"
    left=$(losetup --all --noheadings --output BACK-FILE | grep -F "$directory/" || true)
    [ -z "$left" ] || fail "csi-sanity, $name: loop devices are left: $left"
}

once ext4 mount ext4
once xfs mount xfs
once block block ext4
once ext4-attach mount ext4 --attach
once xfs-attach mount xfs --attach --mount-group
once block-attach block ext4 --attach
