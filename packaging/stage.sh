#!/usr/bin/env bash
# Puts what an installation has into a folder: the program, manual pages, completions, systemd units and their
# configuration. The folder is "" for this machine, or the root of a package.
#   packaging/stage.sh PROGRAM FOLDER [PREFIX]
# PREFIX is /usr/local if not given; another than that and /usr, such as ~/.local, gets no units. Configuration that exists is
# kept. Pages and completions are made from the source, which has to be that of the program, by MANUAL, the built example
# `manual` of crates/cli; it is built if not given.
set -euo pipefail
umask 022
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
program=$(realpath "$1") root=${2:+$(realpath -m "$2")} prefix=${3:-/usr/local}
cd "$(dirname "$0")/.."
share=$root$prefix/share

manual=${MANUAL:-${CARGO_TARGET_DIR:-target}/release/examples/manual}
# Without cargo, as under sudo, what was built is used.
if [ -z "${MANUAL:-}" ] && command -v "${CARGO:-cargo}" >/dev/null; then
  "${CARGO:-cargo}" build --quiet --release --locked --package corelane-cli --example manual
fi
[ -x "$manual" ] || { echo "packaging/stage.sh: $manual is not built: make build"; exit 1; }
"$manual" "$root$prefix"
for page in "$share"/man/man1/corelane*.1; do
  gzip -9nf "$page"
done
install -D -m 755 "$program" "$root$prefix/bin/corelane"
install -D -m 644 -t "$share/doc/corelane" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT
# The documents link to each other, so they lie as they do here.
for document in docs/*.* docs/*/*.md docs/*/*.json docs/*/*.png; do
  install -D -m 644 "$document" "$share/doc/corelane/$document"
done

# Units are the system's: it looks for them below these two.
case $prefix in /usr | /usr/local) ;; *) exit 0 ;; esac
install -d "$root$prefix/lib/systemd/system"
for unit in packaging/units/*.service; do
  sed "s,^ExecStart=/usr/bin/,ExecStart=$prefix/bin/," "$unit" >"$root$prefix/lib/systemd/system/${unit##*/}"
done
for file in packaging/etc/*.conf; do
  # One user's installation has no units to configure.
  [ -n "$root" ] || [ -w /etc ] || break
  [ -e "$root/etc/corelane/${file##*/}" ] || install -D -m 644 "$file" "$root/etc/corelane/${file##*/}"
done
