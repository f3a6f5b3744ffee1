#!/usr/bin/env bash
# Loading 6 million addresses, as whole commands: corelane from text and from a snapshot, the kernel's sets from the
# same list. Each result is the command's CPU time in seconds (user and system), the median of three runs, and the ratio
# to corelane's text load. The kernel's sets are in network namespaces of their own, which end with the command.
set -euo pipefail
cd "$(dirname "$0")/.."

entries=${1:-6000000}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

. bench/common.sh
corelane=$(program)

# Distinct addresses in random order: a multiplication by an odd number permutes the 32-bit numbers.
awk -v entries="$entries" 'BEGIN { for (i = 1; i <= entries; i++) { x = (i * 1103515245 + 12345) % 4294967296;
  printf "%d.%d.%d.%d\n", x / 16777216 % 256, x / 65536 % 256, x / 256 % 256, x % 256 } }' > "$folder/plain"
{
  echo "create s hash:ip family inet hashsize 4194304 maxelem $entries"
  sed 's/^/add s /; s/$/ -exist/' "$folder/plain"
} > "$folder/ipset"
{
  printf 'table ip t {\nset s {\ntype ipv4_addr\nelements = {\n'
  sed 's/$/,/' "$folder/plain"
  printf '}\n}\n}\n'
} > "$folder/nft"

# The median CPU time of three runs, in seconds; nothing if the command fails.
median_cpu_seconds() {
  for _ in 1 2 3; do
    TIMEFORMAT='%U %S'
    { time "$@" > /dev/null 2>&1; } 2>&1 | awk '{ print $1 + $2 }'
    [ "${PIPESTATUS[0]}" -eq 0 ] || return 1
  done | sort -n | sed -n 2p
}

tell() {
  local name=$1 seconds
  shift
  if ! "$@" > /dev/null 2>&1; then
    printf '%-34s skipped: it failed (not installed, not root, or not in this kernel)\n' "$name"
    return
  fi
  seconds=$(median_cpu_seconds "$@")
  [ -n "${text:-}" ] || text=$seconds
  awk -v name="$name" -v seconds="$seconds" -v text="$text" \
    'BEGIN { printf "%-34s %8.3f s %8.3f of the text load\n", name, seconds, seconds / text }'
}

printf '%s addresses, %s bytes of text\n' "$entries" "$(stat -c %s "$folder/plain")"
tell "corelane, text" "$corelane" table lookup "$folder/plain" 192.0.2.1
"$corelane" table build "$folder/plain" --output "$folder/table" > /dev/null
tell "corelane, snapshot" "$corelane" table lookup "$folder/table" 192.0.2.1
tell "ipset restore" unshare --net -- ipset restore -file "$folder/ipset"
tell "nft -f" unshare --net -- nft -f "$folder/nft"
