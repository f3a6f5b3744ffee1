#!/usr/bin/env bash
# The CPU cost per frame on the server with all buckets active, against one active bucket, and the linearity of the
# rate.
# Medians of interleaved rounds of one run of the scaling lab, exact steering with aligned clients.
set -euo pipefail
. "$(dirname "$0")/common.sh"

corelane=$(program)
report=$(mktemp)
trap 'rm -f "$report" "$report.part"' EXIT
"$corelane" lab scale udp --duration "${1:-1s}" --rounds "${2:-5}" --json "$report" >/dev/null

python3 - "$report" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
for mode in ("echo", "sink"):
    main = [step for step in report["steps"]
            if (step["mode"], step["model"], step["placement"]) == (mode, "exact", "aligned")]
    first, last = main[0], main[-1]
    rate = "answered_pps" if mode == "echo" else "seen_pps"
    cost = last["cpu_us_per_frame"] / first["cpu_us_per_frame"]
    print(f'{mode}: {first[rate]:,.0f}/s at 1 bucket, {last[rate]:,.0f}/s at {last["buckets_active"]}; '
          f'linearity {last["linearity"]:.2f}; CPU a frame {cost:.2f} times that at 1 (target: at most 1.15)')
PYTHON
