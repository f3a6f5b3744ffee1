#!/usr/bin/env bash
# Runs clients' own tests against a server that takes memcached's arguments, and against upstream memcached: the tools of
# libmemcached, pymemcache's tests (from PyPI, in a Python environment of its own) and gomemcache's (a Go module). The server passes
# if it passes each test that upstream passes. The tests have fixed ports, so that servers and clients run in a network namespace of
# their own. Needs a Debian, its network while it downloads, and two minutes; leaves nothing behind.
#   tests/clients.sh COMMAND [ARGUMENT…]
set -euo pipefail
tests=$(realpath "$(dirname "$0")")
. "$tests/../packaging/apt.sh"

# Runs a test: its name is printed if it passes.
passes() { if "${@:2}" >>"$work/log" 2>&1; then echo "$1"; fi; }

copies_files() {
  head -c 100000 /dev/urandom >"$work/file"
  memccp --servers=127.0.0.1 "$work/file" && memccat --servers=127.0.0.1 file >"$work/copy" &&
    cmp -n 100000 "$work/file" "$work/copy" && memcexist --servers=127.0.0.1 file && memcrm --servers=127.0.0.1 file &&
    ! memcexist --servers=127.0.0.1 file
}
counts_items() { memcstat --servers=127.0.0.1 | grep -q curr_items; }
verifies_values() {
  memcaslap --servers=127.0.0.1:11211 --threads=1 --concurrency=16 --execute_number=50000 --verify=1.0 "$@" | tee "$work/caslap" >>"$work/log"
  grep -q 'TPS' "$work/caslap" && grep -q '^verify_failed: 0' "$work/caslap"
}

# Prints the tests that pass against the server on the port of memcached, a line each.
run_tests() {
  { memccapable -h 127.0.0.1 -p 11211 -a -t 5 2>>"$work/log" || true; } | sed -nE 's/.*(ascii [a-z ]*[a-z]) +\[pass\]$/libmemcached \1/p'
  passes "libmemcached memccp" copies_files
  passes "libmemcached memcping" memcping --servers=127.0.0.1
  passes "libmemcached memcstat" counts_items
  passes "libmemcached memcslap set" memcslap --servers=127.0.0.1 --concurrency=4 --execute-number=2000 --test=set
  passes "libmemcached memcslap get" memcslap --servers=127.0.0.1 --concurrency=4 --execute-number=2000 --test=get
  passes "libmemcached memcslap mget" memcslap --servers=127.0.0.1 --concurrency=4 --execute-number=2000 --test=mget
  passes "libmemcached memcaslap" verifies_values
  passes "libmemcached memcaslap multi-get" verifies_values --division=20
  passes "libmemcached memcflush" memcflush --servers=127.0.0.1
  (cd "$work"/pymemcache-*/ && "$work/python/bin/pytest" -o addopts= -p no:cacheprovider -q -rp -m 'unit or integration' 2>&1 || true) |
    tee -a "$work/log" | sed -nE 's/^PASSED ([^ ]+)/pymemcache \1/p'
  (cd "$work" && PATH="$work/bin:$PATH" ./gomemcache.test -test.v 2>&1 || true) |
    tee -a "$work/log" | sed -nE -e 's/^ *--- PASS: ([^ ]+).*/gomemcache \1/p' -e 's/^ *--- SKIP: ([^ ]+).*/skipped gomemcache \1/p'
}

# In the namespace: starts a server, runs the tests, and ends it.
test_server() {
  mkdir -p "$work/bin"
  # gomemcache's tests start more of them by this name. Root in a namespace stays what it is.
  printf '#!/bin/sh\nexec %s-u root "$@"\n' "$(printf '%q ' "$@")" >"$work/bin/memcached"
  chmod 755 "$work/bin/memcached"
  "$work/bin/memcached" -l 127.0.0.1 -p 11211 -U 0 >>"$work/log" 2>&1 &
  local server=$! tries=0
  until memcping --servers=127.0.0.1 >/dev/null 2>&1; do
    tries=$((tries + 1))
    { [ $tries -lt 100 ] && kill -0 $server; } || { echo "the server does not start: $*" >&2; tail -n 20 "$work/log" >&2; return 1; }
    sleep 0.1
  done
  run_tests
  kill $server
  wait $server || true
}

if [ "${1-}" = --in-namespace ]; then
  work=$2
  ip link set lo up
  test_server "${@:3}"
  exit
fi

[ $# -gt 0 ] || { echo "usage: tests/clients.sh COMMAND [ARGUMENT…], which takes memcached's arguments"; exit 2; }
packages=(libmemcached-tools iproute2)
command -v go >/dev/null || packages+=(golang-go)
python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
need_packages "${packages[@]}"
upstream="${XDG_CACHE_HOME:-$HOME/.cache}/corelane/memcached/memcached"
"$tests/upstream.sh" || exit 77
work=$(mktemp -d)
trap '[ -z "${LOG-}" ] || cp "$work/log" "$LOG"; rm -rf "$work"' EXIT

python3 -m venv "$work/python"
"$work/python/bin/pip" install --quiet --disable-pip-version-check pytest Faker zstd
(cd "$work" && "$work/python/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: pymemcache && tar -xf pymemcache-*.tar.gz)
export GOMODCACHE=$work/go GOFLAGS=-modcacherw
mkdir "$work/module"
(cd "$work/module" && go mod init clients && go get github.com/bradfitz/gomemcache/memcache &&
  go test -c -o "$work/gomemcache.test" github.com/bradfitz/gomemcache/memcache) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

users=()
[ "$(id -u)" -eq 0 ] || users=(--map-root-user)
passed() { unshare --net "${users[@]}" "$0" --in-namespace "$work" "$@" | sort; }
passed "$upstream" >"$work/upstream"
passed "$@" >"$work/subject"
for suite in libmemcached pymemcache gomemcache; do
  echo "$suite: $(grep -c "^$suite" "$work/subject") tests pass, against upstream $(grep -c "^$suite" "$work/upstream")"
done
# gomemcache starts memcached with its flags of TLS, which docs/MEMCACHED.md says are refused.
sed -n 's/^skipped //p' "$work/subject" | tee "$work/skipped" | sed 's/^/skipped by its suite: /'
sort "$work/subject" "$work/skipped" <(echo "gomemcache TestTLS") | comm -23 "$work/upstream" - >"$work/failed"
if [ -s "$work/failed" ]; then
  echo "these pass against upstream only (LOG=FILE keeps what they printed):"
  cat "$work/failed"
  exit 1
fi
