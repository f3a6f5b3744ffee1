#!/usr/bin/env bash
# Software RSS on veth (`corelane rss`) against RPS and no steering: datagrams per second that an echo server with one worker
# per CPU answers in a closed loop, and locality: the share of datagrams that the kernel received on the CPU of their worker.
#
# usage: bench/software-rss.sh [rounds]
#
# The clients run on the same CPUs, and each sends to both workers: without steering, the receive path of veth runs on the
# sender's CPU. Cases take turns in every round; ratios are of one round. The senders finish checksums (`tx off`), as those of
# physical devices are: in the driver, a program that sends a frame to another CPU loses the mark that they are unfinished.
# RPS hashes in the kernel, and cannot know the workers. Targets: locality of at least 99 %, at 0.9 or more of the rate without
# steering, for the program in the driver; the one behind the driver and RPS are beside it.
#
# Exit code: 0 if the targets are met, 1 if not, 77 if this machine cannot run it.
set -euo pipefail
. "$(dirname "$0")/veth.sh"

rounds=${1:-7}
need jq ethtool taskset
corelane=$(program)
mapfile -t cpus < <(allowed_cpus)
if ((${#cpus[@]} < 2)); then
  echo "skipped: $0 needs two CPUs" >&2
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
server "$corelane" rss --dev veth0 --cpus "${cpus[0]},${cpus[1]}" --dry-run >"$scratch/steering.json"
client ethtool -K veth1 tx off >/dev/null

# Sends for two seconds; appends rate and locality to the files of the case.
measured() {
  local receiver
  server_in_background "$corelane" serve udp 10.11.2.1:8080 --steering "$scratch/steering.json" --watch veth0 \
    --json="$scratch/server.json"
  receiver=$!
  until_done holds_udp 8080
  client taskset -c "${cpus[0]},${cpus[1]}" "$corelane" load udp 10.11.2.1:8080 --steering "$scratch/steering.json" \
    --align even --flows 32 --window 16 --size 510 --duration 2s --json="$scratch/client.json" >/dev/null
  end "$receiver"
  jq '.total.returned / .sending_s' "$scratch/client.json" >>"$scratch/$1.rate"
  jq '[.buckets[]] | 100 * (map(.locality_right) | add) / (map(.locality_samples) | add)' "$scratch/server.json" >>"$scratch/$1.local"
}

# Measures with the program attached, by the hook named.
with_rss() {
  local program
  server_in_background "$corelane" rss --dev veth0 --attach --steering "$scratch/steering.json" --hook "$1" \
    --json="$scratch/$1.json"
  program=$!
  until_done attached || { wait "$program" || exit $?; exit 1; }
  measured "$1"
  end "$program"
  jq .queue_full "$scratch/$1.json" >>"$scratch/$1.lost"
}

attached() { server ip -details link show veth0 | grep -q prog/xdp; }

# Lets RPS use both CPUs, or none.
rps() {
  server unshare --mount sh -c "mount -t sysfs sysfs /sys && echo $1 >/sys/class/net/veth0/queues/rx-0/rps_cpus"
}

for ((round = 0; round < rounds; round++)); do
  measured none
  with_rss native
  with_rss generic
  rps "$(printf %x $((1 << cpus[0] | 1 << cpus[1])))"
  measured rps
  rps 0
done

for case in none native generic rps; do
  printf '%-8s %8.0f datagrams/s  locality %6.2f %%\n' "$case" "$(median <"$scratch/$case.rate")" "$(median <"$scratch/$case.local")"
done
compared "rate, in the driver over none" "$scratch/native.rate" "$scratch/none.rate" ">=" 0.9
verdict "locality in the driver, %" "$(median <"$scratch/native.local")" ">=" 99
verdict "frames lost to full queues, all rounds" "$(cat "$scratch"/{native,generic}.lost | awk '{ sum += $1 } END { print sum }')" "<=" 0
conclude
