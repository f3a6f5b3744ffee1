#!/usr/bin/env bash
# Boots the systemd of a Debian in which the package is installed, and runs units.sh in it.
# tests/packages/boot.sh ROOT FOLDER prints what units.sh prints.
set -euo pipefail
root=$1
install -m 755 "$(dirname "$0")/units.sh" "$root/units.sh"
cat >"$root/etc/systemd/system/units-test.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/units.sh
ExecStopPost=systemctl --no-block poweroff
StandardOutput=append:/units.out
StandardError=inherit
TimeoutStartSec=120
UNIT
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -s ../units-test.service "$root/etc/systemd/system/default.target.wants/"
left=(etc/systemd/system/units-test.service etc/systemd/system/default.target.wants units.sh units.out)
# Without a systemd to ask, nspawn makes these control groups itself, and leaves them.
groups() { find /sys/fs/cgroup -mindepth 2 -maxdepth 2 \( -name payload -o -name supervisor \) | LC_ALL=C sort; }
groups_before=$(groups)
clean() {
  (cd "$root" && rm -rf "${left[@]}")
  comm -13 <(echo "$groups_before") <(groups) | while read -r group; do
    find "$group" -depth -type d -exec rmdir {} +
  done
}
trap clean EXIT

timeout --kill-after=10 180 systemd-nspawn --quiet --directory="$root" --boot --register=no --keep-unit --private-network \
  --link-journal=no --console=pipe --capability=CAP_BPF,CAP_NET_ADMIN,CAP_NET_RAW --system-call-filter=bpf \
  --bind=/dev/net/tun </dev/null >"$2/boot.log" 2>&1 || { tail -n 30 "$2/boot.log" >&2; }
cat "$root/units.out"
