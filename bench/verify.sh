#!/usr/bin/env bash
# The time to verify a capture as a multiple of the time to only read it, both by the command. Ten million frames of 64
# bytes (or the number in the first argument), read from the page cache; rounds are interleaved, times are user and
# system time, and the result is the median of the ratios. Target: at most 1.5.
set -euo pipefail
cd "$(dirname "$0")/.."

frames=${1:-10000000}
rounds=${2:-5}
. bench/common.sh
corelane=$(program)
capture=$(mktemp)
trap 'rm -f "$capture"' EXIT

python3 - "$capture" "$frames" <<'PYTHON'
import struct, sys
path, frames = sys.argv[1], int(sys.argv[2])
ethernet = bytes([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0])
def record(flow):
    mixed = flow * 0x9e3779b9 & 0xffffff
    head = struct.pack(">BBHHHBBH", 0x45, 0, 50, 0, 0x4000, 64, 17, 0)
    ip = head + bytes([10, mixed >> 16, mixed >> 8 & 255, mixed & 255, 10, 11, 2, 1])
    frame = ethernet + ip + struct.pack(">HHHH", 1024 + flow % 60000, 8080, 30, 0) + bytes(22)
    return struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame
block = b"".join(record(flow) for flow in range(100000))
with open(path, "wb") as out:
    out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
    for start in range(0, frames, 100000):
        out.write(block[: 80 * min(100000, frames - start)] if frames - start < 100000 else block)
PYTHON

# User and system time of a command, in milliseconds.
spent() {
  # Not $$: this runs in a subshell, which is the parent of these children.
  local before after self=$BASHPID
  before=$(awk '{ print $16 + $17 }' "/proc/$self/stat")
  # Nothing is verified (77): no frame of the capture has a queue.
  "$@" >/dev/null 2>&1 || [ $? -eq 77 ]
  after=$(awk '{ print $16 + $17 }' "/proc/$self/stat")
  echo $(((after - before) * 1000 / $(getconf CLK_TCK)))
}

"$corelane" verify --pcap "$capture" --read-only >/dev/null
for ((round = 0; round < rounds; round++)); do
  read=$(spent "$corelane" verify --pcap "$capture" --read-only)
  verify=$(spent "$corelane" verify --pcap "$capture" --queues 8 --hash 4tuple)
  echo "$read $verify"
done | awk '{ print $2 / $1, $1, $2 }' | sort -n |
  awk '{ line[NR] = $0 } END { split(line[int((NR + 1) / 2)], m, " ");
    printf "read %d ms, verify %d ms, ratio %.2f (target: at most 1.50)\n", m[2], m[3], m[1] }'
