#!/usr/bin/env bash
# Instructions that this checkout's program executes per request, per datagram and per write of 64 bytes that is echoed, over those
# of another program, such as one of an earlier commit. Target: 1.01 for each.
#
# usage: REFERENCE=PROGRAM bench/instructions.sh [ROUNDS]      default: 3 rounds
#
# Callgrind counts the instructions of one side, and the other side runs natively. Each figure is the difference between a
# long and a short run, so that starting and ending cancel out. One request, datagram or write is in flight, so that every turn
# of the engine handles one; the engine is epoll, as valgrind does not implement io_uring. The kernel's instructions are not
# counted. Busy machines change these figures little.
#
# Exit code: 0 if no target is missed, 1 if one is, 77 if this machine cannot run it.
set -euo pipefail
. "$(dirname "$0")/common.sh"

rounds=${1:-3}
target=1.01
short=2000
long=12000
need valgrind curl
: "${REFERENCE:?is the program to compare with}"
CORELANE=$(realpath "$(program)")
folder=$(mktemp -d)
server=
finish() {
  [[ -z $server ]] || end "$server"
  rm -r "$folder"
}
trap finish EXIT

counted() {
  rm -f "$folder"/count*
  valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file="$folder/count" "$@" >"$folder/output" 2>&1
}
# Of the worker, the second thread: what the first one executes depends on how long the run took.
collected() { awk '/^totals:/ { print $2 }' "$folder/count-02"; }

# Starts the server `$1` of the program `$2`; with `counted` as `$3` under callgrind.
serve() {
  local address=127.0.0.1:18480 mode=
  [[ $1 != tcp ]] || mode="--mode echo"
  rm -f "$folder/ready"
  ${3:-} "$2" serve "$1" "$address" $mode --buckets 1 --engine epoll --write-steering "$folder/ready" >"$folder/served" 2>&1 &
  server=$!
  until_done test -s "$folder/ready"
}

# Arguments of a client that sends `$2` requests or datagrams to the server `$1`, one at a time. Writes have no count: a client
# that keeps a rate looks every 20 ms whether a write is due, and one of 64 bytes then is.
client() {
  case $1 in
    http) echo load http http://127.0.0.1:18480/size/1024 --connections 1 --gather 0s --count "$2" ;;
    udp) echo load udp 127.0.0.1:18480 --flows 1 --window 1 --count "$2" ;;
    tcp) echo load tcp 127.0.0.1:18480 --connections 1 --direction both --size 64 \
      --rate-per-connection 3200B/s --duration "$2ms" ;;
  esac
  echo --workers 1 --engine epoll
}

# Requests, datagrams or writes by which a long run to the server `$1` exceeds a short one.
more() { [[ $1 == tcp ]] && echo $(((long - short) / 20)) || echo $((long - short)); }

# Instructions of the client of the server `$1` per request, datagram or write; the program is `$2`.
of_client() {
  local counts=() count
  serve "$1" "$2"
  for count in $short $long; do
    counted "$2" $(client "$1" "$count")
    counts+=("$(collected)")
  done
  end "$server"
  server=
  awk "BEGIN { print (${counts[1]} - ${counts[0]}) / $(more "$1") }"
}

# Instructions of the server `$1` per request, datagram or write; the program is `$2`.
of_server() {
  local counts=() count valgrind
  for count in $short $long; do
    serve "$1" "$2" counted
    "$2" $(client "$1" "$count") >"$folder/output" 2>&1
    # The server is the child of the shell that `counted` runs in.
    valgrind=$(pgrep -P "$server")
    kill -INT "$valgrind"
    wait "$server" || true
    server=
    counts+=("$(collected)")
  done
  awk "BEGIN { print (${counts[1]} - ${counts[0]}) / $(more "$1") }"
}

for ((round = 0; round < rounds; round++)); do
  for what in http udp tcp; do
    for side in client server; do
      "of_$side" "$what" "$CORELANE" >>"$folder/$what.$side.new"
      "of_$side" "$what" "$REFERENCE" >>"$folder/$what.$side.reference"
    done
  done
done
for what in http udp tcp; do
  for side in client server; do
    compared "instructions of $what, $side" "$folder/$what.$side.new" "$folder/$what.$side.reference" "<=" "$target"
  done
done
conclude
