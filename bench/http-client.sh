#!/usr/bin/env bash
# `corelane load http` against wrk, both with Debian's nginx: the server on one CPU, the client on another, alternating.
# Client CPU time is what the kernel charged the client's process (user and system).
#
# It also measures the lag of an open loop at half of saturation, against a bare clock_nanosleep loop, and whether its
# latency depends on the length of the run. Other threads that use one of the two CPUs for a moment determine the 99th
# percentile of such a run, and their number depends on its length. Therefore runs in which the client or nginx waited
# for its CPU are repeated, and their number is reported.
#
# About five minutes; ROUNDS and SECONDS_EACH shorten it. The targets are for the default engine and flags; the other
# engines, and runs with --gather 0s, are reported for comparison.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/common.sh

need nginx wrk taskset awk python3
corelane=$(program)
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-3}
# An open loop's short run, and one four times as long: both so short that the permitted wait (below) is less than one
# stall of a kernel thread (27 ms every 5 s on the machine where this was written).
short_seconds=0.5
long_seconds=2
# The maximum share of its time that a process may wait for its CPU in a run that counts; wakeups alone use half of
# that.
most_waited=0.01

# The first two CPUs that this process may use.
allowed=$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status | tr ',' '\n' |
  awk -F- '{ for (cpu = $1; cpu <= (NF > 1 ? $2 : $1); cpu++) print cpu }')
client=$(sed -n 1p <<<"$allowed")
server=$(sed -n 2p <<<"$allowed")
if [[ -z $server ]]; then
  echo "skipped: $0 needs two CPUs, one for the server and one for the client" >&2
  exit 77
fi

folder=$(mktemp -d)
port=${PORT:-9187}
mkdir "$folder/root"
head -c 1048576 /dev/zero >"$folder/root/large"
cat >"$folder/nginx.conf" <<CONF
daemon off; master_process off; worker_processes 1; pid $folder/pid; error_log $folder/error.log;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000000; sendfile on; tcp_nodelay on;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server { listen 127.0.0.1:$port; root $folder/root; location = /tiny { return 200 "hello\n"; } }
}
CONF
taskset -c "$server" nginx -c "$folder/nginx.conf" 2>"$folder/start.log" &
nginx=$!
trap 'kill $nginx 2>/dev/null; wait $nginx 2>/dev/null; rm -r "$folder"' EXIT
until_done bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null

TIMEFORMAT='%U %S'

# Runs a command on the client's CPU: its output goes to $folder/out, its CPU seconds to standard output.
cpu_seconds() {
  { time taskset -c "$client" "$@" >"$folder/out" 2>/dev/null; } 2>&1 | awk '{ print $1 + $2 }'
}

# A number in the document in $folder/out: the first one with the second name after the first name.
number() {
  awk -v after="\"$1\"" -v name="\"$2\":" '
    index($0, after) { found = 1 }
    found && index($0, name) { gsub(/[^0-9.eE+-]/, "", $2); print $2; exit }' "$folder/out"
}

# Prints one figure: requests (or, for large, bytes) per second of client CPU time.
with_wrk() {
  local cpu
  cpu=$(cpu_seconds wrk -t1 -c"$2" -d"${seconds}s" "http://127.0.0.1:$port/$1")
  awk -v cpu="$cpu" '/requests in/ { print $1 / cpu }' "$folder/out"
}

with_corelane() {
  local cpu
  cpu=$(cpu_seconds "$corelane" load http "http://127.0.0.1:$port/$1" --connections "$2" --cpus "$client" --workers 1 \
    --duration "${seconds}s" --json "${@:3}")
  awk -v cpu="$cpu" -v ok="$(number requests ok)" 'BEGIN { print ok / cpu }'
}

