#!/usr/bin/env bash
# The figures of the static binary over those of the dynamic one: hashing, datagrams, requests, bytes, TLS. Every target is
# 0.97.
#
# usage: bench/static.sh [ROUNDS [DURATION]]      default: 15 rounds, trials of 400ms
#
# STATIC names the static binary, CORELANE the dynamic one; otherwise `make dist`'s and this checkout's are used. The two
# alternate, each first in turn. Figures are per second of the server's CPU time, which other programs on the same CPU hardly
# affect. The client of TLS is the dynamic one for both.
#
# Exit code: 0 if no target is missed, 1 if one is, 77 if this machine cannot run it.
set -euo pipefail
. "$(dirname "$0")/common.sh"

rounds=${1:-15}
duration=${2:-400ms}
target=0.97
need jq curl taskset setpriv
root=$(realpath "$(dirname "$0")/..")
static=${STATIC:-$(find "$root/dist" -name "corelane-*-$(uname -m)-*-static" -print -quit 2>/dev/null || true)}
[[ -x $static ]] || { echo "skipped: no static binary: run make dist, or set STATIC" >&2; exit 77; }
dynamic=$(program)
mapfile -t cpus < <(allowed_cpus)
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# Prints the figure `$2`: requests per second of CPU time of the program `$1` as a TLS server, for objects of `$3` bytes. Not
# for `$(...)`, in which a failed command would not end the script.
tls() {
  local url=https://127.0.0.1:18443/size/$3 pid before after requests
  # It ends with the script, however the script ends.
  (exec setpriv --pdeathsig TERM taskset -c "${cpus[0]}" \
    "$1" serve http 127.0.0.1:18443 --tls --cpus "${cpus[0]}" --buckets 1 --json >"$folder/server" 2>&1) &
  pid=$!
  until_done curl -skf -o "$folder/answer" "$url"
  before=$(cpu_seconds "$pid")
  requests=$(taskset -c "${cpus[-1]}" "$dynamic" load http "$url" --insecure --connections 64 --cpus "${cpus[-1]}" \
    --workers 1 --duration "$duration" --json | jq .requests.ok)
  after=$(cpu_seconds "$pid")
  end "$pid"
  awk "BEGIN { print \"$2\", $requests / ($after - $before) }"
}

# The figures of the program `$1`, one per line: a name without spaces, and a number of which more is better.
figures() {
  local file="$folder/document.json" common=(--rounds 1 --duration "$duration" --json "$folder/document.json")
  "$1" lab engines "${common[@]}" >/dev/null
  jq -r '(.toeplitz[] | select(.name != "oracle") | "hash,\(.name),\(.tuple),\(.batch) \(1 / .ns_per_hash)"),
    (.udp[] | select(.datagrams_per_cpu_second) | "datagrams,\(.name) \(.datagrams_per_cpu_second)")' "$file"
  "$1" lab scale udp --models exact --placements aligned "${common[@]}" >/dev/null
  jq -r '.steps[] | select(.cpu_us_per_frame) | "udp,\(.mode),\(.buckets_active) \(1 / .cpu_us_per_frame)"' "$file"
  "$1" lab scale http --models exact --placements aligned "${common[@]}" >/dev/null
  jq -r '.steps[] | select(.server_cpu_us_per_request)
    | "http,\(.object_bytes)B,\(.buckets_active) \(1 / .server_cpu_us_per_request)"' "$file"
  "$1" lab scale tcp --models exact --placements aligned "${common[@]}" >/dev/null
  jq -r '.steps[] | select(.server_bytes_per_cpu_s)
    | "tcp,\(.traffic),\(.write_bytes)B,\(.buckets_active) \(.server_bytes_per_cpu_s)"' "$file"
  tls "$1" tls,1KiB 1024
  tls "$1" tls,1MiB 1048576
}

for ((round = 0; round < rounds; round++)); do
  kinds=(static dynamic)
  ((round % 2)) && kinds=(dynamic static)
  for kind in "${kinds[@]}"; do
    figures "${!kind}" >"$folder/$kind"
  done
  join <(sort "$folder/static") <(sort "$folder/dynamic") >>"$folder/both"
done
while read -r name; do
  for column in 2 3; do
    awk -v name="$name" -v column="$column" '$1 == name { print $column }' "$folder/both" >"$folder/column.$column"
  done
  compared "$name" "$folder/column.2" "$folder/column.3" ">=" "$target"
done < <(cut -d ' ' -f 1 "$folder/both" | sort -u)
conclude
