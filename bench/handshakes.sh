#!/usr/bin/env bash
# TLS handshakes per second of server CPU time with aws-lc, as a ratio to ring, which corelane uses.
#
# Both run in memory, on one CPU, in alternating rounds; the ratio is of the medians. There is no target: the figures
# are the reason for the choice (docs/LOADING.md, "TLS").
#
#   bench/handshakes.sh [ROUNDS [SECONDS]]      default: 7 rounds of 1 s
set -euo pipefail
source "$(dirname "$0")/common.sh"

rounds=${1:-7}
seconds=${2:-1}
need cargo openssl taskset

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

crate=$(dirname "$0")/handshakes
for library in ring aws-lc; do
  cargo build --quiet --release --manifest-path "$crate/Cargo.toml" --features "$library" --target-dir "$folder/target"
  cp "$folder/target/release/handshakes" "$folder/$library"
done

# PEM files of a certificate for localhost: NAME, then the key's kind in the words of openssl req.
certificate() {
  openssl req -x509 -nodes -newkey "${@:2}" -keyout "$folder/$1.key" -out "$folder/$1.crt" -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE 2>/dev/null
}
certificate RSA-2048 rsa:2048
certificate P-256 ec -pkeyopt ec_paramgen_curve:prime256v1

for key in RSA-2048 P-256; do
  for ((round = 0; round < rounds; round++)); do
    for library in ring aws-lc; do
      taskset -c "$(($(nproc) - 1))" "$folder/$library" "$folder/$key.crt" "$folder/$key.key" "$seconds" \
        >>"$folder/$key.$library"
    done
  done
  ring=$(median <"$folder/$key.ring")
  other=$(median <"$folder/$key.aws-lc")
  echo "$key: $other a second with aws-lc, $ring with ring: ratio $(awk "BEGIN { printf \"%.2f\", $other / $ring }")"
done