# Requests per second of CPU time of both clients, and their ratios, each computed within a round.
compare() {
  local object=$1 connections=$2 target=$3 way wrk ours
  local -A flags=([default]="" [epoll]="--engine epoll" [io_uring]="--engine io_uring"
    ["epoll, each as it comes"]="--engine epoll --gather 0s" ["io_uring, each as it comes"]="--engine io_uring --gather 0s")
  local ways=(default epoll "epoll, each as it comes" io_uring "io_uring, each as it comes")
  rm -f "$folder"/*.requests "$folder"/*.ratio
  for ((round = 0; round < rounds; round++)); do
    wrk=$(with_wrk "$object" "$connections")
    echo "$wrk" >>"$folder/wrk.requests"
    for way in "${ways[@]}"; do
      # shellcheck disable=SC2086 # flags and their values are words of their own
      ours=$(with_corelane "$object" "$connections" ${flags[$way]})
      echo "$ours" >>"$folder/$way.requests"
      awk -v a="$ours" -v b="$wrk" 'BEGIN { printf "%.3f\n", a / b }' >>"$folder/$way.ratio"
    done
  done
  printf '%s, %s connections: requests a client CPU-second: wrk %.0f\n' "$object" "$connections" \
    "$(median <"$folder/wrk.requests")"
  for way in "${ways[@]}"; do
    printf '  %s: %.0f, %s times\n' "$way" "$(median <"$folder/$way.requests")" "$(median <"$folder/$way.ratio")"
  done
  verdict "$object, as it runs by default: against wrk" "$(median <"$folder/default.ratio")" ">=" "$target"
}

# Nanoseconds that nginx has waited for its CPU since it started.
nginx_waited() { awk '{ print $2 }' "/proc/$nginx/schedstat"; }

# Runs the open loop for $2 seconds at $1 per second, repeated until neither side waited for its CPU: into $folder/out.
set_aside=0
open_loop() {
  local before waited attempt
  for ((attempt = 0; attempt < 12; attempt++)); do
    before=$(nginx_waited)
    taskset -c "$client" "$corelane" load http "http://127.0.0.1:$port/tiny" --connections 64 --cpus "$client" --workers 1 \
      --rate "$1" --duration "${2}s" --json >"$folder/out"
    waited=$(awk -v server="$(($(nginx_waited) - before))" -v client="$(number workers waited_for_cpu_s)" -v seconds="$2" \
      'BEGIN { server /= 1e9; printf "%f", (server > client ? server : client) / seconds }')
    awk -v waited="$waited" -v most="$most_waited" 'BEGIN { exit !(waited <= most) }' && return
    set_aside=$((set_aside + 1))
  done
  echo "no result: in $attempt runs of $2 s one after the other, another thread had the CPU of nginx or of the client" >&2
  exit 1
}

compare tiny 64 1.3
compare large 8 1.0

taskset -c "$client" "$corelane" load http "http://127.0.0.1:$port/tiny" --connections 64 --cpus "$client" --workers 1 \
  --duration "${seconds}s" --json >"$folder/out"
half=$(awk -v rate="$(awk '/"requests_per_second"/ { gsub(/[^0-9.]/, "", $2); print $2; exit }' "$folder/out")" \
  'BEGIN { printf "%d", rate / 2 }')
echo "half of saturation: $half requests a second"
for file in bare lag short long; do : >"$folder/$file"; done
nanosleep=$(cargo bench --quiet --no-run --package corelane-load --bench nanosleep --message-format=json 2>/dev/null |
  python3 -c 'import json, sys
for line in sys.stdin:
    built = json.loads(line)
    if built.get("target", {}).get("name") == "nanosleep" and built.get("executable"):
        print(built["executable"])')
for ((round = 0; round < rounds; round++)); do
  taskset -c "$client" "$nanosleep" "$half" 1 >>"$folder/bare"
  open_loop "$half" "$short_seconds"
  number schedule_lag p99_ns >>"$folder/lag"
  number latency p99_ns >>"$folder/short"
  open_loop "$half" "$long_seconds"
  number latency p99_ns >>"$folder/long"
done
bare=$(median <"$folder/bare")
lag=$(median <"$folder/lag")
echo "$((2 * rounds)) runs counted; $set_aside set aside, as the client or nginx waited for its CPU over $most_waited of the time"
echo "99th percentile of lag: clock_nanosleep $bare ns, corelane $lag ns"
verdict "schedule lag against clock_nanosleep" "$(awk -v a="$lag" -v b="$bare" 'BEGIN { printf "%.2f", a / b }')" "<=" 2
short=$(median <"$folder/short")
long=$(median <"$folder/long")
echo "99th percentile of latency: $short ns in $short_seconds s, $long ns in $long_seconds s"
verdict "latency of the long run against the short, off by" \
  "$(awk -v a="$long" -v b="$short" 'BEGIN { d = a / b - 1; printf "%.3f", d < 0 ? -d : d }')" "<=" 0.05
conclude
