#!/usr/bin/env bash
# Makes a .deb of a program: packaging/deb.sh PROGRAM FOLDER writes FOLDER/corelane_VERSION_ARCHITECTURE.deb. The same program
# and source give the same bytes: every time in it is SOURCE_DATE_EPOCH, or the commit's.
set -euo pipefail
umask 022
[ $# -eq 2 ] || { echo "packaging/deb.sh PROGRAM FOLDER"; exit 2; }
program=$(realpath "$1") output=$(realpath "$2")
cd "$(dirname "$0")/.."
. packaging/common.sh

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
packaging/stage.sh "$program" "$root" /usr
# Where Debian's zsh looks.
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
mv "$root/usr/share/doc/corelane/CHANGELOG.md" "$root/usr/share/doc/corelane/changelog"
gzip -9n "$root/usr/share/doc/corelane/changelog"
{ echo "License: $(license)"; cat LICENSE-MIT LICENSE-APACHE; } >"$root/usr/share/doc/corelane/copyright"
rm "$root"/usr/share/doc/corelane/LICENSE-*

install -d "$root/DEBIAN"
(cd "$root" && find etc -type f -printf '/%p\n' | LC_ALL=C sort) >"$root/DEBIAN/conffiles"
# A program that is not static needs a C library with the newest symbols that it names.
library=$(needed_libc "$program")
cat >"$root/DEBIAN/control" <<CONTROL
Package: corelane
Version: $version
Architecture: $(architecture "$program" amd64 arm64)
Maintainer: corelane <corelane@localhost>
Section: net
Priority: optional
Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)
${library:+Depends: libc6 (>= $library)
}Suggests: bash-completion, iproute2
Description: measures whether network servers scale with CPUs
 corelane measures the packet rate and the request rate of a machine, whether
 they grow with the number of CPUs, and what limits them. It has servers and
 load generators for UDP, TCP and HTTP, steers packets to sockets by the hash
 of receive side scaling (RSS), and filters frames by address tables.
CONTROL
for script in postinst prerm postrm; do
  install -m 755 "packaging/debian/$script" "$root/DEBIAN/$script"
done
find "$root" -print0 | xargs -0r touch --no-dereference --date "@$SOURCE_DATE_EPOCH"
dpkg-deb --root-owner-group -Zxz --build "$root" "$output"
