#!/usr/bin/env bash
# Makes the packages that `cargo publish` would upload, with the licences and, of a checkout without changes, its commit, and
# compiles each of them as it would be downloaded; then the workspace with the oldest Rust that Cargo.toml promises
# (rust-version), unless that is the Rust in use.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/package-test"
changed=$(git status --porcelain)
"$cargo" package --workspace --exclude corelane-tests --exclude corelane-examples --locked --quiet ${changed:+--allow-dirty}
for package in "$CARGO_TARGET_DIR"/package/*.crate; do
  for licence in LICENSE-MIT LICENSE-APACHE; do
    tar -xOzf "$package" --wildcards "*/$licence" | cmp - "$licence"
  done
  [ -n "$changed" ] || tar -xOzf "$package" --wildcards '*/.cargo_vcs_info.json' | grep -q "\"$(git rev-parse HEAD)\"" || exit 1
  [ -n "$changed" ] || ! tar -xOzf "$package" --wildcards '*/.cargo_vcs_info.json' | grep '"dirty"' || exit 1
done

oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if rustc --version | grep -q "^rustc $oldest\."; then
  echo "compiled by Rust $oldest, the oldest that Cargo.toml promises"
elif rustup run "$oldest" rustc --version 2>/dev/null; then
  RUSTUP_TOOLCHAIN=$oldest "$cargo" check --workspace --locked --quiet
else
  echo "skipped: rustup has no Rust $oldest here (rustup toolchain install $oldest)"
  exit 77
fi
