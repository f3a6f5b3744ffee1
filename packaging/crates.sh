#!/usr/bin/env bash
# Runs `cargo package` or `cargo publish` for all crates, each with copies of the licences, which exist in the repository once.
#
#   packaging/crates.sh package|publish [OPTION…]
set -euo pipefail
cd "$(dirname "$0")/.."

trap 'rm -f crates/*/LICENSE-*' EXIT
for crate in crates/*/; do
  cp LICENSE-* "$crate"
done
"${CARGO:-cargo}" "$@" --workspace --exclude corelane-tests --exclude corelane-examples --locked
