#!/usr/bin/env bash
# Builds: `scripts/build.sh PRESET JOBS [TARGET...]`. On a terminal it says in one line what a newcomer wants to know: how far it is
# and how long the whole takes. The compiler's words are in build/PRESET/build.log, and are shown where it fails.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
preset=$1 jobs=$2
folder=build/$preset
log=$folder/build.log
last=$folder/build_seconds
shift 2
command=(cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"})
if [[ ! -t 1 ]]; then exec "${command[@]}"; fi

say() { printf '\rbuild: %s\e[K' "$*"; }
begin=$SECONDS total=0
before=
if [[ -f $last ]]; then before="; a whole build took $(<"$last") s last time"; fi
say "looks for what changed"
NINJA_STATUS='[%f/%t] ' "${command[@]}" 2>&1 | tee "$log" | {
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\  ]] || continue
    total=${BASH_REMATCH[2]}
    say "${BASH_REMATCH[1]} of $total steps, $((SECONDS - begin)) s${before:-; only the first time takes minutes}"
  done
  seconds=$((SECONDS - begin))
  # A whole one has a hundred steps, what follows a change a few.
  if ((total > 80)); then echo $seconds >"$last"; fi
  say "done in $seconds s"
  echo
}
status=${PIPESTATUS[0]}
if ((status != 0)); then
  grep -vE '^\[[0-9]+/[0-9]+\] ' "$log" | tail -n 40
  printf 'build: failed; all of it is in %s\n' "$log" >&2
fi
exit "$status"
