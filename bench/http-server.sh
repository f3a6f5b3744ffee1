#!/usr/bin/env bash
# How many requests a second of CPU time `corelane serve http` answers with one worker, against Debian's nginx with one.
#
# usage: bench/http-server.sh [ROUNDS [ENGINES]]
#
# Both serve on CPU 0 and are asked from CPU 1: 64 connections that stay open, 1 KiB made on demand (nginx: `return 200`), a
# file of 1 KiB, a file of 1 MiB. nginx has no access log, keeps files open (open_file_cache) and sends them by sendfile.
# Servers take turns within a round; ratios are taken within a round, and medians told. Judged is a second of the server's CPU
# time, which other programs on the same CPU cannot take away.
#
# `corelane load http` asks both alike. wrk is no judge, as its one CPU does not suffice to keep the quicker server busy: that
# one then wakes up for every few requests and pays for it. Its figures are told beside.
#
# Judged is what runs by default; other engines (`default epoll io_uring`) are told beside it.
#
# Exit code: 0 when all targets are met, 1 when not, 77 when it cannot run here.
set -euo pipefail
. "$(dirname "$0")/common.sh"

rounds=${1:-5}
engines=${2:-"default epoll"}
seconds=2
connections=64
target_small=1.3
target_large=1.0

need nginx wrk curl taskset
[[ $(nproc) -ge 2 ]] || { echo "skipped: server and client need a CPU each" >&2; exit 77; }
corelane=$(program)
folder=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -r "$folder"
}
trap finish EXIT

head -c 1024 /dev/zero | tr '\0' x >"$folder/1k"
head -c 1048576 /dev/zero | tr '\0' x >"$folder/1m"
cat >"$folder/nginx.conf" <<CONF
daemon off;
master_process off;
worker_processes 1;
pid $folder/nginx.pid;
error_log $folder/nginx.log;
events { worker_connections 4096; use epoll; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  open_file_cache max=100 inactive=60s;
  open_file_cache_valid 1s;
  server {
    listen 127.0.0.1:18080 backlog=4096;
    root $folder;
    location = /return { default_type text/plain; return 200 "$(cat "$folder/1k")"; }
  }
}
CONF

# Starts a server on CPU 0 and waits until it answers for a path; sets `pid`.
start() {
  local port=$1 path=$2
  shift 2
  taskset -c 0 "$@" >"$folder/server.log" 2>&1 &
  pid=$!
  pids+=("$pid")
  until_done curl -sf -o "$folder/answer" "http://127.0.0.1:$port$path"
}

# CPU time of a process and all its threads, in seconds.
cpu_seconds() { awk -v tick="$(getconf CLK_TCK)" '{ print ($14 + $15) / tick }' "/proc/$1/stat"; }

# Asks for `$1`; prints how many requests were answered.
by_wrk() { taskset -c 1 wrk -t 1 -c "$connections" -d "${seconds}s" "$1" | awk '/requests in/ { print $1 }'; }
by_corelane() {
  taskset -c 1 "$corelane" load http "$1" --connections "$connections" --cpus 1 --workers 1 --duration "${seconds}s" --json |
    awk '/"requests"/ { found = 1 } found && /"ok"/ { gsub(/[^0-9]/, "", $2); print $2; exit }'
}

# Requests a second of CPU time of the server `$2`, asked for `$3` by `$1`.
measure() {
  local before after requests
  before=$(cpu_seconds "$2")
  requests=$("by_$1" "$3")
  after=$(cpu_seconds "$2")
  awk -v requests="$requests" -v cpu="$(awk "BEGIN { print $after - $before }")" 'BEGIN { printf "%.0f\n", requests / cpu }'
}

start 18080 /1k nginx -c "$folder/nginx.conf"
nginx=$pid
declare -A objects files
port=18081
for engine in $engines; do
  flags=(--cpus 0 --buckets 1 --json)
  [[ $engine == default ]] || flags+=(--engine "$engine")
  start $port /size/1 "$corelane" serve http 127.0.0.1:$port "${flags[@]}"
  objects[$engine]="$pid $port"
  start $((port + 1)) /1k "$corelane" serve http 127.0.0.1:$((port + 1)) "${flags[@]}" --root "$folder"
  files[$engine]="$pid $((port + 1))"
  port=$((port + 2))
done

# One case: what, the path of ours, whether files serve it, the path of nginx, the target.
compare() {
  local what=$1 path=$2 kind=$3 reference=$4 target=$5 round client engine server at ours theirs
  for ((round = 0; round < rounds; round++)); do
    for client in corelane wrk; do
      theirs=$(measure $client "$nginx" "http://127.0.0.1:18080$reference")
      echo "$theirs" >>"$folder/$what.$client.nginx"
      for engine in $engines; do
        if [[ $kind == files ]]; then read -r server at <<<"${files[$engine]}"; else read -r server at <<<"${objects[$engine]}"; fi
        ours=$(measure $client "$server" "http://127.0.0.1:$at$path")
        echo "$ours" >>"$folder/$what.$client.$engine"
        awk "BEGIN { print $ours / $theirs }" >>"$folder/$what.$client.$engine.ratio"
      done
    done
  done
  for client in corelane wrk; do
    echo "$what, asked by $client: nginx $(median <"$folder/$what.$client.nginx") requests a CPU second"
    for engine in $engines; do
      echo "  $engine $(median <"$folder/$what.$client.$engine"), $(median <"$folder/$what.$client.$engine.ratio") times"
    done
  done
  [[ " $engines " != *" default "* ]] ||
    verdict "$what, by default, over nginx" "$(median <"$folder/$what.corelane.default.ratio")" ">=" "$target"
}

compare object-1KiB /size/1024 objects /return $target_small
compare file-1KiB /1k files /1k $target_small
compare file-1MiB /1m files /1m $target_large
conclude
