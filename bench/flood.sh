#!/usr/bin/env bash
# How many datagrams `corelane load udp` floods, against `iperf3 -u -b 0`, over one veth pair.
#
# usage: bench/flood.sh [ROUNDS]
#
# Both send 510 bytes from one pinned thread to a socket that drops: its buffer is full and nobody reads. The receive path
# runs on the sender's CPU here, so that the two sockets must be alike: iperf3's is connected, and its process is stopped
# (SIGSTOP) as soon as data arrives; the other is connected too, by this shell, which never reads. Ways take turns; ratios
# are taken within a round, and medians told. Judged is a second of the sender's CPU time, which other programs on the
# same CPU cannot take away.
#
# Merged datagrams (UDP_SEGMENT) cross veth as one frame and are cut only if the receiving socket asks for single ones,
# by the sender's CPU, since that runs the receive path here. Both kinds of receiver are shown; datagrams are counted.
#
# Exit code: 0 when both targets are met, 1 when not, 77 when it cannot run here.
set -euo pipefail
. "$(dirname "$0")/veth.sh"

rounds=${1:-5}
seconds=2
target_single=1.1
target_merged=15
cpu=$(taskset -cp $$ | sed 's/.*[-, ]//')

need iperf3 jq taskset sysctl
corelane=$(program)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
TIMEFORMAT='%R %U %S'

# The ports of the two ends: where a range holds one, the kernel has no choice.
server_port=8080
client_port=9090
ports() { "$1" sysctl -qw "net.ipv4.ip_local_port_range=$2 $3"; }

# Floods server_port; the arguments are how.
flood() {
  { time client taskset -c "$cpu" "$corelane" load udp "10.11.2.1:$server_port" --sources 10.11.2.2 --workers 1 \
    --cpus "$cpu" --no-answers --duration "${seconds}s" "$@" --json >"$scratch/sent"; } 2>"$scratch/time"
}

# To a plain connected socket.
flood_plain() {
  ports client "$client_port" "$client_port"
  ports server "$server_port" "$server_port"
  server_in_background bash -c "exec 3<>/dev/udp/10.11.2.2/$client_port; exec sleep 60"
  local receiver=$!
  until_done holds_udp "$server_port"
  flood "${@:2}"
  end "$receiver"
  ports client 32768 60999
  ports server 32768 60999
  record "$1" .total.sent
}

# To a socket that takes merged datagrams whole, which this shell cannot make: a stopped server's.
flood_merged() {
  server_in_background "$corelane" serve udp "10.11.2.1:$server_port" --sink --gro --json
  local receiver=$!
  until_done holds_udp "$server_port"
  kill -STOP "$receiver"
  flood "${@:2}"
  end "$receiver"
  record "$1" .total.sent
}

# iperf3's own farewell needs its receiver again.
iperf() {
  server_in_background iperf3 --server --one-off
  local receiver=$! before
  until_done server_listens_tcp 5201
  before=$(received)
  (until_done receives_since "$before"; kill -STOP "$receiver"; sleep "$seconds"; kill -CONT "$receiver") &
  { time client taskset -c "$cpu" iperf3 --client 10.11.2.1 --udp --length 510 --bitrate 0 --time "$seconds" --json \
    >"$scratch/sent"; } 2>"$scratch/time"
  wait "$receiver" || true
  record iperf3 .end.sum_sent.packets
}

received() { server awk '/^Udp: [0-9]/ { print $2 }' /proc/net/snmp; }
receives_since() { (($(received) > $1 + 100)); }

# Notes datagrams a second, and a second of the sender's CPU time; the second argument finds the count in its report.
record() {
  awk -v sent="$(jq "$2" "$scratch/sent")" -v seconds="$seconds" '{ printf "%.0f %.0f\n", sent / seconds, sent / ($2 + $3) }' \
    "$scratch/time" >>"$scratch/rates.$1"
}

for _ in $(seq "$rounds"); do
  iperf
  flood_plain single
  flood_merged merged --gso
  flood_plain cut --gso
done

# Median rates of a way, and the medians of its ratios to iperf3 within a round.
row() {
  local name=$1 words=$2
  paste -d' ' "$scratch/rates.$name" "$scratch/rates.iperf3" >"$scratch/pairs"
  printf '%-44s %12s %12s %9s %9s\n' "$words" \
    "$(awk '{ print $1 }' "$scratch/pairs" | median)" "$(awk '{ print $2 }' "$scratch/pairs" | median)" \
    "$(awk '{ printf "%.2f\n", $1 / $3 }' "$scratch/pairs" | median)" \
    "$(awk '{ printf "%.2f\n", $2 / $4 }' "$scratch/pairs" | median)"
}

printf 'UDP flood of 510 bytes from one thread, datagrams, medians of %s rounds of %s s\n' "$rounds" "$seconds"
printf '%-44s %12s %12s %9s %9s\n' "" "/s" "/CPU s" "x iperf3" "x iperf3"
row iperf3 "iperf3 -u -l 510 -b 0"
row single "corelane load udp"
row merged "corelane load udp --gso, to a GRO socket"
row cut "corelane load udp --gso, to a plain socket"
single=$(row single . | awk '{ print $NF }')
merged=$(row merged . | awk '{ print $NF }')
verdict "flood, a datagram a send, by CPU time" "$single" ">=" "$target_single"
verdict "flood, merged, by CPU time" "$merged" ">=" "$target_merged"
conclude
