#!/usr/bin/env bash
# Finds the packages that the tests need beyond Rust. INSTALL=yes installs what is missing, as root; INSTALL=no goes on without, and
# tests that need them are skipped; otherwise this lists them and stops.
set -euo pipefail
. "$(dirname "$0")/../packaging/apt.sh"

packages=(qemu-system-x86 busybox-static tshark nginx-light clang iproute2 ethtool nftables wrk nghttp2-client apache2-utils curl groff-base systemd
  zsh fish prometheus gcc make libevent-dev libssl-dev libmemcached-tools)

case "${INSTALL-}" in yes | no | "") ;; *) echo "INSTALL=$INSTALL: give yes or no" && exit 2 ;; esac
complete=true
install_packages "${packages[@]}" || complete=false

# The check of NICs emulates an igb, which QEMU has since 8.0. Debian 12 has it in its backports.
install_backported_qemu() {
  local sources site codename
  read -r site codename < <(first_archive)
  sources=$(mktemp)
  cat /etc/apt/sources.list >"$sources" 2>/dev/null || true
  echo "deb $site $codename-backports main" >>"$sources"
  apt-get -o Dir::Etc::sourcelist="$sources" update -qq &&
    without_services DEBIAN_FRONTEND=noninteractive apt-get -o Dir::Etc::sourcelist="$sources" -t "$codename-backports" \
      install -y --no-install-recommends -qq qemu-system-x86
  local outcome=$?
  rm "$sources"
  return $outcome
}
if command -v qemu-system-x86_64 >/dev/null && ! qemu-system-x86_64 -device help | grep -q '"igb"'; then
  if ! may_install || ! install_backported_qemu; then
    echo "the check of an igb needs QEMU 8.0 or newer; INSTALL=yes replaces this one by that of Debian's backports"
    complete=false
  fi
fi
if [ $complete = false ] && [ "${INSTALL-}" != no ]; then
  echo "INSTALL=no goes on without; tests that need them report that they are skipped"
  exit 1
fi

# Extracts the kernel of the guests that tests boot, with its modules of devices and tunnels, from Debian's package without
# installing it, so that this machine keeps its own kernel. The directory has the package's name, so that another checkout, which
# may unpack another kernel, does not mix its files with these. A kernel that is there is replaced when the new one is whole.
guest="${XDG_CACHE_HOME:-$HOME/.cache}/corelane/guest/linux-image-amd64"
modules=(virtio_net net_failover failover igb dca i2c-algo-bit veth tun vxlan geneve gre ip_gre ipip sit ip_tunnel tunnel4 udp_tunnel
  ip6_gre ip6_tunnel tunnel6 ip6_udp_tunnel esp4 esp6 xfrm_algo xfrm_user gcm ctr ghash-generic gf128mul seqiv
  drbg jitterentropy_rng sha512_generic)
unpack_kernel() {
  local kernel download files
  kernel=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')
  download=$(mktemp -d)
  files=("${modules[@]/#/./lib/modules/*/kernel/*/}")
  mkdir -p "$guest.new"
  (cd "$download" && apt-get -o APT::Sandbox::User=root download -qq "$kernel") &&
    dpkg-deb --fsys-tarfile "$download"/*.deb | tar -x -C "$guest.new" --wildcards './boot/vmlinuz-*' \
      './lib/modules/*/kernel/drivers/virtio/*' "${files[@]/%/.ko*}" &&
    rm -rf "$guest" && mv "$guest.new" "$guest"
  local outcome=$?
  rm -rf "$download" "$guest.new"
  return $outcome
}
if ! compgen -G "$guest/lib/modules/*/kernel/net/ipv4/ip_gre.ko*" >/dev/null && ! unpack_kernel; then
  echo "apt does not give linux-image-amd64 (run apt-get update?): tests of tunnels in an emulated machine are skipped, all tests in one"
  echo "if there is no kernel from before"
fi

# Builds the memcached that servers of its protocol are compared with.
if ! upstream=$("$(dirname "$0")/upstream.sh"); then
  echo "memcached is not built: tests that compare servers with it are skipped"
fi
[ -z "$upstream" ] || echo "$upstream"
