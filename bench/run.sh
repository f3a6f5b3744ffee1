#!/usr/bin/env bash
# Runs the benchmarks of the repository, one after the other: each prints its figures as ratios to a reference of the
# same run. Idle machines give better numbers; `corelane lab` reports disturbances. About half an hour. Not among them are
# those that take more or a second program (bench/first.sh, handshakes.sh, instructions.sh, million.sh, static.sh) and the memory nodes of an emulator (corelane-cli's nodes).
set -euo pipefail
cd "$(dirname "$0")/.."
. bench/common.sh
# All scripts measure one program: $CORELANE, or this checkout's.
CORELANE=$(realpath "$(program)")
export CORELANE

say() { printf '\n== %s\n' "$1"; }

say "Toeplitz, every way against the oracle (targets: tables 1/15, single 1/20 and 1/35, batches 1/100)"
cargo bench --quiet --package corelane-rss --bench toeplitz

say "datagrams a server CPU-second, every way against one at a time (targets: batch 1.12, coalesced 1.4, GRO and GSO 15)"
"$CORELANE" lab engines

say "CPU a frame at all buckets against one (target: at most 1.15)"
bench/scale.sh

# The remaining benchmarks run even if a target was missed or a tool is missing.
missed=0
for script in flood wildcard metrics sockets watching verify http-server http-client connections cold-files loading memcached memcached-keys memcached-prefetch; do
  say "bench/$script.sh"
  "bench/$script.sh" || { [ $? -eq 77 ] || missed=1; }
done

say "software RSS on veth against no steering, RPS beside it (targets: 99 % of datagrams on their CPU, at 0.9 of the rate)"
"$CORELANE" lab path software-rss --packets 300k --rounds 7 --fail-if 'local_share < 99%' --fail-if 'of_none < 0.9' \
  --fail-if 'lost > 0' || [ $? -eq 77 ] || missed=1

say "hit ratios of the store against memcached's policy over the published shapes (target: no more misses in any)"
"$CORELANE" lab cache --sizes 1,5,10,25,50 --fail-if 'misses_ratio > 1' || missed=1

say "tables against the random-line limit and the post's table; dissecting against etherparse"
cargo bench --quiet --package corelane-table --bench tables
cargo bench --quiet --package corelane-packet --bench dissect

say "requests of memcached parsed and answered, against finding their line ends and copying as many bytes"
cargo bench --quiet --package corelane-proto --bench memcached

say "the Internet checksum against a word a step (target: at least 3 from 80 bytes on)"
cargo bench --quiet --package corelane-packet --bench sum

say "frames taken out of a VXLAN and dispatched against dissecting and hashing both headers (target: at least 0.7)"
cargo bench --quiet --package corelane-stage --bench decapsulate

say "all stages with nothing to do against dissecting and hashing alone (target: at least 0.5)"
cargo bench --quiet --package corelane-stage --bench way

say "datagrams of two fragments made whole, against smoltcp (target: at least 4) and plain frames (target: at least 1/6)"
cargo bench --quiet --package corelane-stage --bench reassembly

say "inferring a device from samples (target: 100,000 in a few seconds, growing with their number)"
cargo bench --quiet --package corelane-rss --bench infer

say "planning 100,000 flows against hashing their tuples (target: at most 2)"
cargo bench --quiet --package corelane-rss --bench plan

say "connecting from ports whose replies reach the worker's bucket, against plain connect (target: at least 0.9)"
cargo bench --quiet --package corelane-worker --bench connect || missed=1

say "AF_XDP on veth against a bare receive loop (target: at least 0.95)"
cargo bench --quiet --package corelane-link --bench veth

say "the bridge on rings against the bare table, and against one frame at a time on the post's table (targets: 0.5, 3)"
cargo bench --quiet --package corelane-serve --bench bridge

say "packets per aggregation in sorted batches and in a list of eight, and the CPU time of merging and receiving against receiving one by one (targets: at least 3, under 1.2, at most 1)"
cargo bench --quiet --package corelane-serve --bench coalesce || missed=1

say "a UDP server that measures the load of each entry against one that does not (target: at most 1.02)"
cargo bench --quiet --package corelane-serve --bench rebalancing || missed=1

exit "$missed"
