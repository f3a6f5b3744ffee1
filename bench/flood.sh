#!/usr/bin/env bash
# The rate at which `corelane load udp` sends datagrams, against `iperf3 -u -b 0`, over one veth pair.
#
# usage: bench/flood.sh [ROUNDS]
#
# Both send 510 bytes from one pinned thread to a socket that drops them, because its buffer is full and no process
# reads it. The receive path runs on the sender's CPU here, so the two sockets must be alike: iperf3's is connected, and
# its process is stopped (SIGSTOP) as soon as data arrives; the other is connected, too, by this shell, which never
# reads. The ways alternate; ratios are computed within a round, and their medians reported. The targets are for the
# rate per second of the sender's CPU time, because other programs on the same CPU do not affect it.
#
# Merged datagrams (UDP_SEGMENT) cross veth as one frame. They are segmented only if the receiving socket does not
# accept merged ones, and then by the sender's CPU, because it runs the receive path here. Both kinds of receiver are
# measured; the counts are of datagrams.
#
# Exit code: 0 if both targets are met, 1 if not, 77 if this machine cannot run it.
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

# The ports of the two ends: a range of one port leaves the kernel no choice.
server_port=8080
client_port=9090
ports() { "$1" sysctl -qw "net.ipv4.ip_local_port_range=$2 $3"; }

# Floods server_port; the arguments are flags of the generator.
flood() {
  { time client taskset -c "$cpu" "$corelane" load udp "10.11.2.1:$server_port" --sources 10.11.2.2 --workers 1 \
    --cpus "$cpu" --no-answers --duration "${seconds}s" "$@" --json >"$scratch/sent"; } 2>"$scratch/time"
}

# Floods a plain connected socket.
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

# Floods a socket that accepts merged datagrams, which this shell cannot create: that of a stopped server.
flood_merged() {
  server_in_background "$corelane" serve udp "10.11.2.1:$server_port" --sink --gro --json
  local receiver=$!
  until_done holds_udp "$server_port"
  kill -STOP "$receiver"
  flood "${@:2}"
  end "$receiver"
  record "$1" .total.sent
}

# At its end iperf3 exchanges results with its receiver, which must run again by then.
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

# Records datagrams per second and per second of the sender's CPU time; the second argument is the jq path of the count.
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

# Prints the median rates of a way, and the medians of its ratios to iperf3 within a round.
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
