#!/usr/bin/env bash
# The README's two ways in without a build, on bare distributions: the wheel by pip, the Debian package by apt.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/test_packages.sh [NAME...]

Installs what `make wheel` and `make deb` left in build/packages on bare systems (default: both) that have nothing else:
  bookworm (Debian 12)  trixie (Debian 13)
and runs `ddprun quickstart`. It says how many seconds passed from `apt install` or `pip install` to the first table. It needs root,
debootstrap, and 7 GB of disk. WHAT='apt' tries one way only. Logs: build/distributions/NAME-WAY.log
END
}

readonly kKnown=(bookworm trixie)
readonly kSay=packages
# shellcheck source=scripts/bare_system.sh
source scripts/bare_system.sh

# The commands are those of the README.
command_of() {
  case $1 in
    apt) echo 'apt install --yes ./ddprun_*.deb && ddprun quickstart' ;;
    pip) echo 'python3 -m venv venv && . venv/bin/activate && pip install ./ddprun-*.whl && ddprun quickstart' ;;
    *) fail "WHAT=$1: there are apt and pip" ;;
  esac
}

package_of() { case $1 in apt) echo build/packages/ddprun_*.deb ;; pip) echo build/packages/ddprun-*.whl ;; esac; }

# try NAME WAY
try() {
  local name=$1 way=$2 log=$folder/$1-$2.log package begin extra=()
  package=$(package_of "$way")
  [[ -f $package ]] || fail "there is no $package: make wheel deb"
  if [[ $way == pip ]]; then extra=(python3-venv); fi
  say "$name: a bare system for $way (log: ${log#"$PWD"/})"
  { bootstrap "$name" "${extra[@]}" && cp "$package" "$folder/$name/root/"; } >"$log" 2>&1 ||
    { say "$name: FAILED, no bare system: $(tail -n 1 "$log")" && return 1; }
  begin=$SECONDS
  say "$name: $(command_of "$way")"
  in_it "$name" "$(command_of "$way")" >>"$log" 2>&1 </dev/null || { say "$name: FAILED by $way" && tail -n 15 "$log" && return 1; }
  grep -q '^proved in 5 of 6 rows' "$log" || { say "$name: FAILED, no table of 6 rows by $way" && tail -n 15 "$log" && return 1; }
  say "$name: passed by $way, $((SECONDS - begin)) s from the install to the table"
  remove "$name"
}

case ${1:-} in -h | --help) usage && exit 0 ;; esac
check_bare_systems "$@"
status=0
for name in "${@:-${kKnown[@]}}"; do
  for way in ${WHAT:-apt pip}; do try "$name" "$way" || status=1; done
done
exit $status
