# Sourced: packages of Debian that scripts need beyond Rust.

# Installs those of these packages that are missing. Prints how, and fails, where that takes root or a Debian.
install_packages() {
  local missing=() package line
  for package in "$@"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  line="apt-get install -y --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "more packages of Debian are needed: sudo $line"
    return 1
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $line -qq >/dev/null
}

# The same for a script that cannot do without: it ends, as skipped.
need_packages() { install_packages "$@" || exit 77; }

# The first archive that apt reads packages from: its address and its release.
first_archive() { apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' | head -n 1; }
