#!/usr/bin/env bash
# Tries ddprun where a GPU is there for minutes (docs/gpu.md): `scripts/try_gpu.sh [PART...]`, of build, doctor, tests and bench
# (default: all but bench).
#
# What a part says goes to $OUT/PART.log (default: results/gpu) as it says it, so what is cut off leaves what it has. All of it ends
# within LIMIT_S seconds (570). A build that fails is the end; other parts that fail, or are cut off, do not keep the next from running.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
out=${OUT:-results/gpu} limit_s=${LIMIT_S:-570} status=0
(($#)) || set -- build doctor tests
mkdir -p "$out" || exit

say() { printf 'try-gpu: %s\n' "$*"; }
left() { echo $((limit_s - SECONDS - 10)); } # 10: what does not end by itself is killed

# part NAME SECONDS COMMAND...: into a file, and not through a pipe, which a process that outlives the part would hold open.
part() {
  local name=$1 seconds=$2 code=0 begin=$SECONDS
  shift 2
  if ((seconds < 1)); then say "$name: left out, as $limit_s s are over" && status=1 && return 1; fi
  say "$name: $seconds s at most"
  timeout -k 10 "$seconds" "$@" >"$out/$name.log" 2>&1 || code=$?
  tail -n 30 "$out/$name.log"
  if ((code == 124 || code == 137)); then say "$name: cut off"; fi
  say "$name: status $code after $((SECONDS - begin)) s; all of it is in $out/$name.log"
  if ((code)); then status=1; fi
  return $code
}

for name in "$@"; do
  case $name in
    build)
      # shellcheck disable=SC2016 # the inner shell expands
      part build "$(left)" bash -c 'make configure &&
        scripts/build.sh release "$(nproc)" program tests/gpu/all device_memory_benchmark' || exit 1
      ;;
    doctor) part doctor "$(($(left) < 60 ? $(left) : 60))" build/release/bin/ddprun doctor ;;
    # Each case is a process; one that hangs ends, and the next runs.
    tests) part tests "$(left)" env DDPRUN_TEST_LIMIT_S="${DDPRUN_TEST_LIMIT_S:-90}" ctest --preset release -L gpu -j 1 -V ;;
    # It counts in whole minutes, of which 0 would be no limit.
    bench) part bench "$(($(left) < 60 ? 0 : $(left)))" \
      python3 tests/benchmarks/bench_gpu.py --quick --minutes $(($(left) / 60)) --output "$out/bench" ;;
    *) say "no such part: $name; there are build, doctor, tests, bench" >&2 && exit 2 ;;
  esac
done
exit $status
