#!/usr/bin/env bash
# Checks the packages: the .deb installs in a clean Debian and leaves nothing behind when it is purged; the units run under
# a booted systemd with no capability more than they need; the .rpm installs; and the static program runs as nobody in an
# empty root, as in its container. Needs root and a Debian; three minutes, most of them to fetch and unpack the Debian.
#   tests/packages/run.sh [PROGRAM]
# PROGRAM is a program for this machine, of this source; if not given, the release build. What is left is a tar archive of
# the Debian below the user's cache directory.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ "$(id -u)" -eq 0 ] || { echo "skipped: packages: run as root: they are installed in a root of their own"; exit 77; }
command -v apt-get >/dev/null || { echo "skipped: packages: no apt-get: run on a Debian"; exit 77; }
missing=()
for package in mmdebstrap systemd-container rpm; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

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
  # The first archive that apt reads packages from.
  read -r site codename < <(apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages')
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
cp "$deb" "$debian/corelane.deb"
inside dpkg --install /corelane.deb >"$work/log" 2>&1 || { cat "$work/log"; fail "dpkg does not install the package"; }
rm "$debian/corelane.deb"
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
inside dpkg --purge corelane >"$work/log" 2>&1 || { cat "$work/log"; fail "dpkg does not purge the package"; }
files >"$work/after"
diff "$work/before" "$work/after" || fail "files are left behind"
pass "a purge leaves nothing behind"

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
mkdir "$work/rpm"
rpm --root "$work/rpm" --install --nodeps --noscripts "$rpm" || fail "rpm does not install the package"
[ -x "$work/rpm/usr/bin/corelane" ] && [ -e "$work/rpm/usr/share/man/man1/corelane-load-http.1.gz" ] || fail "the .rpm lacks files"
rpm --root "$work/rpm" --erase --nodeps --noscripts corelane
[ ! -e "$work/rpm/usr/bin/corelane" ] && [ ! -e "$work/rpm/etc/corelane/bridge.conf" ] || fail "rpm leaves files behind"
pass "the .rpm installs and is erased"
echo "$passed passed, 0 failed, $skipped skipped"
