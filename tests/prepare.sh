#!/usr/bin/env bash
# Installs the packages that the tests need beyond Rust. As root it installs what is missing; otherwise it prints the
# command that does so.
set -euo pipefail

packages=(qemu-system-x86 busybox-static tshark nginx-light clang iproute2 ethtool nftables wrk nghttp2-client apache2-utils curl)

missing=()
for package in "${packages[@]}"; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done

line="apt-get install -y --no-install-recommends ${missing[*]}"
if [ ${#missing[@]} -eq 0 ]; then
  :
elif [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $line -qq
else
  echo "the tests need more packages: sudo $line"
fi

# Extracts the kernel of the guests that tests boot, with its device modules, from Debian's package without installing
# it, so that this machine keeps its own kernel.
guest="${XDG_CACHE_HOME:-$HOME/.cache}/corelane/guest"
unpack_kernel() {
  local kernel download
  kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')
  download=$(mktemp -d)
  mkdir -p "$guest"
  (cd "$download" && apt-get -o APT::Sandbox::User=root download -qq "$kernel") &&
    dpkg-deb --fsys-tarfile "$download"/*.deb | tar -x -C "$guest" --wildcards './boot/vmlinuz-*' './lib/modules/*/kernel/drivers/virtio/*' \
      './lib/modules/*/kernel/drivers/net/virtio_net.ko*' './lib/modules/*/kernel/drivers/net/net_failover.ko*' \
      './lib/modules/*/kernel/net/core/failover.ko*'
  local outcome=$?
  rm -r "$download"
  return $outcome
}
if { ! compgen -G "$guest/boot/vmlinuz-*cloud*" || ! compgen -G "$guest/lib/modules/*/kernel/drivers/net"; } >/dev/null &&
  ! unpack_kernel; then
  echo "tests in an emulated machine are skipped: apt does not give linux-image-cloud-amd64 (run apt-get update?)"
fi
