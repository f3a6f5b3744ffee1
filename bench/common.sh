# Sourced by the benchmarks: finds programs, computes medians, and prints whether a ratio meets its target.
#
# Results are lines of `verdict`; `conclude` ends a script with 0 if all targets were met, otherwise with 1.

missed=0

# Ends the script if a program is missing. Debian's package has the name of the program, with the exceptions below.
need() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null && continue
    case $tool in
      unshare | nsenter | setpriv | taskset) tool="$tool (apt install util-linux)" ;;
      ip | ss) tool="$tool (apt install iproute2)" ;;
      *) tool="$tool (apt install $tool)" ;;
    esac
    echo "skipped: $0 needs $tool" >&2
    exit 77
  done
}

# The program to measure: $CORELANE, or this checkout's, built now.
program() {
  if [[ -n ${CORELANE:-} ]]; then
    echo "$CORELANE"
    return
  fi
  local root
  root=$(dirname "${BASH_SOURCE[0]}")/..
  cargo build --quiet --release --bin corelane --manifest-path "$root/Cargo.toml"
  echo "$(realpath "${CARGO_TARGET_DIR:-$root/target}")/release/corelane"
}

# Begins a benchmark whose server and client have a CPU each: sets `corelane`, an empty `folder`, and `pids`, processes to be ended.
serve_and_load() {
  [[ $(nproc) -ge 2 ]] || { echo "skipped: server and client need a CPU each" >&2; exit 77; }
  corelane=$(program)
  folder=$(mktemp -d)
  pids=()
  trap finish EXIT
}

# Ends these processes, and removes the folder.
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -r "$folder"
}

# Waits until a command succeeds: at most 5 s.
until_done() {
  local _
  for _ in {1..500}; do
    "$@" && return
    sleep 0.01
  done
  echo "gave up waiting for: $*" >&2
  return 1
}

# Terminates a process that this script started, even if it is stopped, and waits for it.
end() {
  kill -CONT "$1"
  kill -TERM "$1"
  wait "$1" || true
}

# CPU time of a process and all its threads, in seconds.
cpu_seconds() { awk -v tick="$(getconf CLK_TCK)" '{ print ($14 + $15) / tick }' "/proc/$1/stat"; }

# Nanoseconds that the threads of a process that still runs have run.
run_time() { cat "/proc/$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }

# The CPUs that this script may use, one per line.
allowed_cpus() {
  taskset -cp $$ | sed 's/.*: //' | tr , '\n' | while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done
}

# The median of the numbers on standard input, one per line.
median() { sort -g | awk '{ values[NR] = $1 } END { print values[int((NR + 1) / 2)] }'; }

# Prints one line: the subject, the figure, and whether it is on the right side (>= or <=) of its target.
verdict() {
  local what=$1 figure=$2 side=$3 target=$4 word=met
  if ! awk "BEGIN { exit !(${figure%% *} $side $target) }"; then
    word=MISSED
    missed=1
  fi
  printf '%-56s %10s  target %s %-8s %s\n' "$what" "$figure" "$side" "$target" "$word"
}

# Compares two cases that took turns: files with a figure per round and line, each divided by that of the same round. Prints
# the median of these ratios, its interval of 95 % confidence (by the order of the rounds' ratios, whatever their distribution),
# and whether it meets its target. A median on the wrong side whose interval has the target in it is `undecided`: more rounds
# would decide.
compared() {
  local what=$1 figures=$2 references=$3 side=$4 target=$5 low ratio high
  read -r low ratio high < <(paste -d' ' "$figures" "$references" | awk '{ printf "%.3f\n", $1 / $2 }' | sort -g | awk '
    { ratios[NR] = $1 }
    END {
      outside = int((NR - 1.96 * sqrt(NR)) / 2)
      if (outside < 1) outside = 1
      print ratios[outside], ratios[int((NR + 1) / 2)], ratios[NR + 1 - outside]
    }')
  what=$(printf '%s (%.4g over %.4g)' "$what" "$(median <"$figures")" "$(median <"$references")")
  if awk "BEGIN { exit !(!($ratio $side $target) && ($low $side $target || $high $side $target)) }"; then
    printf '%-56s %s  %s to %s  target %s %s  undecided\n' "$what" "$ratio" "$low" "$high" "$side" "$target"
  else
    verdict "$what" "$ratio  $low to $high" "$side" "$target"
  fi
}

conclude() { exit "$missed"; }
