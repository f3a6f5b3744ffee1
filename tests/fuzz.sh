#!/usr/bin/env bash
# Fuzzes the parsers with libFuzzer and AddressSanitizer: each target for the given minutes, one after the other.
#
#   tests/fuzz.sh [MINUTES [TARGET…]]      default: one minute, all targets; 0 minutes: only the kept inputs
#
# Targets are folder names of crates/*/fuzz/corpus. Needs a C++ compiler but no nightly toolchain: stable rustc has the
# sanitizer and permits it with RUSTC_BOOTSTRAP. Failing inputs are in crates/*/fuzz/artifacts and are listed; new
# inputs worth keeping are in crates/*/fuzz/target/found.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:-1}
shift || true
[[ $minutes =~ ^[0-9]+$ ]] || { echo "tests/fuzz.sh: '$minutes' minutes: give a whole number" >&2; exit 2; }

mapfile -t all < <(cd crates && ls -d -- */fuzz/corpus/*)
chosen=()
for wanted in "${@:-}"; do
  before=${#chosen[@]}
  for corpus in "${all[@]}"; do
    [[ -z $wanted || ${corpus##*/} == "$wanted" ]] && chosen+=("$corpus")
  done
  (( ${#chosen[@]} > before )) || { echo "tests/fuzz.sh: no target $wanted; there are: ${all[*]##*/}" >&2; exit 2; }
done

host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1
# The flags of cargo-fuzz: edge coverage in counters, traced comparisons, and the checks of a debug build.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address -Cdebug-assertions -Ccodegen-units=1 --cfg fuzzing"

# The folder to which targets write files: in memory if such a folder exists; it is removed afterwards.
memory=/dev/shm
[[ -w $memory ]] || memory=${TMPDIR:-/tmp}
TMPDIR=$(mktemp -d -p "$memory")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

failed=()
for corpus in "${chosen[@]}"; do
  crate=crates/${corpus%%/*}/fuzz
  target=${corpus##*/}
  echo "== $crate: $target"
  CARGO_TARGET_DIR=$crate/target cargo build --quiet --release --target "$host" \
    --manifest-path "$crate/Cargo.toml" --bin "$target"
  found=$crate/target/found/$target
  mkdir -p "$found" "$crate/artifacts/$target"
  limit=(-runs=0)
  (( minutes > 0 )) && limit=(-max_total_time=$((minutes * 60)))
  "$crate/target/$host/release/$target" "${limit[@]}" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$crate/artifacts/$target/" "$found" "crates/$corpus" || failed+=("$crate: $target")
done
if (( ${#failed[@]} )); then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "nothing found: ${#chosen[@]} targets, $minutes minutes each"
