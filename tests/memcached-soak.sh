#!/usr/bin/env bash
# Many operations on serve memcached, each value checked, while items are evicted, expire and are flushed, the index grows, the memory
# limit changes, and one worker or the whole process stands still for a second: over TCP and UDP, with reads from the memory of
# other workers and with handoffs. Fails if an answer is wrong, if what is to happen did not, or if the process ever had more
# memory than docs/MEMCACHED.md states.
#   tests/memcached-soak.sh PROGRAM [OPERATIONS]     default: 30,000,000 in all four runs; some minutes
# A worker is stopped with ptrace, by python3. Nothing that is started outlives the script.
set -euo pipefail
program=${1:?the corelane program} operations=${2:-30000000}
work=$(mktemp -d)
processes=()
finish() {
  kill "${processes[@]}" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

workers=$(($(nproc) > 4 ? $(nproc) : 4))
# The least that a server of so many workers accepts is 8 MiB per worker.
memory_mib=$((12 * workers))
# An address of this process alone.
address=127.$((64 | $$ >> 16 & 63)).$(($$ >> 8 & 255)).$(($$ & 255))
# Every operation; `append` and its like on what `set` has stored.
mix=get=40,gets=4,gat=4,set=20,add=4,replace=4,append=6,prepend=2,cas=4,delete=4,incr=3,decr=3,touch=2

# Sends the commands, one per argument, and prints the answers.
ask() {
  exec 3<>"/dev/tcp/$address/11311"
  printf '%s\r\n' "$@" quit >&3
  timeout 10 tr -d '\r' <&3
  exec 3>&-
}

# Stops one thread for a second; it goes on if this is killed.
stop_thread() {
  timeout 5 python3 - "$1" <<'PYTHON'
import ctypes, sys, time
SEIZE, INTERRUPT = 0x4206, 0x4207
ptrace = ctypes.CDLL(None).ptrace
ptrace.argtypes = [ctypes.c_long] * 4
thread = int(sys.argv[1])
if any(ptrace(request, thread, 0, 0) for request in (SEIZE, INTERRUPT)):
    sys.exit("ptrace is not permitted")
time.sleep(1)
PYTHON
}

# What happens meanwhile, every other second, until the file is gone.
disturb() {
  local server=$1 turn=0 thread
  local threads
  mapfile -t threads < <(grep -l '^bucket' /proc/"$server"/task/*/comm | cut -d/ -f5)
  while [ -e "$work/running" ]; do
    sleep 1
    case $((turn % 4)) in
      0) stop_thread "${threads[turn / 4 % ${#threads[@]}]}" && echo stop ;;
      1) ask flush_all ;;
      2) ask "cache_memlimit $((memory_mib - turn / 4 % 3 * 2 * workers))" ;;
      3) kill -STOP "$server" && sleep 1 && kill -CONT "$server" && echo pause ;;
    esac
    turn=$((turn + 1))
  done
}

# Waits for a process that was started, which must succeed.
succeeds() { wait "$1" || { echo "$2 failed" && tail -n 40 "$work/$2" && exit 1; } >&2; }

# A run: flags of the load, the way of remote reads.
run() {
  local load=$1 reads=$2 name="$1 $2" count=$((operations / 8)) server disturber pids=()
  [ "$load" = udp ] && set -- --udp --window 16 --loss-timeout 5s || set -- --pipeline 16 --timeout 30s
  "$program" serve memcached -l "$address" -p 11311 -U 11311 -t $workers -m $memory_mib --remote-reads "$reads" >"$work/server" 2>&1 &
  server=$!
  processes=("$server")
  until (: <"/dev/tcp/$address/11311") 2>/dev/null; do kill -0 $server || { cat "$work/server" >&2 && exit 1; }; sleep 0.1; done
  : >"$work/running"
  disturb $server >"$work/disturbed" 2>&1 &
  disturber=$!
  processes+=("$disturber")
  # Values that expire, of which few are asked for often; and as many more small ones as to fill the index.
  start() {
    "$program" load memcached "$address:11311" --mix "$mix" --connections 16 --multi-get 3 --count "$count" --fail-if 'wrong > 0' \
      --json="$work/$1.json" "${@:2}" >"$work/$1" 2>&1 &
    pids+=($!) processes+=($!)
  }
  start expiring "$@" --prefix e: --keys 30k --value-size 0-3000 --popularity zipf:1.1 --ttl 3s
  start evicted "$@" --prefix v: --keys 1M --value-size 0-200 --popularity zipf:0.7 --meta
  succeeds "${pids[0]}" expiring
  succeeds "${pids[1]}" evicted
  rm "$work/running"
  wait $disturber
  check "$name" $server
  kill $server
  succeeds $server server
  processes=()
}

# Prints what happened, and fails if something that is to happen did not.
check() {
  local name=$1 server=$2 at_most peak stops
  ask stats "stats corelane" >"$work/stats"
  value() { awk -v name="$1" '$2 ~ "^([0-9]+:)?" name "$" { sum += $3 } END { print sum + 0 }' "$work/stats"; }
  peak=$(awk '/^VmHWM/ { print $2 }' "/proc/$server/status")
  # docs/MEMCACHED.md, Limits; for workers less than there, as these clients read what they ask for.
  at_most=$(((memory_mib + 32 + 4 * workers) * 1024 + 768 * 34))
  stops=$(grep -c -x 'stop\|pause' "$work/disturbed" || true)
  printf '%s: %s operations, all right; hits %s of %s, evicted %s, expired %s, flushed %s times, stopped %s times, local %s, read directly %s, handed over %s; memory %s of %s KiB\n' \
    "$name" $((operations / 4)) "$(value get_hits)" "$(value cmd_get)" "$(value evictions)" "$(value reclaimed)" "$(value cmd_flush)" \
    "$stops" "$(value local)" "$(value read_directly)" "$(value handed_over)" "$peak" "$at_most"
  grep -v -x 'stop\|pause\|OK' "$work/disturbed" >&2 && exit 1
  for happened in get_hits evictions reclaimed handed_over local; do
    [ "$(value $happened)" -gt 0 ] || { echo "$name: $happened is 0" >&2 && exit 1; }
  done
  [ "$peak" -le "$at_most" ] || { echo "$name: the process had more memory than it may" >&2 && exit 1; }
}

for load in tcp udp; do
  for reads in direct handoff; do run $load $reads; done
done
