#!/usr/bin/env bash
# Builds memcached, of the source package of Debian's sid, without installing it, for the tests that compare servers with it: Debian's
# releases have older versions, which answer otherwise. apt gets the source with lists of its own, so that this machine's stay as they
# are. The program is replaced when the new one is whole.
#   tests/upstream.sh
# Prints nothing if the program is there. Needs gcc, make, the headers of libevent and OpenSSL.
set -euo pipefail
. "$(dirname "$0")/../packaging/apt.sh"

# The version whose answers the tests were written for.
known=1.6.45
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
built="${XDG_CACHE_HOME:-$HOME/.cache}/corelane/memcached"
[ ! -x "$built/memcached" ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# apt of sid's sources alone. They are verified with Debian's keyring.
sid() {
  "$@" -o Dir::Etc::sourcelist="$work/sid.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache"
}
apt_get() { sid apt-get -o APT::Sandbox::User=root -qq "$@"; }

# Downloads the source as its authors published it: its name.
download() {
  local site digest name
  read -r site _ < <(first_archive)
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
  echo "deb-src [signed-by=$keyring] $site sid main" >"$work/sid.list"
  apt_get update >&2
  read -r digest name < <(sid apt-cache showsrc memcached | sed -n '/^Checksums-Sha256:/,/^[^ ]/p' |
    awk '$3 ~ /\.orig\.tar\.[a-z0-9]*$/ { print $1, $3 }' | sort -k 2V | tail -n 1)
  # An archive may lack a file of the package; this one is enough, if it is what the signed list says.
  apt_get source --download-only memcached >&2 || true
  [ -n "$name" ] && echo "$digest  $name" | sha256sum --check --quiet >&2 && echo "$name"
}

cd "$work"
source=$(download 2>log) || { cat log && echo "apt does not give the source of memcached" && exit 1; }
tar -xf "$source"
version=${source#memcached_} version=${version%.orig.*}
cd "memcached-$version"
{ ./configure --enable-tls && make -j "$(nproc)" memcached; } >"$work/log" 2>&1 || { tail "$work/log" && exit 1; }
mkdir -p "$built"
cp memcached "$built/memcached.new"
mv "$built/memcached.new" "$built/memcached"
[ "$version" = "$known" ] || echo "built memcached $version; the tests were written for $known"
