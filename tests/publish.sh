#!/usr/bin/env bash
# Makes the packages that `cargo publish` would upload, with the licences and, of a checkout without changes, its commit, and
# compiles each of them as it would be downloaded; then the workspace with the oldest Rust that Cargo.toml promises
# (rust-version), unless that is the Rust in use.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/package-test"
rm -f "$CARGO_TARGET_DIR"/package/*.crate
changed=$(git status --porcelain)
"$cargo" package --workspace --locked --quiet ${changed:+--allow-dirty}
# Tests and examples are packaged with the workspace, but not published.
for package in $(ls "$CARGO_TARGET_DIR"/package/*.crate | grep -v -e /corelane-tests- -e /corelane-examples-); do
  for licence in LICENSE-MIT LICENSE-APACHE; do
    tar -xOzf "$package" --wildcards "*/$licence" | cmp - "$licence"
  done
  source=$(tar -xOzf "$package" --wildcards '*/.cargo_vcs_info.json')
  if [ -z "$changed" ] && [[ $source != *"\"$(git rev-parse HEAD)\""* || $source == *dirty* ]]; then
    echo "$package records another commit than HEAD: $source"
    exit 1
  fi
done

"$cargo" install --quiet --locked --root "$CARGO_TARGET_DIR/installed" --path crates/cli
"$CARGO_TARGET_DIR/installed/bin/corelane" --version | grep -q '^commit: [0-9a-f]\{40\}'

oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if rustc --version | grep -q "^rustc $oldest\."; then
  echo "compiled by Rust $oldest, the oldest that Cargo.toml promises"
elif rustup run "$oldest" rustc --version 2>/dev/null; then
  RUSTUP_TOOLCHAIN=$oldest "$cargo" check --workspace --locked --quiet
else
  echo "skipped: rustup has no Rust $oldest here (rustup toolchain install $oldest)"
  exit 77
fi
