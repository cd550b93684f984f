#!/usr/bin/env bash
# The README's two commands on bare distributions, each in a folder of its own: build/distributions/NAME, made by debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/test_distributions.sh [NAME...]

Tries `make quickstart` and `make test` from nothing but git and make in each of these (default: all):
  bookworm (Debian 12)  trixie (Debian 13)  jammy (Ubuntu 22.04)  noble (Ubuntu 24.04)
Packages come from where this machine's apt has its own. A distribution that is not there is said, and is a failure.
It needs root, debootstrap (for Ubuntu ubuntu-keyring too), 12 GB of disk and some half hour each. WHAT='quickstart' tries one
command only. What is committed is tried, not the working tree. Logs: build/distributions/NAME.log
END
}

readonly kKnown=(bookworm trixie jammy noble)
readonly kSay=distributions
# shellcheck source=scripts/bare_system.sh
source scripts/bare_system.sh

try() {
  local name=$1 log=$folder/$1.log target begin
  say "$name: a bare system (log: ${log#"$PWD"/})"
  { bootstrap "$name" git make && git clone --quiet . "$folder/$name/root/ddprun"; } >"$log" 2>&1 || { say "$name: FAILED, no bare system: $(tail -n 1 "$log")" && return 1; }
  for target in ${WHAT:-quickstart test}; do
    say "$name: make $target"
    begin=$SECONDS
    in_it "$name" "cd ddprun && make $target" >>"$log" 2>&1 </dev/null || { say "$name: FAILED in make $target" && tail -n 15 "$log" && return 1; }
    tail -n 3 "$log"
    say "$name: make $target took $((SECONDS - begin)) s"
  done
  remove "$name"
  say "$name: passed"
}

case ${1:-} in -h | --help) usage && exit 0 ;; esac
check_bare_systems "$@"
status=0
for name in "${@:-${kKnown[@]}}"; do try "$name" || status=1; done
exit $status
