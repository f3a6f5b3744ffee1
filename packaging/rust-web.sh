# Sourced: Debian's rustc-web, with what the toolchain that builds corelane may lack: standard libraries of other machines,
# or their source to build one from. It is unpacked below the user's cache directory; nothing is installed.

rust="${XDG_CACHE_HOME:-$HOME/.cache}/corelane/rust-web"

. "${BASH_SOURCE[0]%/*}/apt.sh"

# Makes cargo use rustc-web, with further packages, such as rust-web-src or libstd-rust-web-dev:arm64.
use_rust_web() {
  local tool package packages
  for tool in apt-get apt-cache dpkg-deb; do
    command -v "$tool" >/dev/null || { echo "$tool was not found: this needs a Debian with rustc-web"; exit 77; }
  done
  for package in "$@"; do
    if ! grep -qsxF "$package" "$rust/packages"; then
      # All of them again, so that all have one version.
      mapfile -t packages < <({ cat "$rust/packages" 2>/dev/null || true; printf '%s\n' "$@"; } | sort -u)
      unpack_rust_web "${packages[@]}"
      break
    fi
  done
  export RUSTC="$rust/usr/bin/rustc" RUSTDOC="$rust/usr/bin/rustdoc"
  LD_LIBRARY_PATH="$rust/usr/lib/$(uname -m)-linux-gnu:$(dirname "$(find "$rust/usr/lib" -name 'libLLVM*.so*' -print -quit)")"
  export LD_LIBRARY_PATH
}

# apt has lists of its own here, which may be of other architectures.
unpack_rust_web() (
  download=$(mktemp -d)
  trap 'rm -rf "$download"' EXIT
  mkdir -p "$download"/{lists,cache,debs,root}
  options=(-o Dir::State::Lists="$download/lists" -o Dir::Cache="$download/cache" -o APT::Sandbox::User=root)
  for package in "$@"; do
    case $package in *:*) options+=(-o "APT::Architectures::=${package#*:}") ;; esac
  done
  apt-get "${options[@]}" update -qq
  # The packages that rustc-web needs: its standard library's, and the library of LLVM.
  depends() { apt-cache "${options[@]}" depends "$1" | awk -v of="$2" '$1 == "Depends:" && $2 ~ of { print $2; exit }'; }
  library=$(depends libstd-rust-web-dev '^libstd-rust-web-[0-9]')
  llvm=$(depends "$library" '^libllvm')
  cd "$download/debs"
  apt-get "${options[@]}" download -qq rustc-web libstd-rust-web-dev "$library" "$llvm" "$@" ||
    { echo "apt does not give rustc-web, libstd-rust-web-dev and $*"; exit 77; }
  for package in *.deb; do
    dpkg-deb -x "$package" ../root
  done
  printf '%s\n' "$@" >../root/packages
  rm -rf "$rust"
  mkdir -p "$(dirname "$rust")"
  mv ../root "$rust"
)
