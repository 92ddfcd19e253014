#!/bin/sh
# Installs windlass, or takes away exactly what was installed.
#
#   scripts/install.sh BINARY      installs this binary and what belongs to it
#   scripts/install.sh --remove    takes away what was installed, and leaves what somebody has changed or added
#
# PREFIX is where it is to be used (default /usr/local), DESTDIR a directory that stands for / until then. What is
# outside the prefix (/etc/windlass) is where the program looks for it. Nothing is started or enabled.
set -eu

cd "$(dirname "$0")/.."

prefix=${PREFIX:-/usr/local}
root=${DESTDIR:-}
share=$prefix/share
etc=/etc/windlass
# What was installed, a path a line as it is without DESTDIR. The configuration is not in it.
list=$share/windlass/installed
# Debian's zsh looks elsewhere than others.
zsh=${ZSH_COMPLETIONS:-$share/zsh/site-functions}

say() { printf 'install: %s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

case $prefix in
    /*) ;;
    *) fail "PREFIX must begin with a slash: $prefix" ;;
esac

# put MODE FROM TO: copies a file, makes the directories it needs, and takes note of it.
put() {
    mkdir -p "$root$(dirname "$3")"
    install -m "$1" "$2" "$root$3"
    printf '%s\n' "$3" >>"$work/installed"
}

install_all() {
    binary=$1
    [ -x "$binary" ] || fail "there is no program at $binary; 'make install' builds it first"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM

    # A running program cannot be written over, but replaced: install(1) does that.
    cp "$binary" "$work/windlass"
    if command -v strip >/dev/null; then strip "$work/windlass"; fi
    put 755 "$work/windlass" "$prefix/bin/windlass"

    sed "s|/usr/bin/windlass|$prefix/bin/windlass|" deploy/windlass.service >"$work/windlass.service"
    put 644 "$work/windlass.service" "$prefix/lib/systemd/system/windlass.service"

    mkdir "$work/man"
    "$binary" man "$work/man"
    for page in "$work"/man/*.1; do
        [ -e "$page" ] || fail "'$binary man' wrote no manual pages"
        put 644 "$page" "$share/man/man1/${page##*/}"
    done

    for shell in bash zsh fish; do "$binary" completion "$shell" >"$work/$shell"; done
    put 644 "$work/bash" "$share/bash-completion/completions/windlass"
    put 644 "$work/zsh" "$zsh/_windlass"
    put 644 "$work/fish" "$share/fish/vendor_completions.d/windlass.fish"

    put 644 LICENSE "$share/doc/windlass/LICENSE"
    put 644 README.md "$share/doc/windlass/README.md"
    put 644 CHANGELOG.md "$share/doc/windlass/CHANGELOG.md"
    for page in docs/*.md; do put 644 "$page" "$share/doc/windlass/$page"; done
    # What the configuration was when it was installed tells later whether somebody has changed it.
    put 644 deploy/config.yaml "$share/doc/windlass/config.yaml"

    mkdir -p "$root$etc"
    [ -e "$root$etc/config.yaml" ] || install -m 644 deploy/config.yaml "$root$etc/config.yaml"
    # Secrets are in it.
    [ -d "$root$etc/manifests" ] || mkdir -m 700 "$root$etc/manifests"

    printf '%s\n' "$list" >>"$work/installed"
    mkdir -p "$root$(dirname "$list")"
    # What an older version has installed and this one has not goes.
    if [ -e "$root$list" ]; then
        sort "$root$list" >"$work/before"
        sort "$work/installed" | comm -23 "$work/before" - | while IFS= read -r path; do rm -f "$root$path"; done
    fi
    install -m 644 "$work/installed" "$root$list"
}

remove_all() {
    [ -e "$root$list" ] || fail "nothing was installed below $root$prefix: $root$list is not there"
    # The configuration first: what it is compared with goes too.
    if cmp -s "$root$share/doc/windlass/config.yaml" "$root$etc/config.yaml"; then rm "$root$etc/config.yaml"; fi
    while IFS= read -r path; do
        rm -f "$root$path"
        printf '%s\n' "$path"
    done <"$root$list" | sort -r | while IFS= read -r path; do
        # Directories that are ours alone, once they are empty.
        directory=${path%/*}
        while case $directory in */windlass | */windlass/*) true ;; *) false ;; esac; do
            rmdir "$root$directory" 2>/dev/null || break
            directory=${directory%/*}
        done
    done
    rmdir "$root$etc/manifests" 2>/dev/null || true
    rmdir "$root$etc" 2>/dev/null || true
    [ ! -e "$root$etc" ] || say "left, for somebody has written there: $root$etc"
}

case $# in
    1) ;;
    *) fail "usage: scripts/install.sh BINARY|--remove" ;;
esac
case $1 in
    --remove) remove_all ;;
    *) install_all "$1" ;;
esac
