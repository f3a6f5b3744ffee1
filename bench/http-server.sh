#!/usr/bin/env bash
# Requests per second of CPU time that `corelane serve http` answers with one worker, against Debian's nginx with one.
#
# usage: bench/http-server.sh [ROUNDS [ENGINES]]
#
# Both serve on CPU 0 and get their requests from CPU 1: 64 connections that stay open, 1 KiB generated on demand
# (nginx: `return 200`), a file of 1 KiB, a file of 1 MiB. nginx has no access log, keeps files open (open_file_cache)
# and sends them by sendfile. The servers alternate within a round; ratios are computed within a round, and their
# medians reported. The targets are for the rate per second of the server's CPU time, because other programs on the same
# CPU do not affect it.
#
# `corelane load http` loads both alike. The targets do not use wrk, because one CPU of wrk cannot keep the faster
# server busy: that server then wakes up for every few requests, which costs CPU time. The figures of wrk are reported
# for comparison.
#
# The targets are for the default engine; other engines (`default epoll io_uring`) are reported for comparison.
#
# Exit code: 0 if all targets are met, 1 if not, 77 if this machine cannot run it.
set -euo pipefail
. "$(dirname "$0")/common.sh"

rounds=${1:-5}
engines=${2:-"default epoll"}
seconds=2
connections=64
target_small=1.3
target_large=1.0

need nginx wrk curl taskset
serve_and_load

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

# Starts a server on CPU 0 and waits until it answers a request for a path; sets `pid`.
start() {
  local port=$1 path=$2
  shift 2
  taskset -c 0 "$@" >"$folder/server.log" 2>&1 &
  pid=$!
  pids+=("$pid")
  until_done curl -sf -o "$folder/answer" "http://127.0.0.1:$port$path"
}

# Loads the URL `$1`; prints the number of requests answered.
by_wrk() { taskset -c 1 wrk -t 1 -c "$connections" -d "${seconds}s" "$1" | awk '/requests in/ { print $1 }'; }
by_corelane() {
  taskset -c 1 "$corelane" load http "$1" --connections "$connections" --cpus 1 --workers 1 --duration "${seconds}s" --json |
    awk '/"requests"/ { found = 1 } found && /"ok"/ { gsub(/[^0-9]/, "", $2); print $2; exit }'
}

# Requests per second of CPU time of the server `$2`, loaded by `$1` with the URL `$3`.
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

# One case: its name, our path, whether it is a file, nginx's path, the target.
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
