#!/usr/bin/env bash
# Builds one static binary for each architecture, its packages, and SHA256SUMS, in dist/. One commit gives the same bytes in any folder
# and at any time, if compiler and C library are the same.
#
#   packaging/dist.sh [ARCHITECTURE…]      default: x86_64 aarch64
#
# The file name has the target: musl if the toolchain has a standard library for it (rustup target add
# x86_64-unknown-linux-musl) and there is a C compiler for musl (Debian: musl-tools), otherwise glibc, linked statically.
# If the toolchain has no standard library for an architecture, Debian's rustc-web with that library is used. Without dpkg-deb,
# as on most systems other than Debian, no .deb is made.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/rust-web.sh

cargo=${CARGO:-cargo}
target_folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH

# The C compiler for a target; of Debian's, its name says the target.
compiler() {
  case $1 in
    "$(uname -m)-unknown-linux-gnu") echo gcc ;;
    "$(uname -m)-unknown-linux-musl") echo musl-gcc ;;
    *) echo "${1%%-*}-linux-${1##*-}-gcc" ;;
  esac
}

has_standard_library() {
  compgen -G "$("${RUSTC:-rustc}" --print target-libdir --target "$1")/libstd-*.rlib" >/dev/null
}

# Debian's name of an architecture.
debian() { case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) echo "$1" ;; esac; }

build() (
  architecture=$1
  target=$architecture-unknown-linux-musl
  if ! has_standard_library "$target" || ! command -v "$(compiler "$target")" >/dev/null; then
    target=$architecture-unknown-linux-gnu
    # Elsewhere than on Debian, the compiler is taken as it is.
    [ "$architecture" = "$(uname -m)" ] || { ! command -v dpkg && command -v "$(compiler "$target")"; } >/dev/null ||
      need_packages "gcc-${architecture//_/-}-linux-gnu" "libc6-dev-$(debian "$architecture")-cross"
    has_standard_library "$target" || use_rust_web "libstd-rust-web-dev:$(debian "$architecture")"
  fi
  # No path of this machine gets into the binary, and no identifier of this build.
  flags=(-C target-feature=+crt-static -C link-arg=-Wl,--build-id=none
    --remap-path-prefix "$target_folder=/target" --remap-path-prefix "$PWD=/corelane"
    --remap-path-prefix "${CARGO_HOME:-$HOME/.cargo}=/cargo" --remap-path-prefix "$rust=/rust")
  name=${target//-/_}
  CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && printf '%s' "${flags[*]}")
  export CARGO_ENCODED_RUSTFLAGS CARGO_INCREMENTAL=0
  export "CARGO_TARGET_${name^^}_LINKER=$(compiler "$target")" "CC_$name=$(compiler "$target")"
  export "CFLAGS_$name=-ffile-prefix-map=$target_folder=/target -ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo"
  options=(--release --locked --target "$target" --target-dir "$target_folder")
  "$cargo" build "${options[@]}" --bin corelane
  # Makes the manual pages and completions of all packages.
  if [ "$architecture" = "$(uname -m)" ]; then
    "$cargo" build "${options[@]}" --package corelane-cli --example manual
    install -m 755 "$target_folder/$target/release/examples/manual" "$target_folder/manual"
  fi
  built=$target_folder/$target/release/corelane
  if readelf --wide --program-headers --dynamic "$built" | grep -E 'INTERP|NEEDED'; then
    echo "$built is not static"
    exit 1
  fi
  if readelf --wide --section-headers "$built" | grep -F '.debug_'; then
    echo "$built has debugging information (profile.release, strip)"
    exit 1
  fi
  file=dist/corelane-$version-$target-static
  install -m 755 "$built" "$file"
  touch --date "@$SOURCE_DATE_EPOCH" "$file"
  echo "$file: $("${RUSTC:-rustc}" --version), $("$(compiler "$target")" --version | head -1)"
)

mkdir -p dist
rm -f dist/corelane* dist/SHA256SUMS "$target_folder/manual"
[ $# -gt 0 ] || set -- x86_64 aarch64
for architecture in "$@"; do
  build "$architecture"
done
# Of this run; without one, packaging/stage.sh builds it.
[ ! -x "$target_folder/manual" ] || export MANUAL=$target_folder/manual
for binary in dist/corelane-*-static; do
  if command -v dpkg-deb >/dev/null; then
    packaging/deb.sh "$binary" dist
  fi
  packaging/rpm.sh "$binary" dist
done
command -v dpkg-deb >/dev/null || echo "skipped: .deb packages: dpkg-deb was not found: install dpkg"
echo "made in dist:"
cd dist
sha256sum corelane* | tee SHA256SUMS
