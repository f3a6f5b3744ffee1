#!/usr/bin/env bash
# Every benchmark of the repository, one after the other: each prints its figures as ratios to a reference of the same run.
# Quiet machines give better numbers; `corelane lab` says what spoils them. About ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$1"; }

say "Toeplitz, every way against the oracle (targets: tables 1/15, single 1/20 and 1/35, batches 1/100)"
cargo bench --quiet --package corelane-rss --bench toeplitz

say "datagrams a server CPU-second, every way against one at a time (targets: batch 1.12, coalesced 1.4, GRO and GSO 15)"
cargo run --release --quiet --bin corelane -- lab engines

say "CPU a frame at all buckets against one (target: at most 1.15)"
bench/scale.sh

for script in flood sockets watching; do
  [ -x "bench/$script.sh" ] || continue
  say "bench/$script.sh"
  "bench/$script.sh"
done

say "tables against the random-line limit and the post's table; dissecting against etherparse"
cargo bench --quiet --package corelane-table --bench tables
cargo bench --quiet --package corelane-packet --bench dissect
