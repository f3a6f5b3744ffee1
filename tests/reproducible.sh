#!/usr/bin/env bash
# Builds the static binaries of the current commit twice and compares them: in two folders, the second time with other times of
# files, a C compiler whose clock is more than a year ahead, another time zone and language.
#
#   tests/reproducible.sh [ARCHITECTURE…]
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/rust-web.sh

need_packages faketime
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset CARGO_TARGET_DIR SOURCE_DATE_EPOCH
git clone --quiet . "$folder/here"
git clone --quiet . "$folder/elsewhere/in/a/longer/path"
(cd "$folder/here" && packaging/dist.sh "$@")
# The C compilers and linkers see a later time; rustc hangs with the library of faketime. Files are of another time, too.
mkdir "$folder/bin"
for compiler in gcc aarch64-linux-gnu-gcc; do
  printf '#!/bin/sh\nexec faketime -f +400d /usr/bin/%s "$@"\n' "$compiler" >"$folder/bin/$compiler"
  chmod +x "$folder/bin/$compiler"
done
find "$folder/elsewhere" -type f -exec touch --date 2001-09-09 {} +
(cd "$folder/elsewhere/in/a/longer/path" && umask 077 &&
  PATH="$folder/bin:$PATH" TZ=Asia/Tokyo LC_ALL=C packaging/dist.sh "$@")
differ=0
for file in "$folder"/here/dist/*; do
  cmp "$file" "$folder/elsewhere/in/a/longer/path/dist/${file##*/}" || differ=1
done
[ $differ -eq 0 ] && echo "the same bytes: $(cd "$folder/here/dist" && echo corelane-*)"
exit $differ
