#!/usr/bin/env bash
# Builds the static binaries and packages of the current commit twice and compares them: in two folders, the second time with
# other times of files, a wall clock more than a year ahead, another time zone, language and umask.
#
#   tests/reproducible.sh [ARCHITECTURE…]
#
# Every dynamic program of the second build has that clock: cargo, rustc, build scripts, C compilers, linkers, the packagers.
# What stays the same: the machine, its kernel and CPUs, compilers, C library, and the clock by which the kernel dates files.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset CARGO_TARGET_DIR SOURCE_DATE_EPOCH
here=$folder/here elsewhere=$folder/elsewhere/in/a/longer/path
git clone --quiet . "$here"
git clone --quiet . "$elsewhere"
(cd "$here" && packaging/dist.sh "$@")

# Not libfaketime, with which rustc hangs: it changes the monotonic clock and waiting, too.
cc -O2 -shared -fPIC -x c - -o "$folder/clock.so" <<'CLOCK'
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = syscall(SYS_clock_gettime, clock, now);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += 400 * 86400;
  return failed;
}

time_t time(time_t *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds) *seconds = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
CLOCK
later() { TZ=Asia/Tokyo LC_ALL=C LD_PRELOAD=$folder/clock.so "$@"; }
[ "$(later date +%s)" -gt $(($(date +%s) + 300 * 86400)) ] || { echo "date does not see the other clock"; exit 1; }
LD_DEBUG=bindings LD_BIND_NOW=1 later "${RUSTC:-rustc}" --version 2>&1 |
  grep "librustc_driver.* to $folder/clock.so .*clock_gettime" >/dev/null || { echo "rustc does not see the other clock"; exit 1; }

find "$elsewhere" -type f -exec touch --date 2001-09-09 {} +
# To fetch the tool that writes the .rpm, certificates would have to be valid by that clock.
mkdir "$elsewhere/target"
cp -R "$here/target/tools" "$elsewhere/target/"
(cd "$elsewhere" && umask 077 && later packaging/dist.sh "$@")
differ=0
for file in "$here"/dist/*; do
  cmp "$file" "$elsewhere/dist/${file##*/}" || differ=1
done
[ $differ -eq 0 ] && echo "the same bytes: $(cd "$here/dist" && echo corelane*)"
exit $differ
