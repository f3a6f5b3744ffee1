#!/usr/bin/env bash
# Requests per CPU-second over 64, 1,000, 10,000 and 100,000 connections, with both engines: of `load http` against Debian's
# nginx, beside wrk, and of `serve http` under `load http`. Client and server have a CPU each. Neighbours change the speed of
# a machine by a quarter within a minute, and the engines differ by less: they run in turns of a second, in the order A B B A,
# and a round adds up eight turns of each (with 100,000 connections, which take seconds to open, two of four seconds). The
# ratios are computed within a round.
#
#   bench/connections.sh [ROUNDS [CONNECTIONS...]]
#
# A client's CPU time is that of its requests, without opening the connections; wrk reports only both together, and has one
# source address: beyond 28,000 connections there is no reference. Where the limit of open files is lower than the number of
# connections, client and nginx use more workers on the same CPU.
#
# The targets: io_uring answers at least as many requests per CPU-second as epoll, at every size and in every round.
#
# Exit code: 0 if all targets are met, 1 if not, 77 if this machine cannot run it.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/common.sh

need nginx wrk taskset awk python3
rounds=${1:-3}
shift || true
sizes=("${@:-64}")
[[ $# -gt 0 ]] || sizes=(64 1000 10000 100000)
corelane=$(program)
mapfile -t cpus < <(allowed_cpus)
[[ ${#cpus[@]} -ge 2 ]] || { echo "skipped: $0 needs two CPUs, one for the server and one for the client" >&2; exit 77; }
client=${cpus[0]} server=${cpus[1]}
ulimit -n "$(ulimit -Hn)"
files=$(ulimit -n)
port=${PORT:-9287}
folder=$(mktemp -d)
pid=
finish() {
  [[ -z $pid ]] || end "$pid" 2>/dev/null
  rm -r "$folder"
}
trap finish EXIT
TIMEFORMAT='%U %S'

# Starts nginx for $1 connections.
nginx_for() {
  # Sixteen descriptors beside those of the connections; half of them, because connections do not spread evenly.
  local workers=$(($1 * 2 / files + 1))
  cat >"$folder/nginx.conf" <<CONF
daemon off; worker_processes $workers; pid $folder/pid; error_log $folder/error.log;
events { worker_connections $((files - 16)); }
http {
  access_log off; keepalive_requests 1000000000; tcp_nodelay on;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server { listen 127.0.0.1:$port backlog=65535 reuseport; location / { return 200 "hello\n"; } }
}
CONF
  taskset -c "$server" nginx -c "$folder/nginx.conf" 2>"$folder/start.log" &
  pid=$!
  until_done bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null
}

serve_with() {
  taskset -c "$server" "$corelane" serve http "127.0.0.1:$port" --buckets 1 --cpus "$server" --engine "$1" --json \
    >"$folder/served" 2>&1 &
  pid=$!
  until_done bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null
}

stop() {
  end "$pid" 2>/dev/null
  pid=
}

load() {
  taskset -c "$client" "$corelane" load http "http://127.0.0.1:$port/size/6" --connections "$1" --cpus "$client" \
    --workers 1 --duration "${seconds}s" --engine "$2" --json >"$folder/out"
}

# Requests and CPU seconds of the document in $folder/out, with engine $1: those of all its workers, or $2.
of_document() {
  python3 -c '
import json, sys
document = json.load(open(sys.argv[1]))
ok = document["requests"]["ok"]
if document["engine"] != sys.argv[2] or document["requests"]["failed"]:
    sys.exit("no result: engine %s, failed %d" % (document["engine"], document["requests"]["failed"]))
print(ok, sys.argv[3] if len(sys.argv) > 3 else sum(worker["cpu_s"] for worker in document["workers"]))' \
    "$folder/out" "$@"
}

# Requests per CPU-second of the runs whose figures are in $1, which ends with this.
sum_up() {
  awk '{ requests += $1; seconds += $2 } END { print requests / seconds }' "$1" && rm "$1"
}

with_wrk() {
  local cpu
  cpu=$({ time taskset -c "$client" wrk -t1 -c"$1" -d4s --timeout 60s "http://127.0.0.1:$port/" \
    >"$folder/out" 2>/dev/null; } 2>&1 | awk '{ print $1 + $2 }')
  awk -v cpu="$cpu" '/requests in/ { print $1 / cpu }' "$folder/out"
}


# One figure per way and round.
one_round() {
  local size=$1 engine before turns=(epoll io_uring io_uring epoll)
  seconds=4
  if [[ $size -le 28000 ]]; then
    seconds=1
    turns=("${turns[@]}" "${turns[@]}" "${turns[@]}" "${turns[@]}")
  fi
  nginx_for "$size"
  [[ $size -gt 28000 ]] || with_wrk "$size" >>"$folder/$size.wrk"
  for engine in "${turns[@]}"; do
    load "$size" "$engine"
    of_document "$engine" >>"$folder/runs.$engine"
  done
  stop
  for engine in epoll io_uring; do sum_up "$folder/runs.$engine" >>"$folder/$size.client.$engine"; done
  [[ $size -le $((files - 100)) ]] || return 0
  for engine in "${turns[@]}"; do
    serve_with "$engine"
    before=$(run_time "$pid")
    load "$size" epoll
    of_document epoll "$(awk -v ran=$(($(run_time "$pid") - before)) 'BEGIN { print ran / 1e9 }')" \
      >>"$folder/runs.$engine"
    stop
  done
  for engine in epoll io_uring; do sum_up "$folder/runs.$engine" >>"$folder/$size.server.$engine"; done
}

# The least ratio of a round, and the medians.
judge() {
  local size=$1 side=$2 epoll=$folder/$1.$2.epoll ring=$folder/$1.$2.io_uring
  [[ -e $ring ]] || { echo "$side, $size connections: no figure, the limit of open files is $files"; return; }
  verdict "$(printf '%s, %s connections: io_uring %.0f, epoll %.0f' "$side" "$size" "$(median <"$ring")" "$(median <"$epoll")")" \
    "$(paste -d' ' "$ring" "$epoll" | awk '{ printf "%.3f\n", $1 / $2 }' | sort -g | head -1)" ">=" 1
}

for size in "${sizes[@]}"; do
  for ((round = 0; round < rounds; round++)); do one_round "$size"; done
  if [[ -e $folder/$size.wrk ]]; then
    printf 'wrk, %s connections: %.0f requests a client CPU-second\n' "$size" "$(median <"$folder/$size.wrk")"
  else
    echo "wrk, $size connections: no reference"
  fi
  judge "$size" client
  judge "$size" server
done
conclude
