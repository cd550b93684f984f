#!/usr/bin/env bash
# Builds and tests ddprun with versions of LibTorch, each in a build folder of its own: build/libtorch-VERSION.
set -euo pipefail
cd "$(dirname "$0")/.."
deps=$PWD/.deps
# shellcheck source=scripts/torch_versions.sh
source scripts/torch_versions.sh

usage() {
  cat <<END
usage: scripts/test_libtorch.sh [VERSION...]

Builds everything and runs all tests with each of these versions of LibTorch (default: the oldest and the newest of
${kTorchVersions[*]}).
TARGETS='program unit_plugins' builds these alone and runs the tests that they have. The version that is in use stays what it was.
Logs: build/libtorch-VERSION/log
END
}

say() { printf 'libtorch: %s\n' "$*"; }

in_use=$(readlink "$deps/torch-site" || true)
# shellcheck disable=SC2317 # the trap calls it
restore() { if [[ -n $in_use ]]; then ln -sfnT "$in_use" "$deps/torch-site"; fi; }
trap restore EXIT

# build VERSION FOLDER ARGUMENT...: of cmake --build.
build() {
  local with=(--with-bench) optimized=()
  # Of some targets what runs is short, and needs no PyTorch in Python: compiling with -O1 throughout takes a quarter less.
  if [[ -n ${TARGETS:-} ]]; then
    with=()
    optimized=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO='-O1 -DNDEBUG')
  fi
  env -u LIBTORCH_DIR TORCH="$1" scripts/setup.sh "${with[@]}" &&
    cmake --preset release -B "$2" -DLIBTORCH_DIR="$deps/torch-$1/torch" "${optimized[@]}" && cmake --build "$2" -j "${JOBS:-$(nproc)}" "${@:3}"
}

try() {
  local version=$1 folder=build/libtorch-$1 targets=() tests=()
  local log=$folder/log
  mkdir -p "$folder"
  if [[ -n ${TARGETS:-} ]]; then
    read -ra targets <<<"--target $TARGETS"
    tests=(-L "^(${TARGETS// /|})$")
  fi
  say "$version: building ${TARGETS:-everything} (log: $log)"
  if ! build "$version" "$folder" "${targets[@]}" >"$log" 2>&1; then
    say "$version: FAILED to build" && tail -n 15 "$log" && return 1
  fi
  OMP_WAIT_POLICY=passive ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "${JOBS:-$(nproc)}" "${tests[@]}" >>"$log" 2>&1 ||
    { say "$version: FAILED" && tail -n 15 "$log" && return 1; }
  say "$version: $(grep 'tests passed' "$log" | tail -n 1)"
}

for version in "$@"; do
  case $version in
    -h | --help) usage && exit 0 ;;
    *) [[ " ${kTorchVersions[*]} " == *" $version "* ]] || { say "$version: no such version; there are ${kTorchVersions[*]}" >&2 && exit 2; } ;;
  esac
done
status=0
(($#)) || set -- "${kTorchVersions[0]}" "${kTorchVersions[-1]}"
for version in "$@"; do try "$version" || status=1; done
exit $status
