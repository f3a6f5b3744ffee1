#!/usr/bin/env bash
# Keys per second of CPU time that `corelane serve memcached` serves with one worker, against memcached 1.6.45 with one thread.
#
# usage: bench/memcached.sh [ROUNDS [KEYS]]
#
# Both serve on CPU 0 and get their requests from CPU 1: `corelane load memcached` with 64 connections or sockets, which processes each
# answer at once (--gather 0s), keys of 32 bytes and values of 100, all of them stored before. The servers alternate within a round;
# ratios are computed within a round, and their medians reported. The rate per second of the server's CPU time counts, because other
# programs on the same CPU do not affect it. Over UDP, 16 requests per socket at a time; merged (GSO, GRO) as many as the kernel merges, 64.
#
# The reference is what tests/prepare.sh built, or $MEMCACHED: before 1.6.20, memcached sends an answer per `get` of a pipeline.
#
# Exit code: 0 if all targets are met, 1 if not, 77 if this machine cannot run it.
set -euo pipefail
. "$(dirname "$0")/common.sh"

rounds=${1:-5}
keys=${2:-1M}
seconds=2

need taskset jq
memcached=${MEMCACHED:-${XDG_CACHE_HOME:-$HOME/.cache}/corelane/memcached/memcached}
[[ -x $memcached ]] || { echo "skipped: $memcached is missing: tests/prepare.sh builds it" >&2; exit 77; }
serve_and_load

# Starts the server `$1` on CPU 0 and port `$2`, and stores all keys; sets `pid`.
start() {
  local name=$1 port=$2
  shift 2
  taskset -c 0 "$@" -l 127.0.0.1 -p "$port" -U "$port" -t 1 -m 4096 -c 1024 >"$folder/$name.log" 2>&1 &
  pid=$!
  pids+=("$pid")
  until_done load "$port" --gather 0s --prefill --count 1 >"$folder/prefilled"
}

# Sends requests to a port; prints the report.
load() {
  local port=$1
  shift
  taskset -c 1 "$corelane" load memcached "127.0.0.1:$port" --keys "$keys" --connections 64 --cpus 1 --workers 1 \
    --json "$@" 2>>"$folder/load.log"
}

# Keys per second of CPU time of the process `$1`, which listens on the port `$2`; a request has `$3` keys.
measure() {
  local server=$1 port=$2 each=$3 before after requests
  shift 3
  before=$(cpu_seconds "$server")
  requests=$(load "$port" --duration "${seconds}s" "$@" | jq '.requests.ok // .total.returned')
  after=$(cpu_seconds "$server")
  awk -v keys="$((requests * each))" -v cpu="$(awk "BEGIN { print $after - $before }")" 'BEGIN { printf "%.0f\n", keys / cpu }'
}

start memcached 18111 "$memcached" -u root
reference=$pid
start corelane 18112 "$corelane" serve memcached --cpus 0 --json
ours=$pid

# One case: its name, the keys of a request, the target, flags of the generator.
compare() {
  local what=$1 each=$2 target=$3 round
  shift 3
  for ((round = 0; round < rounds; round++)); do
    measure "$reference" 18111 "$each" "$@" >>"$folder/$what.reference"
    measure "$ours" 18112 "$each" "$@" >>"$folder/$what.ours"
  done
  compared "$what" "$folder/$what.ours" "$folder/$what.reference" ">=" "$target"
}

compare get 1 1.4 --gather 0s --mix get=1
compare set 1 1.4 --gather 0s --mix set=1
compare get-16-deep 1 3.5 --gather 0s --mix get=1 --pipeline 16
compare set-16-deep 1 3.5 --gather 0s --mix set=1 --pipeline 16
compare get-50-keys 50 5 --gather 0s --mix get=1 --multi-get 50
compare get-udp 1 1.9 --udp --mix get=1 --window 16
compare get-udp-merged 1 10 --udp --mix get=1 --window 64 --gso --gro
conclude
