#!/usr/bin/env bash
# What a scrape every 100 ms costs `corelane serve udp --metrics`: datagrams answered per second, and CPU time of the
# server per datagram, over those without a scrape.
#
# usage: bench/metrics.sh [ROUNDS [SECONDS]]
#
# One bucket answers a closed loop of datagrams of 510 bytes over a veth pair. The endpoint is there in either case; the
# client of the scrapes, curl, shares the CPU of the generator's worker. CPU time of the server includes that of its
# endpoint and of its control thread. The two cases take turns; ratios are computed within a round. A round in which fewer than nine scrapes a second succeed, or one fails, ends the script.
#
# Exit code: 0 if no target is missed, 1 if one is, 77 if this machine cannot run it.
set -euo pipefail
. "$(dirname "$0")/veth.sh"

rounds=${1:-15}
seconds=${2:-2}
port=9101

need jq taskset curl
corelane=$(program)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t cpus < <(allowed_cpus)

answers() { server curl --silent --fail --output /dev/null "http://127.0.0.1:$port/metrics"; }

# Ends the script unless all scrapes since a moment succeeded, and were about ten per second.
scrapes_succeeded() {
  sort "$scratch/scrapes" | uniq -c >"$scratch/codes"
  awk -v seconds="$(awk "BEGIN { print $EPOCHREALTIME - $1 }")" '
    { if ($2 == 200) succeeded = $1; else failed = failed " " $1 " times " $2 }
    END { if (failed || succeeded < 9 * seconds - 1) {
      printf "%d scrapes succeeded in %.1f s; others by code:%s\n", succeeded, seconds, failed ? failed : " none"; exit 1 } }
  ' "$scratch/codes" >&2
}

# Records datagrams per second, and nanoseconds per datagram, of one trial with or without scrapes.
measure() {
  local name=$1 pid scraper began before answered
  server_in_background "$corelane" serve udp 10.11.2.1:8080 --buckets 1 --cpus "${cpus[0]}" \
    --metrics "127.0.0.1:$port" --json 2>/dev/null
  pid=$!
  until_done holds_udp 8080
  until_done answers
  if [[ $name == scraped ]]; then
    began=$EPOCHREALTIME
    server_in_background taskset -c "${cpus[-1]}" curl --silent --rate 10/s --output /dev/null \
      --write-out '%{stderr}%{http_code}\n' "http://127.0.0.1:$port/metrics?[1-100000]" 2>"$scratch/scrapes"
    scraper=$!
  fi
  before=$(run_time "$pid")
  client "$corelane" load udp 10.11.2.1:8080 --workers 1 --cpus "${cpus[-1]}" --sockets 16 --window 128 \
    --duration "${seconds}s" --json >"$scratch/loaded"
  answered=$(jq .total.returned "$scratch/loaded")
  jq '.total.returned / .sending_s' "$scratch/loaded" >>"$scratch/rate.$name"
  awk -v run="$(($(run_time "$pid") - before))" -v answered="$answered" 'BEGIN { print run / answered }' \
    >>"$scratch/cost.$name"
  if [[ $name == scraped ]]; then
    end "$scraper"
    scrapes_succeeded "$began"
  fi
  end "$pid"
}

for round in $(seq "$rounds"); do
  # Neither case always comes first.
  if ((round % 2)); then
    measure plain
    measure scraped
  else
    measure scraped
    measure plain
  fi
done

echo "a scrape every 100 ms over none, medians of $rounds rounds of $seconds s"
compared "datagrams answered per second" "$scratch/rate.scraped" "$scratch/rate.plain" ">=" 0.99
compared "CPU time per datagram, ns" "$scratch/cost.scraped" "$scratch/cost.plain" "<=" 1.01
conclude
