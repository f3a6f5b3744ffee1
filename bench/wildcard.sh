#!/usr/bin/env bash
# What a wildcard address costs `corelane serve udp`: CPU time per datagram answered, over that on a named address.
#
# usage: bench/wildcard.sh [ROUNDS [SECONDS]]
#
# On a wildcard address the kernel reports the destination of each datagram and takes the source of each answer. One
# bucket answers a closed loop of datagrams of 510 bytes over a veth pair; its time includes the receive path of the
# clients, which runs on the sender's CPU here. Servers take turns; ratios are computed within a round.
#
# Exit code: 0 if no target is missed, 1 if one is, 77 if this machine cannot run it.
set -euo pipefail
. "$(dirname "$0")/veth.sh"

rounds=${1:-9}
seconds=${2:-1}
target=1.03

need jq taskset
corelane=$(program)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t cpus < <(allowed_cpus)
server ip addr add fd11::1/64 dev veth0 nodad
client ip addr add fd11::2/64 dev veth1 nodad

# Records nanoseconds per answer of a server on the first address, asked at the second.
measure() {
  local name=$1 listen=$2 ask=$3 pid before answered
  server_in_background "$corelane" serve udp "$listen" --buckets 1 --cpus "${cpus[0]}" --json
  pid=$!
  until_done holds_udp 8080
  before=$(run_time "$pid")
  client "$corelane" load udp "$ask" --workers 1 --cpus "${cpus[-1]}" --sockets 16 --window 128 \
    --duration "${seconds}s" --json >"$scratch/loaded"
  answered=$(jq .total.returned "$scratch/loaded")
  awk -v run="$(($(run_time "$pid") - before))" -v answered="$answered" 'BEGIN { print run / answered }' \
    >>"$scratch/cost.$name"
  end "$pid"
}

for _ in $(seq "$rounds"); do
  measure named4 10.11.2.1:8080 10.11.2.1:8080
  measure any4 0.0.0.0:8080 10.11.2.1:8080
  measure both4 '[::]:8080' 10.11.2.1:8080
  measure named6 '[fd11::1]:8080' '[fd11::1]:8080'
  measure both6 '[::]:8080' '[fd11::1]:8080'
done

echo "CPU time per datagram answered, over a named address, medians of $rounds rounds of $seconds s"
cost=$scratch/cost
compared "0.0.0.0 asked over IPv4, ns" "$cost.any4" "$cost.named4" "<=" "$target"
compared "[::] asked over IPv4, ns" "$cost.both4" "$cost.named4" "<=" "$target"
compared "[::] asked over IPv6, ns" "$cost.both6" "$cost.named6" "<=" "$target"
conclude
