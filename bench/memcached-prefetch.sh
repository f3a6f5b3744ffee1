#!/usr/bin/env bash
# Keys per second of CPU time that `corelane serve memcached` serves with loading ahead of requests, against the same program without
# (--no-prefetch).
#
# usage: bench/memcached-prefetch.sh [ROUNDS [KEYS]]
#
# Requests for 50 keys of 32 bytes, values of 100, of 10 M keys by default, which take 2 GiB in each server. One worker on CPU 0 each, the
# generator on CPU 1; they take turns within a round.
#
# Exit code: 0 if the target is met, 1 if not, 77 if this machine cannot run it.
set -euo pipefail
. "$(dirname "$0")/common.sh"

rounds=${1:-5}
keys=${2:-10M}

need taskset jq
serve_and_load

# Sends requests to a port; prints the report.
load() {
  local port=$1
  shift
  taskset -c 1 "$corelane" load memcached "127.0.0.1:$port" --keys "$keys" --connections 64 --cpus 1 --workers 1 --gather 0s \
    --json "$@" 2>>"$folder/load.log"
}

# Starts a server on port `$1` with further flags, and stores all keys; sets `pid`.
start() {
  local port=$1
  shift
  taskset -c 0 "$corelane" serve memcached --cpus 0 -l 127.0.0.1 -p "$port" -t 1 -m 4096 --json "$@" >"$folder/$port.log" 2>&1 &
  pid=$!
  pids+=("$pid")
  until_done load "$port" --prefill --count 1 >"$folder/prefilled"
}

# Keys per second of CPU time of the process `$1`, which listens on the port `$2`.
measure() {
  local before requests after
  before=$(cpu_seconds "$1")
  requests=$(load "$2" --duration 2s --mix get=1 --multi-get 50 | jq .requests.ok)
  after=$(cpu_seconds "$1")
  awk "BEGIN { printf \"%.0f\\n\", $requests * 50 / ($after - $before) }"
}

start 18121 --no-prefetch
without=$pid
start 18122
with=$pid
for ((round = 0; round < rounds; round++)); do
  measure "$without" 18121 >>"$folder/without"
  measure "$with" 18122 >>"$folder/with"
done
compared "get-50-keys, $keys keys, prefetched" "$folder/with" "$folder/without" ">=" 1.3
conclude
