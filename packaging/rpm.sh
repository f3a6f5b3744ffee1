#!/usr/bin/env bash
# Makes an .rpm of a program: packaging/rpm.sh PROGRAM FOLDER writes FOLDER/corelane-VERSION-1.ARCHITECTURE.rpm. The same
# program and source give the same bytes: every time in it is SOURCE_DATE_EPOCH, or the commit's. The tool that writes it,
# cargo-generate-rpm, is built below the target folder the first time.
set -euo pipefail
umask 022
[ $# -eq 2 ] || { echo "packaging/rpm.sh PROGRAM FOLDER"; exit 2; }
program=$(realpath "$1") output=$(realpath "$2")
cd "$(dirname "$0")/.."
. packaging/common.sh

tools=$(realpath "${CARGO_TARGET_DIR:-target}")/tools
[ -x "$tools/bin/cargo-generate-rpm" ] ||
  ${CARGO:-cargo} install --quiet --locked --root "$tools" --version 0.21.1 cargo-generate-rpm

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
packaging/stage.sh "$program" "$root" /usr
library=$(needed_libc "$program")
requires=${library:+"glibc = '>= $library'"}
cat >"$root/Cargo.toml" <<MANIFEST
[package]
name = "corelane"
version = "$version"
license = "$(license)"
description = "Measures whether network servers scale with CPUs"

[package.metadata.generate-rpm]
assets = [
  { source = "usr/bin/*", dest = "/usr/bin/", mode = "755" },
  { source = "usr/lib/**/*", dest = "/usr/lib/", mode = "644" },
  { source = "usr/share/**/*", dest = "/usr/share/", mode = "644" },
  { source = "etc/**/*", dest = "/etc/", mode = "644", config = "noreplace" },
]
# As those of the .deb. \$1 is the number of packages of this name that remain: 0 when it is removed, 2 after an upgrade.
post_install_script = '''
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
  [ \$1 -lt 2 ] || systemctl try-restart corelane-bridge.service 'corelane-serve@*.service' || :
fi
'''
pre_uninstall_script = '''
if [ \$1 = 0 ]; then
  [ ! -d /run/systemd/system ] || systemctl stop corelane-bridge.service 'corelane-serve@*.service' || :
  ! command -v systemctl >/dev/null || systemctl --no-reload disable corelane-bridge.service corelane-serve@.service || :
fi
'''
post_uninstall_script = '''
[ ! -d /run/systemd/system ] || systemctl daemon-reload || :
# cargo-generate-rpm packages no folders, so rpm leaves them.
[ \$1 != 0 ] || rmdir /usr/share/doc/corelane/docs/* /usr/share/doc/corelane/docs /usr/share/doc/corelane /etc/corelane 2>/dev/null || :
'''

[package.metadata.generate-rpm.requires]
$requires
MANIFEST
cd "$root"
"$tools/bin/cargo-generate-rpm" --auto-req disabled --arch "$(architecture "$program" x86_64 aarch64)" --output "$output"
