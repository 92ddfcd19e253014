#!/bin/sh
# Builds a Debian package of a binary that is built already.
#
#   scripts/deb.sh BINARY DIRECTORY    writes DIRECTORY/windlass_VERSION_ARCHITECTURE.deb and prints its path
#
# Needs dpkg-deb and readelf, not the tools of a Debian developer. The same commit and binary give the same package.
# VERSION, DEBFULLNAME and DEBEMAIL say what they say in Debian; without them the commit is asked.
set -eu

cd "$(dirname "$0")/.."

fail() {
    printf 'deb: %s\n' "$*" >&2
    exit 1
}

[ $# -eq 2 ] || fail "usage: scripts/deb.sh BINARY DIRECTORY"
binary=$1
out=$2
for tool in dpkg-deb readelf; do
    command -v "$tool" >/dev/null || fail "$tool is missing; Debian has it in dpkg and binutils"
done

# of_commit FORMAT: what git says of the commit; nothing where there is none.
of_commit() { git log -1 --format="$1" 2>/dev/null || true; }

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(of_commit %ct)}
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}"

# A commit that is not a release comes before the release that follows it.
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
if [ -n "${VERSION:-}" ]; then
    version=$VERSION
elif [ -n "$(of_commit %h)" ] && [ "$(git describe --exact-match --tags 2>/dev/null || true)" != "v$version" ]; then
    version="$version~git$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M).$(of_commit %h)"
fi
architecture=$(dpkg --print-architecture)

name=${DEBFULLNAME:-$(of_commit %an)}
address=${DEBEMAIL:-$(of_commit %ae)}
maintainer="${name:-$(id -un)} <${address:-$(id -un)@$(uname -n)}>"

# What the binary asks of the C library, by the versions of the symbols it uses.
glibc=$(readelf --version-info --wide "$binary" | grep -o 'GLIBC_[0-9.]*' | sort --unique --version-sort | tail -n 1)
[ -n "$glibc" ] || fail "$binary does not say which C library it needs"
depends="libc6 (>= ${glibc#GLIBC_})"
for library in $(readelf --dynamic --wide "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $library in
        libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | ld-linux*) ;;
        libgcc_s.so.1) depends="$depends, libgcc-s1" ;;
        *) fail "$binary needs $library, and no package is known that has it: add it to scripts/deb.sh" ;;
    esac
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
umask 022
tree=$work/tree
mkdir "$tree"

PREFIX=/usr DESTDIR=$tree ZSH_COMPLETIONS=/usr/share/zsh/vendor-completions scripts/install.sh "$binary"

# dpkg knows what it has installed, and has names of its own for some of it.
documents=$tree/usr/share/doc/windlass
rm -r "$tree/usr/share/windlass" "$documents/LICENSE" "$documents/config.yaml"
gzip -9n "$tree"/usr/share/man/man1/*.1
install -m 644 deploy/debian/copyright "$documents/copyright"
mkdir -p "$tree/usr/share/lintian/overrides"
install -m 644 deploy/debian/lintian-overrides "$tree/usr/share/lintian/overrides/windlass"
gzip -9n <"$documents/CHANGELOG.md" >"$documents/changelog.gz"
rm "$documents/CHANGELOG.md"
{
    printf 'windlass (%s) unstable; urgency=medium\n\n' "$version"
    printf '  * Built from the sources; changelog.gz beside this tells what has changed.\n\n'
    printf ' -- %s  %s\n' "$maintainer" "$(date --utc --date="@$SOURCE_DATE_EPOCH" --rfc-email)"
} | gzip -9n >"$documents/changelog.Debian.gz"

mkdir "$tree/DEBIAN"
size=$(du --summarize --apparent-size --block-size=1024 "$tree" | cut -f 1)
sed -e "s|@version@|$version|; s|@architecture@|$architecture|; s|@maintainer@|$maintainer|" \
    -e "s|@size@|$size|; s|@depends@|$depends|" deploy/debian/control.in >"$tree/DEBIAN/control"
echo /etc/windlass/config.yaml >"$tree/DEBIAN/conffiles"
(cd "$tree" && find etc usr -type f ! -path etc/windlass/config.yaml | LC_ALL=C sort | xargs md5sum) >"$tree/DEBIAN/md5sums"
for script in postinst prerm postrm; do install -m 755 "deploy/debian/$script" "$tree/DEBIAN/$script"; done

mkdir -p "$out"
package=$out/windlass_${version}_$architecture.deb
find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group --build "$tree" "$package" >/dev/null
printf '%s\n' "$package"
