#!/usr/bin/env bash
# The README's two ways in without a build, on bare distributions: the wheel by pip, the Debian package by apt; and the image that
# scripts/Containerfile makes of the latter, where podman or buildah is.
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
install_of() {
  case $1 in
    apt) echo 'apt install --yes ./ddprun_*.deb' ;;
    pip) echo 'python3 -m venv venv && . venv/bin/activate && pip install ./ddprun-*.whl' ;;
    *) fail "WHAT=$1: there are apt and pip" ;;
  esac
}
run_of() { case $1 in apt) echo 'ddprun quickstart' ;; pip) echo '. venv/bin/activate && ddprun quickstart' ;; esac; }

package_of() { case $1 in apt) echo build/packages/ddprun_*.deb ;; pip) echo build/packages/ddprun-*.whl ;; esac; }

# try NAME WAY
try() {
  local name=$1 way=$2 log=$folder/$1-$2.log command package begin installed extra=()
  command=$(install_of "$way") package=$(package_of "$way")
  [[ -f $package ]] || fail "there is no $package: make wheel deb"
  if [[ $way == pip ]]; then extra=(python3-venv); fi
  say "$name: a bare system for $way (log: ${log#"$PWD"/})"
  { bootstrap "$name" "${extra[@]}" && cp "$package" "$folder/$name/root/"; } >"$log" 2>&1 ||
    { say "$name: FAILED, no bare system: $(tail -n 1 "$log")" && return 1; }
  begin=$SECONDS
  say "$name: $command"
  in_it "$name" "$command" >>"$log" 2>&1 </dev/null || { say "$name: FAILED to install by $way" && tail -n 15 "$log" && return 1; }
  installed=$((SECONDS - begin))
  in_it "$name" "$(run_of "$way")" >>"$log" 2>&1 </dev/null || { say "$name: FAILED to run, by $way" && tail -n 15 "$log" && return 1; }
  grep -q '^proved in 5 of 6 rows' "$log" || { say "$name: FAILED, no table of 6 rows by $way" && tail -n 15 "$log" && return 1; }
  say "$name: passed by $way, $((SECONDS - begin)) s from nothing to the table, $installed s of them to install"
  remove "$name"
}

try_container() {
  local log=$folder/container.log
  if command -v podman >/dev/null; then
    { podman build -f scripts/Containerfile -t ddprun-test . && podman run --rm ddprun-test quickstart; } >"$log" 2>&1
  elif command -v buildah >/dev/null; then
    buildah build -f scripts/Containerfile -t ddprun-test . >"$log" 2>&1
  else
    say "container: not tried, there is neither podman nor buildah" && return
  fi || { say "container: FAILED" && tail -n 15 "$log" && return 1; }
  say "container: passed"
}

case ${1:-} in -h | --help) usage && exit 0 ;; esac
check_bare_systems "$@"
status=0
for name in "${@:-${kKnown[@]}}"; do
  for way in ${WHAT:-apt pip}; do try "$name" "$way" || status=1; done
done
try_container || status=1
exit $status
