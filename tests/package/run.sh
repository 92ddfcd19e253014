#!/bin/sh
# Checks what is installed and packaged: the unit, `make install` and its opposite, the Debian package from build to purge.
#
#   tests/package/run.sh BINARY
#
# Nothing of this machine is changed. What cannot be checked here is said.
set -eu

cd "$(dirname "$0")/../.."

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

skip() { echo "SKIPPED: $*"; }

have() { command -v "$1" >/dev/null 2>&1; }

# In the copy of this system that install_package makes: the package comes, is used, and goes.
if [ "${1:-}" = --inside ]; then
    root=$2
    package=$3
    mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/system"
    mount -t proc proc "$root/system/proc"
    mount --bind /dev "$root/system/dev"
    cp "$package" "$root/system/windlass.deb"
    # The index of manual pages takes long.
    rm -f "$root/system/var/lib/man-db/auto-update"
    in_copy() { chroot "$root/system" "$@"; }
    # package ACTION...: what dpkg says matters only if it fails.
    package() {
        in_copy dpkg "$@" >"$root/said" 2>&1 || {
            cat "$root/said" >&2
            fail "dpkg $1 fails"
        }
    }
    # This machine may have it already.
    in_copy dpkg --purge windlass >/dev/null 2>&1 || true

    package --install --force-depends /windlass.deb
    in_copy windlass version --client >/dev/null || fail "the installed program does not run"
    [ "$(stat -c %a:%U "$root/system/etc/windlass/manifests")" = 700:root ] || fail "manifests are open to others"
    echo 'log-level: debug' >"$root/system/etc/windlass/config.yaml"
    echo 'kind: Pod' >"$root/system/etc/windlass/manifests/mine.yaml"
    mkdir -p "$root/system/var/lib/windlass/pods/a"
    echo data >"$root/system/var/lib/windlass/pods/a/data"

    package --remove windlass
    [ ! -e "$root/system/usr/bin/windlass" ] || fail "the program is still there after the package was removed"
    grep -q debug "$root/system/etc/windlass/config.yaml" || fail "a removal has taken the configuration"
    [ -e "$root/system/var/lib/windlass/pods/a/data" ] || fail "a removal has taken the state"

    # A purge with something mounted takes nothing away.
    mkdir "$root/system/var/lib/windlass/pods/b"
    mount -t tmpfs tmpfs "$root/system/var/lib/windlass/pods/b"
    package --purge windlass
    grep -q 'is kept' "$root/said" || fail "a purge does not say what it keeps"
    [ -e "$root/system/var/lib/windlass/pods/a/data" ] || fail "a purge has taken state with something mounted in it"
    umount "$root/system/var/lib/windlass/pods/b"

    package --install --force-depends /windlass.deb
    package --purge windlass
    [ -e "$root/system/var/lib/windlass/pods/a/data" ] || fail "a purge has taken what a pod has written"
    rm "$root/system/var/lib/windlass/pods/a/data"
    package --install --force-depends /windlass.deb
    package --purge windlass
    [ ! -e "$root/system/var/lib/windlass" ] || fail "a purge has left state"
    [ -e "$root/system/etc/windlass/manifests/mine.yaml" ] || fail "a purge has taken somebody's manifest"
    [ ! -e "$root/system/etc/windlass/config.yaml" ] || fail "a purge has left the configuration"
    exit 0
fi

