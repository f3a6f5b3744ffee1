#!/usr/bin/env bash
# The user-space memory of a client socket of `corelane load udp`: resident memory of the process with 65,536 sockets,
# minus that with one, divided by the difference in sockets; with the descriptors that this machine allows, and with
# 20,000.
#
# usage: bench/sockets.sh
#
# 65,536 sockets are more than one address has ports, and more than a process may have descriptors if the limit is
# 20,000: then workers use descriptor tables of their own. Memory is read after every socket has sent (RssAnon:
# anonymous pages, not those of the program's file). The kernel's memory for a socket is not included.
#
# Exit code: 0 if the target is met, 1 if not, 77 if this machine cannot run it.
set -euo pipefail
. "$(dirname "$0")/veth.sh"

sockets=65536
target_bytes=1024
rate=70000

need jq
corelane=$(program)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
client ip addr add 10.11.2.3/24 dev veth1
server_in_background "$corelane" serve udp 10.11.2.1:8080 --sink --json
receiver=$!
until_done holds_udp 8080

# Resident bytes of a generator with this number of sockets and this descriptor limit.
resident() {
  local count=$1 limit=$2 generator
  (
    ulimit -n "$limit"
    exec nsenter --net="/proc/$client_holder/ns/net" -- "$corelane" load udp 10.11.2.1:8080 --no-answers \
      --sources 10.11.2.2,10.11.2.3 --sockets "$count" --workers 1 --rate "$rate" --duration 30s \
      --timeline "$scratch/timeline" >"$scratch/lines" 2>&1
  ) &
  generator=$!
  # Sockets take turns, so twice as many datagrams as sockets use every one; opening them takes a while.
  while (($(sent) < 2 * count)); do
    kill -0 "$generator" 2>/dev/null || { cat "$scratch/lines" >&2; return 1; }
    sleep 0.05
  done
  awk '/^RssAnon:/ { print $2 * 1024 }' "/proc/$generator/status"
  end "$generator"
}

# Datagrams sent so far.
sent() { jq --slurp 'map(.counts.sent // 0) | add // 0' "$scratch/timeline"; }

most=$(ulimit -Hn)
[[ $most == unlimited ]] && most=1048576
for limit in "$most" 20000; do
  ((limit > most)) && continue
  : >"$scratch/timeline"
  one=$(resident 1 "$limit")
  : >"$scratch/timeline"
  many=$(resident "$sockets" "$limit")
  bytes=$(((many - one) / (sockets - 1)))
  verdict "bytes a socket, $limit descriptors a table" "$bytes" "<=" "$target_bytes"
  [[ $most == 20000 ]] && break
done
end "$receiver"
conclude
