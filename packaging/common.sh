# What the packages share; sourced at the root of the repository.

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
export SOURCE_DATE_EPOCH

license() { sed -n 's/^license = "\(.*\)"/\1/p' Cargo.toml; }

# architecture PROGRAM X86_64 ARM64: the name for the machine of an ELF program.
architecture() {
  case $(od -An -tx2 -j18 -N2 "$1" | tr -d ' ') in
    003e) echo "$2" ;;
    00b7) echo "$3" ;;
    *) echo "$1 is no program of an x86-64 or arm64 Linux" >&2; return 1 ;;
  esac
}

# The newest version of glibc whose symbols a dynamic program names; nothing for a static one.
needed_libc() {
  grep -aq '/lib.*/ld-linux' "$1" || return 0
  grep -aoE 'GLIBC_[0-9]+\.[0-9.]+' "$1" | sed 's/GLIBC_//' | sort -Vu | tail -n 1
}
