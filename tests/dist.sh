#!/usr/bin/env bash
# Tests the static binaries that `make dist` builds: this machine's in an empty root, arm64's under qemu-user; then the pure
# crates' tests as arm64 programs.
#
# Everything runs in namespaces of its own, which end with their commands. DIST=FOLDER tests binaries that were built before.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/rust-web.sh
. bench/common.sh

need_packages qemu-user iproute2 strace
# Namespaces that end with their first process, and every other process in them with it.
isolated=(unshare --user --map-root-user --net --mount --pid --fork --kill-child --mount-proc)
"${isolated[@]}" true ||
  { echo "skipped: user namespaces are not permitted here"; exit 77; }
if [ -z "${DIST:-}" ]; then
  DIST=dist
  packaging/dist.sh "$(uname -m)" aarch64
fi
static=$(realpath "$DIST"/corelane-*-"$(uname -m)"-*-static)
arm64=$(realpath "$DIST"/corelane-*-aarch64-*-static)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/root"
cp "$static" "$folder/root/corelane"
failed=0

# Runs a script in namespaces of its own, where "${corelane[@]}" runs in $root, which contains nothing else.
bare() {
  "${isolated[@]}" bash -euo pipefail -c '
    . bench/common.sh; ip link set lo up; root=$1 corelane=(chroot "$1" /corelane); eval "$2"' \
    - "$folder/root" "$1" >"$folder/output" 2>&1
}

# The result of the last command: its name, and what must be in its output.
check() {
  local status=$? name=$1 wanted=$2
  if [ $status -eq 0 ] && grep -qE "$wanted" "$folder/output"; then
    echo "ok: $name"
  else
    echo "FAILED: $name (exit code $status, expected: $wanted)"
    tail -n 40 "$folder/output"
    failed=1
  fi
}

target=$(basename "$static" -static)
target=${target#corelane-*-}
bare '"${corelane[@]}" --version' && true
check "the version names commit and target" "^commit: [0-9a-f]{40}"
grep -qx "target: $target" "$folder/output" && true
check "the target is $target" .

bare '"${corelane[@]}" serve udp 127.0.0.1:8080 & until_done grep -q :1F90 /proc/net/udp
  "${corelane[@]}" load udp 127.0.0.1:8080 --rate 10k --duration 1s --json; kill $!; wait $! || true' && true
check "serve udp and load udp in an empty root" '"returned": (9[0-9]{3}|10000)\b'
bare '"${corelane[@]}" serve http 127.0.0.1:8080 --tls & until_done grep -q :1F90 /proc/net/tcp
  "${corelane[@]}" load http https://127.0.0.1:8080/ --insecure --duration 1s; kill $!; wait $! || true' && true
check "serve http and load http with TLS in an empty root" '^failed +0 '

bare '! "${corelane[@]}" load http http://localhost:8080/ --duration 1s' && true
check "a name that is not found says what was asked" 'asks /etc/hosts and the DNS servers'
mkdir "$folder/root/etc"
echo '127.0.0.1 known' >"$folder/root/etc/hosts"
# Modules of another glibc must not be loaded.
echo 'hosts: resolve files' >"$folder/root/etc/nsswitch.conf"
bare '"${corelane[@]}" serve http 127.0.0.1:8080 & until_done grep -q :1F90 /proc/net/tcp
  strace -f -e trace=openat "${corelane[@]}" load http http://known:8080/ --duration 1s
  kill $!; wait $! || true' && ! grep libnss "$folder/output" && true
check "a name of /etc/hosts is found, without shared libraries" '^failed +0 '

bare '! "${corelane[@]}" lab scale udp --quick' && true
check "a lab, which starts itself as its children, says without /proc what is missing" 'Is /proc mounted\?'
mkdir "$folder/root/proc" "$folder/root/sys"
bare 'mount --rbind /proc "$root/proc"; mount --rbind /sys "$root/sys"
  "${corelane[@]}" lab scale udp --duration 200ms --rounds 1' && true
check "lab scale udp in a root with /proc and /sys" '^2 buckets answered|buckets? answered'

# The kernel starts arm64 programs by qemu-user in namespaces of their own (Linux 6.7), so that a lab can start its children.
emulated() {
  "${isolated[@]}" bash -euo pipefail -c '
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    printf %s ":arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:$(command -v qemu-aarch64):F" >/proc/sys/fs/binfmt_misc/register
    ip link set lo up
    "$@"' - "$@" >"$folder/output" 2>&1
}
emulated "$arm64" --version && true
check "the arm64 binary starts" '^target: aarch64-'
emulated "$arm64" hash 66.9.149.187:2794 161.142.100.80:1766 && true
check "arm64 hashes as the verification suite does" '0x51ccc178'
emulated "$arm64" lab scale udp --bed loopback --models reuseport --duration 200ms --rounds 1 && true
check "lab scale udp --models reuseport on arm64" 'buckets? answered'
! emulated "$arm64" lab scale udp --bed loopback --models exact --duration 200ms --rounds 1
check "exact steering on arm64 stops where qemu-user has no SO_ATTACH_REUSEPORT_CBPF" \
  'cannot attach the steering program .*Protocol not available'

tests/emulated.sh aarch64 || failed=1
exit $failed
