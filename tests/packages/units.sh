#!/usr/bin/env bash
# Runs under a booted systemd in which the package is installed: starts each unit, uses it, and starts it again without each
# of its capabilities, which has to break what the capability is for.
set -Eeuo pipefail
fail() { echo "failed: $1"; journalctl --no-pager -o cat -n 30 -u 'corelane-*'; exit 1; }
pass() { echo "ok: $1"; }
trap 'fail "line $LINENO"' ERR

# configure NAME ARGUMENTS
configure() { sed -i "s|^ARGUMENTS=.*|ARGUMENTS=$2|" "/etc/corelane/$1.conf"; }

# Remembers where the journal ends.
mark() { cursor=$(journalctl --sync && journalctl --lines=0 --show-cursor | sed -n 's/^-- cursor: //p'); }

# Waits until a unit's journal after the mark has a line.
journal_has() {
  grep -qm 1 -- "$2" < <(exec timeout 20 journalctl --follow --output=cat --unit="$1" --after-cursor="$cursor")
}

# capabilities UNIT: those of its process, in hexadecimal.
capabilities() {
  awk '/^CapEff/ { print $2 }' "/proc/$(systemctl show --property=MainPID --value "$1")/status"
}

# breaks UNIT CAPABILITY WHAT: without the capability the unit ends, and its journal names the capability and what failed.
breaks() {
  local folder=/run/systemd/system/$1.d kept
  mkdir -p "$folder"
  kept=$(systemctl show --property=CapabilityBoundingSet --value "$1" | sed "s/$2//")
  printf '[Service]\nRestart=no\nAmbientCapabilities=\nCapabilityBoundingSet=\nAmbientCapabilities=%s\nCapabilityBoundingSet=%s\n' \
    "$kept" "$kept" >"$folder/without.conf"
  systemctl daemon-reload
  mark
  systemctl restart "$1" || true
  journal_has "$1" "$3" || fail "$1 without $2: no '$3' in its journal"
  while systemctl is-active --quiet "$1"; do :; done
  systemctl is-failed --quiet "$1" || fail "$1 runs without $2"
  rm -r "$folder"
  systemctl daemon-reload
  systemctl reset-failed "$1"
  pass "$1 without $2 says: $3"
}

configure serve-http 127.0.0.1:80
configure serve-tcp "127.0.0.1:7 --mode echo"
configure serve-udp 127.0.0.1:7
# As Debian's memcached has it.
printf '%s\n' -d 'logfile /var/log/memcached.log' '# -vv' '-m 64' '-p 11211' '-u memcache' '-l 127.0.0.1' '-l ::1' \
  '-P /var/run/memcached/memcached.pid' >/etc/memcached.conf
configure serve-memcached "--memcached-conf /etc/memcached.conf -p 11"
for kind in http tcp udp memcached; do
  unit=corelane-serve@$kind.service
  mark
  systemctl start "$unit" || fail "$unit does not start"
  journal_has "$unit" 127.0.0.1 || fail "$unit is not ready"
  [ "$(capabilities "$unit")" = 0000000000000400 ] || fail "$unit has $(capabilities "$unit")"
  pass "$unit serves a port below 1024"
done
[ "$(stat -c %u "/proc/$(systemctl show --property=MainPID --value corelane-serve@http)")" -ge 60000 ] || fail "no dynamic user"
exec 3<>/dev/tcp/127.0.0.1/80
printf 'GET /size/5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' >&3
grep -q '^HTTP/1.1 200' <&3 || fail "no answer from port 80"
pass "corelane-serve@http answers"
corelane load udp 127.0.0.1:7 --rate 1k --duration 200ms --fail-if 'lost > 0' >/dev/null || fail "no answers from UDP port 7"
pass "corelane-serve@udp answers"
exec 3<>/dev/tcp/127.0.0.1/11
printf 'set a 0 0 1\r\nb\r\nquit\r\n' >&3
grep -q '^STORED' <&3 || fail "no answer from corelane-serve@memcached"
pass "corelane-serve@memcached serves with the settings of Debian's memcached"
for kind in http tcp udp memcached; do
  breaks "corelane-serve@$kind.service" cap_net_bind_service 'needs CAP_NET_BIND_SERVICE'
  systemctl stop "corelane-serve@$kind.service"
