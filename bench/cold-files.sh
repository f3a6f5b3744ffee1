#!/usr/bin/env bash
# Latency of small files while other clients read files that are not in memory: 2 GiB of files, a server that may have
# 512 MiB, eight readers, and 500 requests of 1 KiB per second beside them. `serve http` with both engines and Debian's nginx
# (sendfile, one worker) run in turns, on one CPU; the clients have the other. Ratios are computed within a round.
#
#   bench/cold-files.sh [ROUNDS]
#
# It needs root (a memory cgroup), and 3 GiB of free disk in the folder for temporary files, which must not be in memory.
#
# Exit code: 0 if all targets are met, 1 if not, 77 if this machine cannot run it.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/common.sh

need nginx curl taskset awk python3
rounds=${1:-3}
seconds=${SECONDS_EACH:-5}
most_bytes=$((512 << 20))
readers=8
files=32 # of 8 MiB, for each reader
skip() { echo "skipped: $0 needs $1" >&2; exit 77; }
mapfile -t cpus < <(allowed_cpus)
[[ ${#cpus[@]} -ge 2 ]] || skip "two CPUs, one for the server and one for the clients"
corelane=$(program)
folder=$(mktemp -d)
group= server= clients=()
finish() {
  for pid in "${clients[@]}"; do kill "$pid" 2>/dev/null || true; done
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  wait 2>/dev/null || true
  [[ -z $group ]] || rmdir "$group" || true
  rm -r "$folder"
}
trap finish EXIT

[[ $(stat -f -c %T "$folder") != tmpfs ]] || skip "temporary files on a disk: set TMPDIR"
[[ $(df --output=avail -B1 "$folder" | tail -1) -gt $((3 << 30)) ]] || skip "3 GiB of free disk: set TMPDIR"
if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
  group=/sys/fs/cgroup/corelane-cold-$$ limit=memory.max
else
  group=/sys/fs/cgroup/memory/corelane-cold-$$ limit=memory.limit_in_bytes
fi
mkdir "$group" 2>/dev/null || { group=; skip "a memory cgroup that this user may make"; }
echo "$most_bytes" >"$group/$limit" 2>/dev/null || skip "the memory controller of cgroups"

mkdir "$folder/root"
head -c 1024 /dev/zero >"$folder/root/small"
for ((reader = 0; reader < readers; reader++)); do
  for ((file = 0; file < files; file++)); do
    head -c $((8 << 20)) /dev/urandom >"$folder/root/$reader-$file"
  done
done
sync

# Removes the files from memory.
forget() {
  python3 -c '
import os, sys
for name in os.listdir(sys.argv[1]):
    file = os.open(os.path.join(sys.argv[1], name), os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)' "$folder/root"
}

port=${PORT:-9288}
cat >"$folder/nginx.conf" <<CONF
daemon off; master_process off; worker_processes 1; pid $folder/pid; error_log $folder/error.log;
events { worker_connections 1024; }
http {
  access_log off; keepalive_requests 1000000000; sendfile on; tcp_nodelay on;
  open_file_cache max=1000 inactive=60s; open_file_cache_valid 1s;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server { listen 127.0.0.1:$port; root $folder/root; }
}
CONF

# One run of a server: its median and 99th percentile of latency in ns are added to files of its name.
measure() {
  local name=$1 reader
  shift
  forget
  (echo "$BASHPID" >"$group/cgroup.procs"; exec taskset -c "${cpus[1]}" "$@") >"$folder/server.log" 2>&1 &
  server=$!
  until_done bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null
  clients=()
  for ((reader = 0; reader < readers; reader++)); do
    taskset -c "${cpus[0]}" curl -s -o /dev/null "http://127.0.0.1:$port/$reader-[0-$((files - 1))]" &
    clients+=($!)
  done
  taskset -c "${cpus[0]}" "$corelane" load http "http://127.0.0.1:$port/small" --connections 32 --rate 500 --cpus "${cpus[0]}" \
    --workers 1 --duration "${seconds}s" --json >"$folder/out"
  python3 -c '
import json, sys
latency = json.load(open(sys.argv[1]))["latency"]
for percentile in "p50", "p99":
    print(latency[percentile + "_ns"], file=open(sys.argv[2] + "." + percentile, "a"))' "$folder/out" "$folder/$name"
  for reader in "${clients[@]}"; do kill "$reader" 2>/dev/null || true; done
  end "$server" 2>/dev/null
  wait 2>/dev/null || true
  clients=() server=
}

for ((round = 0; round < rounds; round++)); do
  measure nginx nginx -c "$folder/nginx.conf"
  for engine in epoll io_uring; do
    measure "$engine" "$corelane" serve http "127.0.0.1:$port" --root "$folder/root" --buckets 1 --cpus "${cpus[1]}" \
      --engine "$engine"
  done
done
for name in nginx epoll io_uring; do
  awk -v name="$name" -v p50="$(median <"$folder/$name.p50")" -v p99="$(median <"$folder/$name.p99")" \
    'BEGIN { printf "%s: median %.1f ms, p99 %.1f ms\n", name, p50 / 1e6, p99 / 1e6 }'
done
for engine in epoll io_uring; do
  verdict "$engine: p99 against nginx" \
    "$(paste -d' ' "$folder/$engine.p99" "$folder/nginx.p99" | awk '{ printf "%.2f\n", $1 / $2 }' | median)" "<=" 2
done
conclude
