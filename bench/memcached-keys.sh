#!/usr/bin/env bash
# Keys per second of CPU time that `corelane serve memcached` serves with several workers, by the way in which requests reach the
# worker that owns their key, against handing them over.
#
# usage: bench/memcached-keys.sh [ROUNDS [WORKERS]]
#
# All workers share CPU 0, so that the CPU time of a request counts and not how many of them run at a time; `corelane load memcached`
# on CPU 1 reads 100,000 keys of 32 bytes with values of 100. Over TCP connections are aligned with the owners of their keys
# (--align owner) or not; over UDP the server steers datagrams by key (--steer-keys) or by the table. The ways alternate within a
# round; ratios are computed within a round, and their medians reported.
#
# Exit code: 0 if no way costs more than handing over, 1 if one does, 77 if this machine cannot run it.
set -euo pipefail
. "$(dirname "$0")/common.sh"

rounds=${1:-5}
workers=${2:-4}
seconds=2

need taskset jq
serve_and_load

# Sends requests to a port; prints the report.
load() {
  local port=$1
  shift
  taskset -c 1 "$corelane" load memcached "127.0.0.1:$port" --keys 100k --connections 64 --cpus 1 --mix get=1 --json "$@" \
    2>>"$folder/load.log"
}

# Starts a server on a port with flags, and stores all keys; sets `pid`.
start() {
  local port=$1
  shift
  taskset -c 0 "$corelane" serve memcached -l 127.0.0.1 -p "$port" -U "$port" -t "$workers" --cpus 0 -m 1024 --json "$@" \
    >"$folder/$port.json" 2>"$folder/$port.log" &
  pid=$!
  pids+=("$pid")
  until_done load "$port" --prefill --count 1 >"$folder/prefilled"
}

# Keys per second of CPU time of the process `$1`, which listens on the port `$2`.
measure() {
  local server=$1 port=$2 before after answers
  shift 2
  before=$(cpu_seconds "$server")
  answers=$(load "$port" --duration "${seconds}s" "$@" | jq '.requests.ok // .total.returned')
  after=$(cpu_seconds "$server")
  awk -v keys="$answers" -v cpu="$(awk "BEGIN { print $after - $before }")" 'BEGIN { printf "%.0f\n", keys / cpu }'
}

start 18121
table=$pid
start 18122 --steer-keys || { cat "$folder/18122.log" >&2; exit 77; }
keyed=$pid

# Against handing over, one way: its name, the server's process and port, the flags of both, then those of this way.
compare() {
  local what=$1 server=$2 port=$3 flags=$4 own=$5 round
  for ((round = 0; round < rounds; round++)); do
    # shellcheck disable=SC2086 # several flags
    measure "$table" 18121 $flags >>"$folder/$what.reference"
    # shellcheck disable=SC2086
    measure "$server" "$port" $flags $own >>"$folder/$what.ours"
  done
  compared "$what" "$folder/$what.ours" "$folder/$what.reference" ">=" 1
}

compare tcp-aligned "$table" 18121 "--gather 0s" "--align owner"
compare tcp-aligned-16-deep "$table" 18121 "--gather 0s --pipeline 16" "--align owner"
compare udp-steered-by-key "$keyed" 18122 "--udp --window 4" ""
conclude
