#!/usr/bin/env bash
# How many requests a second of CPU time `corelane serve http` answers with one worker, against Debian's nginx with one.
#
# usage: bench/http-server.sh [ROUNDS [ENGINES]]
#
# Both serve on CPU 0, wrk asks on CPU 1: 64 connections that stay open, 1 KiB made on demand (nginx: `return 200`), a file
# of 1 KiB, a file of 1 MiB. nginx has no access log, keeps files open (open_file_cache) and sends them by sendfile, as
# ours does. Servers take turns within a round; ratios are taken within a round, and medians told. Judged is a second of
# the server's CPU time, which other programs on the same CPU cannot take away.
#
# Exit code: 0 when all targets are met, 1 when not, 77 when it cannot run here.
set -euo pipefail
. "$(dirname "$0")/common.sh"

rounds=${1:-5}
engines=${2:-"epoll io_uring"}
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

# Requests a second of CPU time of the server `$1`, asked for `$2`.
measure() {
  local before after requests
  before=$(cpu_seconds "$1")
  requests=$(taskset -c 1 wrk -t 1 -c "$connections" -d "${seconds}s" "$2" | awk '/requests in/ { print $1 }')
  after=$(cpu_seconds "$1")
  awk -v requests="$requests" -v cpu="$(awk "BEGIN { print $after - $before }")" 'BEGIN { printf "%.0f\n", requests / cpu }'
}

start 18080 /1k nginx -c "$folder/nginx.conf"
nginx=$pid
declare -A objects files
port=18081
for engine in $engines; do
  start $port /size/1 "$corelane" serve http 127.0.0.1:$port --cpus 0 --buckets 1 --engine "$engine" --json
  objects[$engine]="$pid $port"
  start $((port + 1)) /1k "$corelane" serve http 127.0.0.1:$((port + 1)) --cpus 0 --buckets 1 --engine "$engine" --json --root "$folder"
  files[$engine]="$pid $((port + 1))"
  port=$((port + 2))
done

# One case: what, the path of ours, whether files serve it, the path of nginx, the target.
compare() {
  local what=$1 path=$2 kind=$3 reference=$4 target=$5 round engine server at ours theirs
  for ((round = 0; round < rounds; round++)); do
    theirs=$(measure "$nginx" "http://127.0.0.1:18080$reference")
    echo "$theirs" >>"$folder/$what.nginx"
    for engine in $engines; do
      if [[ $kind == files ]]; then read -r server at <<<"${files[$engine]}"; else read -r server at <<<"${objects[$engine]}"; fi
      ours=$(measure "$server" "http://127.0.0.1:$at$path")
      echo "$ours" >>"$folder/$what.$engine"
      awk "BEGIN { print $ours / $theirs }" >>"$folder/$what.$engine.ratio"
    done
  done
  echo "$what: nginx $(median <"$folder/$what.nginx") requests a CPU second"
  for engine in $engines; do
    echo "$what: $engine $(median <"$folder/$what.$engine") requests a CPU second"
    verdict "$what, $engine / nginx" "$(median <"$folder/$what.$engine.ratio")" ">=" "$target"
  done
}

compare object-1KiB /size/1024 objects /return $target_small
compare file-1KiB /1k files /1k $target_small
compare file-1MiB /1m files /1m $target_large
conclude
