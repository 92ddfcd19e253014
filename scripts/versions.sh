#!/bin/sh
# Prints the version of each tool that the commands use, for logs and bug reports.

sed -n 's/^PRETTY_NAME="\(.*\)"$/\1/p' /etc/os-release 2>/dev/null
uname -srm
for tool in 'git' 'make' 'cc' 'rustc' 'cargo' 'cargo fmt' 'cargo clippy' 'cargo deny'; do
    # The name of a tool may be two words.
    # shellcheck disable=SC2086
    version=$($tool --version 2>/dev/null | head -n 1)
    echo "${version:-$tool: not there}"
done
