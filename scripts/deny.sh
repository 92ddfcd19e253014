#!/bin/sh
# Checks the licences, duplicates and origins of the dependencies against deny.toml.
#
# cargo-deny is a tool that not everybody has: without it the check is skipped, and says so. In CI it is installed first;
# without optimisation, which takes a third of the time (about 80 s on two processors) and is fast enough here.
# Advisories need a database from elsewhere and change without the project changing, so `make audit` has them.
set -eu

cd "$(dirname "$0")/.."
version=0.20.2

if ! cargo deny --version >/dev/null 2>&1; then
    if [ "${CI:-}" != true ]; then
        echo "SKIPPED: licences, duplicates and origins of dependencies were not checked, for cargo-deny is missing."
        echo "         This installs it: cargo install cargo-deny --locked"
        exit 0
    fi
    CARGO_PROFILE_DEV_DEBUG=0 cargo install cargo-deny --version "$version" --locked --debug
fi
cargo deny --locked check bans licenses sources
