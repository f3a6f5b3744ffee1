#!/usr/bin/env bash
# A million concurrent established connections, with corelane as client and server: opened, each with at least one
# request, held for a minute with 50,000 requests per second, closed. Fails unless nothing was lost; prints the memory
# use. It needs root (namespaces, slab counters), about 11 GiB of free memory, fs.file-max above 2.1 million, and three
# minutes on two idle CPUs.
#
#   bench/million.sh [CONNECTIONS [RATE [DURATION]]]
#
# Memory of a process itself counts as memory of its connections, so with fewer than a million it is reported but not
# judged.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/common.sh

need python3 unshare
connections=${1:-1M} rate=${2:-50k} duration=${3:-60s}
report=$(mktemp)
trap 'rm -f "$report" "$report.part"' EXIT
corelane=$(program)
"$corelane" lab scale http --connections "$connections" --rate "$rate" --duration "$duration" --rounds 1 \
  --models exact --placements aligned --size 128 --bed namespaces --json "$report"

python3 - "$report" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
step, trial = report["steps"][-1], report["trials"][-1]
requested, connections = step["connections"], trial["connections"]
if trial["status"] != "valid":
    sys.exit(f'the trial is no result ({trial["status"]}): {trial["why"]}')
each = step["memory_per_connection"]
checks = {
    "every connection opened": connections["opened"] == requested,
    "as many established by the kernel's count, meanwhile": (trial["memory"] or {}).get("connections") == requested,
    "every connection held to the end": connections["held"] == requested,
    "every connection answered at least once": "connections_unanswered" not in trial["errors"],
    "nothing lost": not set(trial["errors"]) - {"unsent"} and not connections["failed"],
    "the schedule kept to 1 in 1,000": trial["errors"].get("unsent", 0) * 1000 <= trial["requests_ok"],
}
if requested >= 1_000_000:
    checks["client memory at most 512 B a connection"] = (each["client_user_bytes"] or 1e9) <= 512
    checks["server memory at most 1 KiB a connection"] = (each["server_user_bytes"] or 1e9) <= 1024
print()
for claim, holds in checks.items():
    print(f'{"yes" if holds else "NO "}  {claim}')
print(f'{trial["requests_ok"]:,} requests answered, {step["requests_per_s"]:,.0f}/s; '
      f'p50 {step["latency"]["p50_ns"] / 1e6:.1f} ms, p99 {step["latency"]["p99_ns"] / 1e6:.1f} ms; '
      f'opened in {connections["opening_s"]:.0f} s')
print(f'user memory a connection: client {each["client_user_bytes"] or 0:.0f} B, '
      f'server {each["server_user_bytes"] or 0:.0f} B')
sys.exit(0 if all(checks.values()) else 1)
PYTHON
