#!/usr/bin/env bash
# Runs a static program as its container does (packaging/Containerfile): as nobody, without capabilities, in a root that has
# only the program, /proc and the files of this script. tests/packages/container.sh PROGRAM FOLDER
set -euo pipefail
program=$1 root=$2/empty
! grep -aq '/lib.*/ld-linux' "$program" || { echo "skipped: container: $program is not static: see make dist"; exit 77; }
mkdir -p "$root/proc"
install -m 755 "$program" "$root/corelane"
answer=$(unshare --net --mount --pid --fork --kill-child --mount-proc bash -euc '
  ip link set lo up
  mount -t proc -o ro proc "$0/proc"
  coproc server { exec setpriv --bounding-set=-all,+setgid,+setuid,+sys_chroot --no-new-privs \
    chroot --userspec=65534:65534 --groups= "$0" /corelane serve http 127.0.0.1:8080 2>&1; }
  read -r -u "${server[0]}" ready
  echo "$ready"
  grep -E "^(Uid|CapEff|NoNewPrivs)" /proc/$server_PID/status
  exec 3<>/dev/tcp/127.0.0.1/8080
  printf "GET /size/5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" >&3
  head -n 1 <&3
  kill "$server_PID"' "$root")
for expected in 'Uid:	65534	65534' 'CapEff:	0000000000000000' 'NoNewPrivs:	1' 'HTTP/1.1 200'; do
  grep -q "^$expected" <<<"$answer" || { echo "failed: container: no $expected in $answer" >&2; exit 1; }
done
echo "ok: the static program serves as nobody, without capabilities, in an empty root"