[ $# -eq 1 ] || fail "usage: tests/package/run.sh BINARY"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
# What is for debuggers makes it many times as large, and is copied often here.
binary=$work/windlass
cp "$1" "$binary"
if have strip; then strip "$binary"; fi

# What is installed, as paths from the root.
files() { (cd "$1" && find . -type f | LC_ALL=C sort); }

# The unit says nothing that systemd does not understand, and keeps out of a mount namespace.
unit() {
    unit=$work/windlass.service
    sed 's|/usr/bin/windlass|/bin/true|' deploy/windlass.service >"$unit"
    if grep -E '^(Protect|Private(Tmp|Devices|Users|IPC)|Read(Write|Only)Paths|Inaccessible|Bind|Temporary|MountFlags|Root|ProcSubset|Exec(Paths)|NoExecPaths|DynamicUser)' "$unit"; then
        fail "what is above would put windlass into a mount namespace of its own"
    fi
    for line in UMask=0077 IPAddressDeny=any RestrictAddressFamilies=AF_UNIX NoNewPrivileges=yes; do
        grep -qx "$line" "$unit" || fail "the unit does not say $line"
    done
    if ! have systemd-analyze; then
        skip "the unit was not verified, for systemd-analyze is missing."
        return
    fi
    said=$(systemd-analyze verify --man=no "$unit" 2>&1) || fail "systemd-analyze verify: $said"
    [ -z "$said" ] || fail "systemd-analyze verify: $said"
    systemd-analyze security --offline=true --threshold=50 "$unit" >"$work/security" 2>&1 || {
        tail -n 1 "$work/security"
        fail "the unit is less hardened than it was"
    }
}

# The configuration says nothing but comments, and with every line switched on only what the program knows.
configuration() {
    "$binary" run --config deploy/config.yaml --print-config >/dev/null || fail "the configuration cannot be used"
    sed -n 's/^#\([a-z-]*: \)/\1/p' deploy/config.yaml | grep -v '^token-command:' >"$work/config.yaml"
    "$binary" run --config "$work/config.yaml" --print-config >"$work/printed" || fail "a setting in it is wrong"
    while IFS= read -r line; do
        grep -qxF "$line" "$work/printed" || fail "the configuration says '$line', and --print-config says otherwise"
    done <"$work/config.yaml"
    # Whether what is switched off are the defaults, of settings that have one; what the host is called and where it logs to
    # is its own, and a user has places of his own.
    other='node-name|log-format'
    [ "$(id -u)" -eq 0 ] || other="$other|manifests|root|socket|runtime-directory|driver-registry"
    "$binary" run --config /dev/null --print-config >"$work/defaults"
    grep -vE "^($other):" "$work/config.yaml" | while IFS= read -r line; do
        grep -q "^${line%%:*}:" "$work/defaults" || continue
        grep -qxF "$line" "$work/defaults" || fail "'$line' is not the default"
    done
}

installation() {
    export DESTDIR="$work/destination" PREFIX=/usr/local
    scripts/install.sh "$binary"
    for path in usr/local/bin/windlass usr/local/lib/systemd/system/windlass.service usr/local/share/man/man1/windlass.1 \
        usr/local/share/man/man1/windlass-run.1 usr/local/share/bash-completion/completions/windlass \
        usr/local/share/zsh/site-functions/_windlass usr/local/share/fish/vendor_completions.d/windlass.fish \
        usr/local/share/doc/windlass/LICENSE usr/local/share/doc/windlass/docs/standalone.md etc/windlass/config.yaml; do
        [ -s "$DESTDIR/$path" ] || fail "'make install' has not installed /$path"
    done
    "$DESTDIR/usr/local/bin/windlass" version --client >/dev/null || fail "the installed program does not run"
    grep -q '^ExecStart=/usr/local/bin/windlass run$' "$DESTDIR/usr/local/lib/systemd/system/windlass.service" ||
        fail "the unit starts another program than the installed one"
    [ "$(stat -c %a "$DESTDIR/etc/windlass/manifests")" = 700 ] || fail "manifests are open to others"

    # Installed again over a changed configuration, and beside somebody's files.
    echo 'log-level: debug' >"$DESTDIR/etc/windlass/config.yaml"
    echo 'kind: Pod' >"$DESTDIR/etc/windlass/manifests/mine.yaml"
    echo mine >"$DESTDIR/usr/local/share/man/man1/other.1"
    scripts/install.sh "$binary"
    grep -q debug "$DESTDIR/etc/windlass/config.yaml" || fail "'make install' has written over a configuration"
    scripts/install.sh --remove 2>/dev/null
    left=$(files "$DESTDIR")
    [ "$left" = "./etc/windlass/config.yaml
./etc/windlass/manifests/mine.yaml
./usr/local/share/man/man1/other.1" ] || fail "'make uninstall' leaves, or takes away, what it should not: $left"

    # And with nothing changed.
    rm -r "$DESTDIR"
    scripts/install.sh "$binary"
    scripts/install.sh --remove
    left=$(cd "$DESTDIR" && find . -type f -o -name 'windlass*')
    [ -z "$left" ] || fail "'make uninstall' leaves $left"
    unset DESTDIR PREFIX
}

package() {
    if ! have dpkg-deb || ! have readelf; then
        skip "the Debian package was not built, for dpkg-deb or readelf is missing."
        return
    fi
    # What it is compressed with does not matter here, and takes time.
    export DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1
    package=$(scripts/deb.sh "$binary" "$work/deb")
    again=$(scripts/deb.sh "$binary" "$work/again")
    cmp "$package" "$again" || fail "the same binary gives two packages"
    for field in Package Version Architecture Maintainer Depends Description; do
        [ -n "$(dpkg-deb --field "$package" "$field")" ] || fail "the package has no $field"
    done
    dpkg-deb --contents "$package" >"$work/contents"
    if grep -v 'root/root' "$work/contents"; then fail "what is above does not belong to root in the package"; fi
    for path in usr/bin/windlass usr/lib/systemd/system/windlass.service usr/share/man/man1/windlass.1.gz \
        usr/share/doc/windlass/copyright etc/windlass/config.yaml; do
        grep -q " \./$path\$" "$work/contents" || fail "the package has no /$path"
    done
    dpkg-deb --extract "$package" "$work/extracted"
    "$work/extracted/usr/bin/windlass" version --client >/dev/null || fail "the packaged program does not run"
    if have lintian; then
        # Who builds it, and from where, is not at issue.
        whose=bogus-mail-host,bogus-mail-host-in-debian-changelog,mail-contact,malformed-contact,root-in-contact
        lintian --fail-on error,warning --suppress-tags "$whose" "$package" >"$work/lintian" 2>&1 || {
            cat "$work/lintian"
            fail "lintian is not content with the package"
        }
    else
        skip "the package was not looked at by lintian, for it is missing."
    fi
    install_package "$package"
}

# Installs the package into a copy of this system that nobody else sees, and that is gone afterwards.
install_package() {
    if [ "$(id -u)" -ne 0 ]; then skip "the package was not installed, for that takes root."; return; fi
    if ! have dpkg || [ ! -d /var/lib/dpkg ]; then skip "the package was not installed, for this is no Debian."; return; fi
    copy=$work/copy
    mkdir "$copy"
    # The copy is in memory, in a mount namespace of its own.
    # shellcheck disable=SC2016
    unshare --mount --propagation private sh -euc '
        mount -t tmpfs tmpfs "$1"
        mkdir "$1/upper" "$1/work" "$1/system"
        mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/system"' sh "$copy" 2>/dev/null || {
        skip "the package was not installed, for there are no mount namespaces or no overlayfs here."
        return
    }
    # shellcheck disable=SC2016
    unshare --mount --propagation private sh -euc '
        mount -t tmpfs tmpfs "$1"
        mkdir "$1/upper" "$1/work" "$1/system"
        exec "$0" --inside "$1" "$2"' tests/package/run.sh "$copy" "$1" || fail "the package does not come and go as it should"
    if have podman && have runc && [ -x /lib/systemd/systemd ]; then
        tests/package/service.sh "$1" "$copy"
    else
        skip "the service was not started, for podman, runc or systemd is missing."
    fi
}

unit
configuration
installation
package
echo 'package: all as it should be'
