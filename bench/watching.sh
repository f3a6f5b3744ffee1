#!/usr/bin/env bash
# The cost of observation: the rate of `lab scale udp` with --locks --softnet as a ratio to the rate without.
#
# Rounds with and without observation alternate, each first in turn, so that a drifting machine affects both alike. The
# ratio is of the medians over the rounds, for every step of exact steering with aligned clients. The target is at least
# 0.95.
#
# If other programs use CPU time, rates depend on how the scheduler divides it. The server's CPU time per frame, shown
# after the rate, depends less on that; it does not include the collecting threads.
#
#   bench/watching.sh [ROUNDS [DURATION]]      default: 7 rounds, trials of 1s
#   CORELANE=./target/release/corelane WATCH="--profile" bench/watching.sh
set -euo pipefail

rounds=${1:-7}
duration=${2:-1s}
corelane=${CORELANE:-target/release/corelane}
read -ra watch <<<"${WATCH:---locks --softnet}"

command -v jq >/dev/null || { echo "jq was not found: apt-get install jq" >&2; exit 77; }
[ -x "$corelane" ] || { echo "$corelane was not found: cargo build --release, or set CORELANE" >&2; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

run() { # KIND ROUND FLAGS…
  local file="$folder/$1.$2.json"
  "$corelane" lab scale udp --rounds 1 --duration "$duration" --json "$file" "${@:3}" >/dev/null
}

for ((round = 0; round < rounds; round++)); do
  if ((round % 2)); then
    run without "$round"
    run with "$round" "${watch[@]}"
  else
    run with "$round" "${watch[@]}"
    run without "$round"
  fi
done

refused=$(jq -r '.steps[].observed.unknown // {} | to_entries[] | "\(.key): \(.value)"' "$folder"/with.*.json | sort -u)
[ -z "$refused" ] || { printf 'not observed, so that nothing can be compared:\n%s\n' "$refused" >&2; exit 77; }

# One line each: kind, step, rate, CPU microseconds per frame.
for kind in with without; do
  jq -r --arg kind "$kind" '.steps[]
    | select(.model == "exact" and .placement == "aligned" and .rate_spread)
    | [$kind, "\(.mode), \(.buckets_active) active", .rate_spread.median, .cpu_us_per_frame] | @tsv' "$folder/$kind".*.json
done | jq -Rrn --arg watch "${watch[*]}" --arg rounds "$rounds" '
  def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
  [inputs | split("\t") | {kind: .[0], step: .[1], rate: (.[2] | tonumber), cost: (.[3] | tonumber)}]
  | "with \($watch) over without: medians of \($rounds) interleaved rounds",
    (group_by(.step)[]
      | (map(select(.kind == "with"))) as $with
      | (map(select(.kind == "without"))) as $without
      | ($with | map(.rate) | median) as $rate | ($without | map(.rate) | median) as $free_rate
      | ($with | map(.cost) | median) as $cost | ($without | map(.cost) | median) as $free_cost
      | "\(.[0].step): rate \($rate | floor)/s over \($free_rate | floor)/s = \($rate / $free_rate * 1000 | round / 1000); "
        + "server CPU a frame \($cost / $free_cost * 1000 | round / 1000)")'
