#!/usr/bin/env bash
# Checks the packages: .deb and .rpm install in a clean Debian and leave nothing behind, enabled units included, when they are
# purged or erased; the units run under a booted systemd with no capability more than they need; and the static program runs
# as nobody in an empty root, as in its container. Needs root and a Debian; three minutes, most of them to fetch and unpack the Debian.
#   tests/packages/run.sh [PROGRAM]
# PROGRAM is a program for this machine, of this source; if not given, the release build. What is left is a tar archive of
# the Debian below the user's cache directory.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ "$(id -u)" -eq 0 ] || { echo "skipped: packages: run as root: they are installed in a root of their own"; exit 77; }
command -v apt-get >/dev/null || { echo "skipped: packages: no apt-get: run on a Debian"; exit 77; }
. packaging/apt.sh
need_packages mmdebstrap systemd-container rpm

program=${1:-}
if [ -z "$program" ]; then
  ${CARGO:-cargo} build --quiet --release --bin corelane
  program=${CARGO_TARGET_DIR:-target}/release/corelane
fi
program=$(realpath "$program")

work=$(mktemp -d -p /var/tmp)
trap 'rm -rf --one-file-system "$work"' EXIT
say() { printf '== %s\n' "$1"; }
fail() { printf 'failed: %s\n' "$1" >&2; exit 1; }
passed=0
pass() { printf 'ok: %s\n' "$1"; passed=$((passed + 1)); }

say "a clean Debian"
base=${XDG_CACHE_HOME:-$HOME/.cache}/corelane/packages/debian.tar
if [ ! -e "$base" ]; then
  mkdir -p "${base%/*}"
  read -r site codename < <(first_archive)
  mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,iproute2,man-db,bash-completion \
    --aptopt='APT::Sandbox::User "root"' "$codename" "$work/base.tar" "deb $site $codename main"
  mv "$work/base.tar" "$base"
fi
debian=$work/debian
mkdir "$debian"
tar -C "$debian" -xf "$base" --exclude='./dev/*'

say ".deb"
for copy in one two; do
  mkdir "$work/$copy"
  (umask "$([ $copy = one ] && echo 022 || echo 077)"; packaging/deb.sh "$program" "$work/$copy" >/dev/null)
done
deb=$(echo "$work"/one/*.deb)
cmp "$deb" "$work/two/${deb##*/}" || fail "two packages of one program differ"
pass "two packages of one program are the same bytes"

# Every file of the Debian with its kind, mode, owner, size and target, but for what dpkg, apt, man-db and systemd keep.
files() {
  (cd "$debian" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp \
    -o -path ./var/lib/dpkg -o -path ./var/lib/systemd -o -path ./var/log -o -path ./var/cache \) -prune -o -printf '%p %y %m %u %g %l\n' | LC_ALL=C sort)
}
inside() { chroot "$debian" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"; }
files >"$work/before"

# leaves_nothing WHAT: after it, the Debian is what it was, and no file has the name of the package.
leaves_nothing() {
  files >"$work/after"
  diff "$work/before" "$work/after" || fail "$1 leaves files behind"
  left=$(find "$debian" -xdev -name '*corelane*' -not -path '*/var/cache/man/*')
  [ -z "$left" ] || fail "$1 leaves $left"
  pass "$1 leaves nothing behind"
}

# logged WHAT COMMAND…: shows what the command printed if it fails.
logged() {
  "${@:2}" >"$work/log" 2>&1 || { cat "$work/log"; fail "$1"; }
}

install_deb() {
  cp "$deb" "$debian/corelane.deb"
  logged "dpkg does not install the package" inside dpkg --install /corelane.deb
  rm "$debian/corelane.deb"
}

# Without a running systemd, as in an image that is being built.
enable_units() {
  logged "systemctl does not enable the units" inside systemctl enable corelane-bridge.service corelane-serve@http.service
  [ -L "$debian/etc/systemd/system/multi-user.target.wants/corelane-serve@http.service" ] || fail "no unit is enabled"
}

install_deb
pass "it installs in a clean Debian"
inside corelane hash 66.9.149.187:2794 161.142.100.80:1766 | grep 51ccc178 >/dev/null || fail "the program does not run"
pass "its program runs"
inside man -w corelane-load-http >/dev/null || fail "man finds no page of load http"
inside env MANWIDTH=80 man corelane-load-http | grep 'corelane load http \[OPTIONS\] \[URL\]' >/dev/null || fail "man shows no page"
pass "man shows its pages"
inside bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader corelane; complete -p corelane' |
  grep _corelane >/dev/null || fail "bash loads no completion"
pass "bash loads its completion"

say "units under a booted systemd"
tests/packages/boot.sh "$debian" "$work" | tee "$work/units"
grep -q '^all units checked$' "$work/units" || fail "the units were not checked to the end"
passed=$((passed + $(grep -c '^ok: ' "$work/units")))

say "purge"
leaves_nothing "a purge under systemd"
install_deb
enable_units
logged "dpkg does not purge the package" inside dpkg --purge corelane
leaves_nothing "a purge without systemd"

say "container"
skipped=0
if tests/packages/container.sh "$program" "$work"; then
  passed=$((passed + 1))
elif [ $? -eq 77 ]; then
  skipped=1
else
  exit 1
fi

say ".rpm"
for copy in one two; do
  packaging/rpm.sh "$program" "$work/$copy" >/dev/null
done
rpm=$(echo "$work"/one/*.rpm)
cmp "$rpm" "$work/two/${rpm##*/}" || fail "two .rpm of one program differ"
pass "two .rpm of one program are the same bytes"
# Its scripts run in the Debian, as under systemd, where systemctl records how it is called, and only enables and disables.
# The folders of zsh and fish are in the base of systems with .rpm.
mkdir -p "$debian/run/systemd/system" "$debian"/usr/share/{zsh/site-functions,fish/vendor_completions.d}
files >"$work/before"
printf '#!/bin/sh\necho "$*" >>/calls\ncase $* in *able*) exec /usr/bin/systemctl --root=/ "$@" ;; esac\n' >"$debian/usr/sbin/systemctl"
chmod 755 "$debian/usr/sbin/systemctl"
in_rpm() {
  echo "$1" >>"$debian/calls"
  logged "rpm fails: $*" rpm --root "$debian" --define '_dbpath /var/lib/rpm' --nodeps "$@"
}
in_rpm --install "$rpm"
inside corelane --version >/dev/null || fail "the program of the .rpm does not run"
[ "$(find "$debian/etc/corelane" -type f -perm 644 | wc -l)" -eq 4 ] &&
  [ -e "$debian/usr/share/man/man1/corelane-load-http.1.gz" ] || fail "the .rpm lacks files"
in_rpm --upgrade --force "$rpm"
enable_units
in_rpm --erase corelane
diff - "$debian/calls" <<'CALLS' || fail "the scripts of the .rpm call systemctl otherwise"
--install
daemon-reload
--upgrade
daemon-reload
try-restart corelane-bridge.service corelane-serve@*.service
daemon-reload
enable corelane-bridge.service corelane-serve@http.service
--erase
stop corelane-bridge.service corelane-serve@*.service
--no-reload disable corelane-bridge.service corelane-serve@.service
daemon-reload
CALLS
pass "the .rpm installs, is upgraded and erased, and its scripts run"
rm -r "$debian/run/systemd" "$debian/usr/sbin/systemctl" "$debian/calls" "$debian/var/lib/rpm"
leaves_nothing "an erased .rpm"
echo "$passed passed, 0 failed, $skipped skipped"
