#!/bin/sh
# Compares what windlass counts with what the kubelet's own volume manager counts of the same pods.
#
#   tests/metrics/run.sh KUBELET
#
# KUBELET is where the kubelet of bench/ is built. What is compared stands in crates/windlass-cli/tests/daemon/metrics.rs.
set -eu

cd "$(dirname "$0")/../.."

subject="the metrics were not compared with the kubelet's"
. tests/script.sh

[ $# -eq 1 ] || fail "usage: tests/metrics/run.sh KUBELET"
[ "$(id -u)" -eq 0 ] || skip "that takes root"
command -v go >/dev/null || skip "go is missing"
mkdir -p "$(dirname "$1")"
if ! go build -C bench/kubelet -o "$1" .; then
    [ "${CI:-}" != true ] || fail "the kubelet's volume manager could not be built; what go said is above"
    skip "the kubelet's volume manager could not be built; what go said is above"
fi
# The whole workspace, which is built already.
WINDLASS_KUBELET=$1 cargo test --workspace --locked --quiet --test daemon the_kubelet_counts_the_same
