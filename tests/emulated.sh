#!/usr/bin/env bash
# Runs the tests of the pure crates as programs of another machine, under qemu-user.
#
#   tests/emulated.sh s390x|aarch64
#
# s390x is big-endian: what the crates read and write has the byte order that its format says, whatever the machine's.
# aarch64 has none of the vector instructions of x86-64. Not run here: what needs the kernel (real_sockets: qemu-user has no
# SO_ATTACH_REUSEPORT_CBPF), and what does not depend on the machine and takes long (models of interleavings, six million
# entries).
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/rust-web.sh

machine=$1
target=$machine-unknown-linux-gnu
options=()
command -v cargo >/dev/null || { echo "cargo was not found"; exit 77; }
case $machine in
  aarch64)
    need_packages qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    use_rust_web libstd-rust-web-dev:arm64
    ;;
  s390x)
    # No toolchain has a standard library for s390x that is new enough, so it is built from source, with unstable options
    # of cargo.
    need_packages qemu-user gcc-s390x-linux-gnu libc6-dev-s390x-cross
    use_rust_web rust-web-src
    export RUSTC_BOOTSTRAP=1
    options=(-Zbuild-std=std,panic_unwind)
    ;;
esac

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/$machine" CARGO_INCREMENTAL=0
export "CARGO_TARGET_${machine^^}_UNKNOWN_LINUX_GNU_LINKER=$machine-linux-gnu-gcc"
export "CARGO_TARGET_${machine^^}_UNKNOWN_LINUX_GNU_RUNNER=qemu-$machine -L /usr/$machine-linux-gnu"
# Emulation is some ten times slower, so each property is tried with fewer inputs.
export PROPTEST_CASES="${PROPTEST_CASES:-16}"

crates=()
for crate in measure rss table proto packet stage report; do
  crates+=(--package "corelane-$crate")
done
"${CARGO:-cargo}" test "${options[@]}" --target "$target" "${crates[@]}" --lib --test all --no-fail-fast --quiet -- \
  --skip real_sockets --skip model --skip six_million
