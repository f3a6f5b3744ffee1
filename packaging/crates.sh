#!/usr/bin/env bash
# Runs `cargo package` or `cargo publish` for all crates, each with copies of the licences, which exist in the repository once.
#
#   packaging/crates.sh package|publish [OPTION…]
set -euo pipefail
cd "$(dirname "$0")/.."

# Cargo takes the copies for changes that are not committed; what else is not committed must not be published.
if [ "${1:-}" = publish ] && [ -n "$(git status --porcelain)" ]; then
  echo "there are changes that are not committed: commit them, or put them aside (git stash -u)" >&2
  exit 1
fi
trap 'rm -f crates/*/LICENSE-*' EXIT
for crate in crates/*/; do
  cp LICENSE-* "$crate"
done
"${CARGO:-cargo}" "$@" --workspace --exclude corelane-tests --exclude corelane-examples --locked --allow-dirty
