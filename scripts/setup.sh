#!/bin/sh
# Makes sure that what the Makefile's commands need is there, and says nothing when it is.
#
#   scripts/setup.sh build    Rust, a C compiler and linker, certificates for crates.io
#   scripts/setup.sh demo     the same, and what the demo needs
#   scripts/setup.sh bench    the same as build, what the kubelet's volume manager is built with, and for root what drivers need
#   scripts/setup.sh fuzz     the same as build, a C++ compiler, a nightly Rust, and cargo-fuzz
#   scripts/setup.sh check    the same as build, rustfmt and clippy, and for root what its tests need
#
# What Debian and Ubuntu have as a package is installed when this runs as root; otherwise it is named with the command
# that installs it. Rust is installed only where there is none and the package is new enough: which toolchain a machine
# has is its owner's business, so the rest is said and left to do.
set -eu

cd "$(dirname "$0")/.."

# Only Cargo.toml says which Rust is needed.
wanted=$(sed -n 's/^rust-version = "\([0-9.]*\)"$/\1/p' Cargo.toml)

say() { printf 'setup: %s\n' "$*" >&2; }

# fail LINE...: ends with these lines.
fail() {
    say "$1"
    shift
    [ $# -eq 0 ] || printf '       %s\n' "$@" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

root() { [ "$(id -u)" -eq 0 ]; }

# at_least HAS WANTS: is the first version the second or newer? Compares major and minor.
at_least() {
    awk -v has="$1" -v wants="$2" 'BEGIN {
        split(has, h, "."); split(wants, w, ".")
        exit !(h[1] + 0 > w[1] + 0 || (h[1] + 0 == w[1] + 0 && h[2] + 0 >= w[2] + 0))
    }'
}

# install_packages PACKAGE...: installs as root, else ends with the command that does it.
install_packages() {
    have apt-get || fail "missing: what Debian calls $*" "Install it with the package manager of this system."
    root || fail "missing: $*. This installs it:" \
        "sudo apt-get update && sudo apt-get install -y --no-install-recommends $*"
    say "installing $*"
    log=$(mktemp)
    # An archive that is away need not stop the install: a failed update shows only if the install fails too.
    apt-get update >"$log" 2>&1 </dev/null || true
    if ! DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        rm -f "$log"
        fail "could not install $*; what apt-get said is above"
    fi
    rm -f "$log"
}

# Is there a package of Rust that is new enough? A fresh image has no package lists yet.
packaged() {
    have apt-cache || return 1
    if root; then apt-get update >/dev/null 2>&1 </dev/null || true; fi
    candidate=$(apt-cache policy rustc 2>/dev/null | sed -n 's/^ *Candidate: \([0-9][0-9.]*\).*/\1/p')
    [ -n "$candidate" ] && at_least "$candidate" "$wanted"
}

# fail_for_rust WHY: ends with what to do to get a Rust that is new enough.
fail_for_rust() {
    if have rustup; then
        fail "$1" "windlass needs Rust $wanted or newer. This installs it:" \
            "rustup update stable && rustup default stable"
    fi
    curl=
    have curl || ! have apt-get || curl="apt-get install -y curl ca-certificates && "
    fail "$1" "windlass needs Rust $wanted or newer. rustup (https://rustup.rs) installs it:" \
        "${curl}curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" \
        "A package of the distribution serves as well if it is new enough: apt-cache policy rustc"
}

rust() {
    for tool in cargo rustc; do
        have "$tool" && continue
        packaged || fail_for_rust "$tool is not installed, or not on the PATH"
        install_packages cargo rustc
    done
    for tool in cargo rustc; do
        # With rustup and no toolchain, cargo is there and does not run.
        if ! answer=$("$tool" --version 2>&1); then
            printf '%s\n' "$answer" >&2
            fail_for_rust "'$tool --version' failed; what it said is above"
        fi
        version=$(printf '%s\n' "$answer" | sed -n "s/^$tool \([0-9][0-9.]*\).*/\1/p")
        at_least "${version:-0}" "$wanted" || fail_for_rust "$(command -v "$tool") is too old: $answer"
    done
}

# Can cc link a program, as cargo asks it to? A gcc without libc6-dev cannot.
links() {
    have cc || return 1
    directory=$(mktemp -d)
    echo 'int main(void) { return 0; }' >"$directory/main.c"
    status=0
    cc -o "$directory/main" "$directory/main.c" 2>/dev/null || status=1
    rm -rf "$directory"
    return $status
}

# Can crates.io be trusted? Cargo brings no certificates. Where others keep theirs is not known here: only Debian is asked.
trusts() {
    [ -z "${CARGO_HTTP_CAINFO:-}${SSL_CERT_FILE:-}${SSL_CERT_DIR:-}" ] || return 0
    [ ! -e /etc/debian_version ] || [ -s /etc/ssl/certs/ca-certificates.crt ]
}

system() {
    set --
    links || set -- "$@" gcc libc6-dev
    trusts || set -- "$@" ca-certificates
    [ $# -gt 0 ] || return 0
    install_packages "$@"
    links || fail "$(command -v cc) is there and cannot link a C program, so cargo could not either"
}

lints() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return 0
    if have rustup; then
        say "rustup component add rustfmt clippy"
        rustup component add rustfmt clippy >&2 </dev/null || fail "rustup could not; once it can, run:" \
            "rustup component add rustfmt clippy"
    # The packages go with the packaged Rust only.
    elif have dpkg && dpkg --search "$(command -v cargo)" >/dev/null 2>&1; then
        install_packages rustfmt rust-clippy
    fi
    for tool in fmt clippy; do
        cargo "$tool" --version >/dev/null 2>&1 ||
            fail "'cargo $tool' is missing from the toolchain of $(command -v cargo): add it there, or use rustup"
    done
}

# What puts file systems on loop devices, tests and the benchmark, runs only as root, and only where there are loop devices.
filesystems() {
    root && [ -e /dev/loop-control ] && have apt-get || return 0
    set --
    have blkid && have fsck || set -- "$@" util-linux
    have losetup || set -- "$@" mount
    have mkfs.ext4 && have resize2fs && have debugfs || set -- "$@" e2fsprogs
    have mkfs.xfs && have xfs_growfs || set -- "$@" xfsprogs
    have mkfs.btrfs && have btrfs || set -- "$@" btrfs-progs
    [ $# -eq 0 ] || install_packages "$@"
}

# The golden cases run only as root, and the API is tested by a program in Python.
golden() {
    root && have apt-get || return 0
    set --
    have python3 || set -- "$@" python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || set -- "$@" python3-venv
    have unshare || set -- "$@" util-linux
    [ $# -eq 0 ] || install_packages "$@"
}

# What a pod costs is counted by strace; without it that test says that it was skipped.
costs() {
    root && have apt-get || return 0
    have strace || install_packages strace
}

# What is counted is checked by promtool; without it that test says that it was skipped.
metrics() {
    root && have apt-get || return 0
    have promtool || install_packages prometheus
}

# Containers are started only as root.
containers() {
    root && have apt-get || return 0
    set --
    have runc || set -- "$@" runc
    have busybox || set -- "$@" busybox-static
    have podman || set -- "$@" podman
    [ $# -eq 0 ] || install_packages "$@"
}

# The CSI driver is tested by a program in Go, as root and where there are loop devices. One that is too old and may not
# fetch a newer one is said to be by the test.
sanity() {
    root && [ -e /dev/loop-control ] && have apt-get || return 0
    have go || install_packages golang-go
}

# The demo makes a key to sign tokens with, and its namespace.
demo() {
    set --
    have openssl || set -- "$@" openssl
    have unshare && have setpriv || set -- "$@" util-linux
    [ $# -eq 0 ] || install_packages "$@"
}

# The kubelet's volume manager is written in Go. A Go of at least 1.21 that is too old fetches the one that go.mod asks for
# by itself, unless GOTOOLCHAIN forbids it.
go_wanted=$(sed -n 's/^go \([0-9.]*\)$/\1/p' bench/kubelet/go.mod)

# go_version: that of the Go that builds bench/kubelet.
go_version() { (cd bench/kubelet && go env GOVERSION) 2>/dev/null | sed -n 's/^go\([0-9][0-9.]*\).*/\1/p'; }

# fail_for_go WHY: ends with what to do to get a Go that is new enough.
fail_for_go() {
    machine=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
    fail "$1" "Building the kubelet's volume manager needs Go $go_wanted or newer, or Go 1.21 or newer that may fetch it" \
        "from the module proxy (proxy.golang.org). This installs it:" \
        "curl -sSfL https://go.dev/dl/go$go_wanted.linux-$machine.tar.gz | sudo tar -C /usr/local -xz"
}

golang() {
    if ! have go; then
        have apt-get || fail_for_go "go is not installed"
        install_packages golang-go
    fi
    at_least "$(go_version || true)" "$go_wanted" ||
        fail_for_go "$(command -v go) is too old: $(GOTOOLCHAIN=local go version 2>&1)"
    have setpriv || install_packages util-linux
}

# The fuzzer is built by a nightly toolchain and driven by cargo-fuzz, of which one version is known to fit.
cargo_fuzz_wanted=0.13.2

fuzzer() {
    have c++ || install_packages g++
    cargo +nightly --version >/dev/null 2>&1 || fail "there is no nightly toolchain of Rust. This installs it:" \
        "rustup toolchain install nightly --profile minimal"
    [ "$(cargo fuzz --version 2>/dev/null)" = "cargo-fuzz $cargo_fuzz_wanted" ] && return 0
    say "cargo install cargo-fuzz@$cargo_fuzz_wanted"
    cargo install --locked --quiet "cargo-fuzz@$cargo_fuzz_wanted" >&2 </dev/null ||
        fail "cargo could not; once it can, run:" "cargo install --locked cargo-fuzz@$cargo_fuzz_wanted"
}

case ${1:-} in
    build) rust; system ;;
    demo) rust; system; demo ;;
    bench) rust; system; filesystems; golang ;;
    fuzz) rust; system; fuzzer ;;
    check) rust; system; lints; filesystems; golden; costs; metrics; containers; sanity ;;
    *) fail "usage: scripts/setup.sh build|demo|bench|fuzz|check" ;;
esac
