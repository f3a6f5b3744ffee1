#!/usr/bin/env bash
# Installs by name what the tests need beyond Rust. As root it installs what is missing; otherwise it prints the one line
# that does.
set -euo pipefail

packages=()

missing=()
for package in "${packages[@]}"; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

line="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $line -qq
else
  echo "the tests need more packages: sudo $line"
fi
