# Sourced: packages of Debian that scripts need beyond Rust. INSTALL=yes in the environment allows to install them.

# True if packages may be installed, and can be.
may_install() { [ "${INSTALL-}" = yes ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }

# Installs those of these packages that are missing. Prints them and how to get them, and fails, unless it may and can.
install_packages() {
  local missing=() package line
  for package in "$@"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  line="apt-get install -y --no-install-recommends ${missing[*]}"
  if ! may_install; then
    echo "more packages of Debian are needed: ${missing[*]}"
    echo "INSTALL=yes installs them as root ($line), and neither starts nor enables their services"
    return 1
  fi
  apt-get update -qq
  without_services DEBIAN_FRONTEND=noninteractive $line -qq >/dev/null || return 1
  disable_services "${missing[@]}"
}

# Runs a command; services of packages that it installs are not started (deb-systemd-invoke and invoke-rc.d ask this file).
without_services() {
  local policy="${POLICY:-/usr/sbin/policy-rc.d}"
  if [ -e "$policy" ]; then
    env "$@"
    return
  fi
  (
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    env "$@"
  )
}

# Services of packages that were just installed do not start with the machine either.
disable_services() {
  local units
  command -v systemctl >/dev/null || return 0
  units=$(dpkg -L "$@" 2>/dev/null | sed -n 's|.*/lib/systemd/system/\([^/@]*\.service\)$|\1|p' | sort -u)
  [ -z "$units" ] || systemctl --quiet disable $units >/dev/null 2>&1 || true
}

# The same for a script that cannot do without: it ends, as skipped.
need_packages() { install_packages "$@" || exit 77; }

# The first archive that apt reads packages from: its address and its release.
first_archive() { apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' | head -n 1; }