done

ip link add left type veth peer name left-end
ip link add right type veth peer name right-end
for device in left left-end right right-end; do ip link set "$device" up; done
configure bridge "--link xdp:left --link packet:right --link tap:tap0"
unit=corelane-bridge.service
mark
systemctl start "$unit" || fail "$unit does not start"
journal_has "$unit" bridging || fail "$unit is not ready"
[ "$(capabilities "$unit")" = 0000008000003000 ] || fail "$unit has $(capabilities "$unit")"
pass "$unit bridges xdp, packet and tap links"
systemctl stop "$unit"

# A reload reads the tables again: the bridge drops what it passed before.
near() { ip netns exec near "$@"; }
far() { ip netns exec far "$@"; }
# How many of 100 datagrams are answered; that none is, is an error of the program.
returned() {
  { near corelane load udp 10.0.0.2:7 --rate 1k --duration 100ms --json 2>/dev/null || true; } |
    sed -n 's/^    "returned": \([0-9]*\).*/\1/p'
}
ip netns add near
ip netns add far
ip link set left-end netns near
ip link set right-end netns far
near ip addr add 10.0.0.1/24 dev left-end
far ip addr add 10.0.0.2/24 dev right-end
near ip link set left-end up
far ip link set right-end up
table=/etc/corelane/blocked.txt
echo 10.0.0.3 >"$table"
configure bridge "--link packet:left --link packet:right --table $table --match src --no-reload"
mark
systemctl start "$unit"
journal_has "$unit" bridging || fail "$unit is not ready"
far corelane serve udp 10.0.0.2:7 >/dev/null 2>&1 &
server=$!
for _ in {1..50}; do answers=$(returned); [ "$answers" -eq 0 ] || break; done
[ "$answers" -gt 0 ] || fail "no answers through the bridge"
echo 10.0.0.1 >>"$table"
[ "$(returned)" -gt 0 ] || fail "the bridge reads its table before it is reloaded"
systemctl reload "$unit"
for _ in {1..50}; do answers=$(returned); [ "$answers" -gt 0 ] || break; done
[ "$answers" -eq 0 ] || fail "$answers answers through the bridge after its table was reloaded"
systemctl is-active --quiet "$unit" || fail "$unit ends when it is reloaded"
kill "$server"
wait "$server" || true
rm "$table"
mark
systemctl stop "$unit"
journal_has "$unit" 'received' || fail "$unit does not report at its end"
pass "$unit reloads, stops and reports"
configure bridge "--link xdp:left --link xdp:right"
breaks "$unit" cap_bpf CAP_BPF
configure bridge "--link packet:left --link packet:right"
breaks "$unit" cap_net_raw CAP_NET_RAW
configure bridge "--link tap:tap0 --link tap:tap1"
breaks "$unit" cap_net_admin CAP_NET_ADMIN

configure serve-http "127.0.0.1:80 --access-log /var/log/corelane-serve-http/access.log"
systemctl enable --quiet corelane-bridge.service corelane-serve@http.service
systemctl restart corelane-serve@http.service
while [ ! -e /var/log/corelane-serve-http/access.log ]; do systemctl is-active --quiet corelane-serve@http.service; done
dpkg --purge corelane >/dev/null
! systemctl is-active --quiet corelane-serve@http.service || fail "corelane-serve@http.service runs after a purge"
# man-db keeps the pages that it has shown.
left=$(find / -xdev -name '*corelane*' -not -path '/var/cache/man/*')
[ -z "$left" ] || fail "a purge leaves $left"
! getent passwd | grep corelane || fail "a purge leaves a user"
pass "a purge stops and disables the units, and removes what they wrote"
echo "all units checked"
