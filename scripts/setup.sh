#!/usr/bin/env bash
# Installs what ddprun needs to build and run: Debian packages, and LibTorch into .deps/. Does nothing when all is there.
set -euo pipefail

readonly kNvtx=13.0.85
readonly kMinCmake=3.25 kPipCmake=3.25.2 kClangFormat=14.0.6
readonly kMinFreeKb=$((3 * 1024 * 1024)) # wheel, its unpacked form, pip's copy

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$repo/.deps
log=$deps/setup.log
with_lint=false with_bench=false with_cuda=false with_tests=false check_only=false
# shellcheck source=scripts/torch_versions.sh
source "$repo/scripts/torch_versions.sh"
torch=$(chosen_version)

usage() {
  cat <<TEXT
usage: scripts/setup.sh [--check] [--with-lint] [--with-bench] [--with-cuda] [--with-tests]

Installs what is missing to build and run ddprun: Debian packages (as root or with sudo), LibTorch $torch from the torch
wheel into .deps/torch-$torch, and NVTX's headers. Needs no root when nothing is missing, and changes nothing then.

  --check       only report what is missing; exit status 1 if anything is
  --with-lint   also what \`make lint\` needs: clang-format $kClangFormat (into .deps) and shellcheck
  --with-cuda   also what CUDA support needs besides a toolkit (.deps/cuda-$torch, 304 MB at least); this is the default where
                a CUDA toolkit is found (nvcc, or in CUDAToolkit_ROOT, CUDA_HOME or /usr/local/cuda)
  --with-bench  also what \`make bench\` compares with: PyTorch in Python (.deps/python-$torch), tcmalloc, Open MPI
  --with-tests  also what some tests are skipped without: Open MPI, zsh, fish, Chromium, valijson, safetensors. Where they cannot be installed, set-up goes on

TORCH=${kTorchVersions[0]} scripts/setup.sh takes that version from then on; there are ${kTorchVersions[*]}.
A LibTorch of your own is taken instead of the wheel:  LIBTORCH_DIR=/path/to/libtorch scripts/setup.sh

Where .deps/carried is (\`make pack\` on a machine with network) and the system lacks something that is in it, nothing is
installed: what it brings is built into .deps/prefix, and LibTorch is that of the PyTorch in python3 (PYTHON=... names another).
TEXT
}

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}

# ---------------------------------------------------------------- what is there

have_command() { command -v "$1" >/dev/null; }

# A file below one of the prefixes where the compiler and CMake look; the argument may hold wildcards.
have_file() {
  local prefix
  for prefix in /usr /usr/local ${CMAKE_PREFIX_PATH:+${CMAKE_PREFIX_PATH//[:;]/ }}; do
    compgen -G "$prefix/$1" >/dev/null && return
  done
  return 1
}

at_least() { [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; } # at_least MIN VERSION

cmake_is_new_enough() {
  have_command cmake && at_least "$kMinCmake" "$(cmake --version | sed -n 's/^cmake version //p')"
}

# Debian package, and how to see that what it brings is there (whoever brought it).
missing_packages() {
  local package kind what
  while read -r package kind what; do
    "have_$kind" "$what" || echo "$package"
  done <<TABLE
g++                       command ${CXX:-c++}
cmake                     command cmake
ninja-build               command ninja
ccache                    command ccache
mold                      command mold
libboost-dev              file    include/boost/dll.hpp
libyaml-cpp-dev           file    include/yaml-cpp/yaml.h
libspdlog-dev             file    include/spdlog/spdlog.h
libcli11-dev              file    include/CLI/CLI.hpp
nlohmann-json3-dev        file    include/nlohmann/json.hpp
libhwy-dev                file    include/hwy/highway.h
libxxhash-dev             file    include/xxhash.h
libsodium-dev             file    include/sodium.h
libpcre2-dev              file    include/pcre2.h
libgtest-dev              file    include/gtest/gtest.h
libgmock-dev              file    include/gmock/gmock.h
libbenchmark-dev          file    include/benchmark/benchmark.h
libgloo-dev               file    include/gloo/config.h
libjs-chart.js            file    share/javascript/chart.js
iproute2                  file    sbin/tc
fortunes                  file    share/games/fortunes/fortunes
TABLE
  if $with_bench; then
    if ! have_file 'lib/*/libtcmalloc_minimal.so.4'; then echo libtcmalloc-minimal4; fi
    if ! have_command mpirun; then echo openmpi-bin; fi
    if ! have_command mpicxx; then echo libopenmpi-dev; fi
    if ! have_bench && ! find_bench_python '' >/dev/null; then echo python3-venv; fi
  fi
  if ! have_wheels && ! find_python >/dev/null; then echo python3-pip; fi
  if $with_lint && ! have_command shellcheck; then echo shellcheck; fi
}

# A Python 3 with a pip that knows today's wheel tags.
find_python() {
  local python
  for python in python3 /usr/bin/python3; do
    if at_least 20.3 "$("$python" -m pip --version 2>/dev/null | sed -n 's/^pip \([0-9.]*\).*/\1/p')"; then
      echo "$python"
      return
    fi
  done
  return 1
}

have_torch_site() {
  [[ -n ${LIBTORCH_DIR:-} ]] || [[ $(version_of "$deps/torch-site/torch") == "$torch" ]]
}

# Headers of profiler ranges, wherever CMake would find them (cmake/find_nvtx3.cmake).
have_nvtx() {
  compgen -G "$deps/nvtx-site/nvidia/*/include/nvtx3" >/dev/null || have_file include/nvtx3/nvToolsExt.h ||
    [[ -f $cuda_home/include/nvtx3/nvToolsExt.h ]] ||
    compgen -G "${LIBTORCH_DIR:-$deps/torch-site/torch}/../nvidia/*/include/nvtx3" >/dev/null
}

have_clang_format() { [[ -x $deps/clang-format/clang_format/data/bin/clang-format ]]; }

have_wheels() {
  have_torch_site && have_nvtx && have_cuda_wheels && { ! $with_lint || have_clang_format; } && { ! have_command cmake || cmake_is_new_enough; }
}

# check_libtorch FOLDER NAME: a LibTorch that is not the wheel's must be one that ddprun builds with.
check_libtorch() {
  local folder=$1 name=$2 version
  [[ -f $folder/include/ATen/ATen.h && -f $folder/lib/libtorch_cpu.so ]] ||
    fail "$name holds no LibTorch (include/ATen/ATen.h and lib/libtorch_cpu.so in $folder)"
  version=$(version_of "$folder")
  at_least "${kTorchVersions[0]}" "${version:-0}" ||
    fail "$name is LibTorch ${version:-older than 2.9}; ddprun needs ${kTorchVersions[0]} to ${kTorchVersions[-1]}"
  at_least "$version" "${kTorchVersions[-1]}.99" ||
    say "$name is LibTorch $version, which nobody tried; ddprun is tested with ${kTorchVersions[*]}"
}

# ---------------------------------------------------------------- installing

monitor=
stop_monitor() { if [[ -n $monitor ]]; then kill "$monitor" 2>/dev/null || true; fi; monitor=; }
work=
clean_up() {
  stop_monitor
  if [[ -n $work ]]; then rm -rf "$work"; fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# run_logged TEXT COMMAND...: output goes to the log, and every few seconds its last line to the terminal.
run_logged() {
  local text=$1 status=0 begin=$SECONDS
  shift
  say "$text"
  mkdir -p "$deps"
  printf '\n== %s\n' "$text" >>"$log"
  (
    while sleep 10; do printf 'setup:   %3d s  %s\n' $((SECONDS - begin)) "$(tail -n 1 "$log" | cut -c 1-90)"; done
  ) &
  monitor=$!
  "$@" >>"$log" 2>&1 </dev/null || status=$?
  stop_monitor
  if ((status == 0)); then say "  done in $((SECONDS - begin)) s"; fi
  return $status
}

as_root=()
# Fills as_root with what makes a command run as root; asks for a password only on a terminal.
become_root() {
  if ((EUID == 0)); then return; fi
  have_command sudo || return 1
  if [[ -t 0 ]]; then sudo -v || return 1; else sudo -n true 2>/dev/null || return 1; fi
  as_root=(sudo -n)
}

apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

install_packages() {
  local packages=("$@")
  have_command apt-get || fail "this is no Debian or Ubuntu. Install what these Debian packages bring, by your system's
means, and run this again: ${packages[*]}"
  become_root || fail "Debian packages are missing, and this user cannot install them. Have an administrator run

    apt-get update && apt-get install -y --no-install-recommends ${packages[*]}

and run this again."
  run_logged "installing Debian packages: ${packages[*]}" apt_get install --no-install-recommends "${packages[@]}" && return
  # Lists that are absent or older than the archive make the first try fail within a second or two.
  run_logged "fetching apt's package lists" apt_get update || fail "apt-get update failed; see $log"
  run_logged "installing Debian packages" apt_get install --no-install-recommends "${packages[@]}" ||
    fail "apt-get install failed; the end of $log:
$(tail -n 15 "$log")"
}

# pip_install FOLDER REQUIREMENT...: wheels for this machine into .deps/FOLDER, all or nothing. Which Python runs pip does not
# matter: nothing is ever imported, and --target touches no environment.
pip_install() {
  local folder=$1 python arch minor
  shift
  arch=$(uname -m)
  python=$(find_python) || fail "Python 3 with pip (20.3 or newer) is needed to fetch $*"
  work=$(mktemp -d "$deps/new.XXXXXX")
  local platforms=(--platform "manylinux2014_$arch")
  for minor in {17..28}; do platforms+=(--platform "manylinux_2_${minor}_$arch"); done # glibc 2.28 is torch's minimum
  TMPDIR=$work PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 run_logged "fetching $* into .deps/$folder" \
    "$python" -m pip install --disable-pip-version-check --progress-bar off --no-deps --no-compile --only-binary=:all: \
    --implementation cp --python-version 3.12 "${platforms[@]}" --target "$work/site" "$@" ||
    fail "pip failed; the end of $log:
$(tail -n 15 "$log")"
  rm -rf "${deps:?}/$folder"
  mv -T "$work/site" "$deps/$folder"
  rm -rf "$work"
  work=
}

install_torch() {
  local free
  free=$(df -Pk "$deps" | awk 'NR == 2 {print $4}')
  ((free >= kMinFreeKb)) || fail "LibTorch needs $((kMinFreeKb / 1024 / 1024)) GB; $deps has $((free / 1024 / 1024)) GB free"
  if [[ $(version_of "$deps/torch-$torch/torch") != "$torch" ]]; then
    local wheels
    mapfile -t wheels < <(wanted "$torch" torch nvidia-cuda-runtime nvidia-cuda-cupti)
    pip_install "torch-$torch" "${wheels[@]}"
  fi
  rm -rf "$deps/torch-site"
  ln -sT "torch-$torch" "$deps/torch-site"
}

# shellcheck source=scripts/setup_bench.sh
source "$repo/scripts/setup_bench.sh"
# shellcheck source=scripts/setup_cuda.sh
source "$repo/scripts/setup_cuda.sh"
# shellcheck source=scripts/setup_carried.sh
source "$repo/scripts/setup_carried.sh"
# shellcheck source=scripts/setup_tests.sh
source "$repo/scripts/setup_tests.sh"

report() {
  local packages=("$@") status=0
  if ((${#packages[@]})); then say "missing Debian packages: ${packages[*]}" && status=1; fi
  if ! have_torch_site; then say "missing: LibTorch $torch in .deps/torch-site" && status=1; fi
  if ! have_nvtx; then say "missing: NVTX's headers in .deps/nvtx-site" && status=1; fi
  if ! have_cuda_wheels; then say "missing for CUDA support, in .deps/cuda-$torch: $(cuda_wheels | tr '\n' ' ')" && status=1; fi
  if have_command cmake && ! cmake_is_new_enough; then say "missing: CMake $kMinCmake or newer" && status=1; fi
  if $with_bench && ! have_bench; then say "missing: PyTorch $torch in Python in .deps/python-$torch" && status=1; fi
  if $with_lint && ! have_clang_format; then say "missing: clang-format $kClangFormat in .deps/clang-format" && status=1; fi
  return $status
}

main() {
  while (($#)); do
    case $1 in
      --check) check_only=true ;;
      --with-lint) with_lint=true ;;
      --with-bench) with_bench=true ;;
      --with-cuda) with_cuda=true ;;
      --with-tests) with_tests=true ;;
      -h | --help) usage && exit ;;
      *) usage >&2 && exit 2 ;;
    esac
    shift
  done
  PATH=$deps/cmake/cmake/data/bin:$PATH
  if [[ -n ${TORCH:-} && " ${kTorchVersions[*]} " != *" $TORCH "* ]]; then
    fail "TORCH=$TORCH: set-up fetches ${kTorchVersions[*]}; LIBTORCH_DIR names a LibTorch of another version"
  fi
  if [[ -n ${LIBTORCH_DIR:-} ]]; then check_libtorch "$LIBTORCH_DIR" "LIBTORCH_DIR=$LIBTORCH_DIR"; fi
  local packages
  mapfile -t packages < <(missing_packages)
  unpack_carried
  if $with_tests; then install_for_tests; fi
  if want_carried "${packages[@]}"; then
    set_up_carried "${packages[@]}"
    return
  fi
  if report "${packages[@]}" >/dev/null; then
    if $with_tests; then install_libraries_beside; fi
    say "nothing is missing; LibTorch $torch: ${LIBTORCH_DIR:-.deps/torch-site/torch}"
    return
  fi
  if $check_only; then report "${packages[@]}" || exit; fi

  mkdir -p "$deps"
  : >"$log"
  if ((${#packages[@]})); then install_packages "${packages[@]}"; fi
  if ! cmake_is_new_enough; then
    # A CMake just installed may be too old (Ubuntu 22.04), and pip may be missing for its replacement.
    find_python >/dev/null || install_packages python3-pip
    pip_install cmake "cmake==$kPipCmake"
    say "  the Makefile uses it; for your own shell: export PATH=$deps/cmake/cmake/data/bin:\$PATH"
  fi
  if ! have_torch_site; then install_torch; fi
  if ! have_nvtx; then pip_install nvtx-site "nvidia-nvtx==$kNvtx"; fi
  if ! have_cuda_wheels; then install_cuda_wheels; fi
  if $with_lint && ! have_clang_format; then pip_install clang-format "clang-format==$kClangFormat"; fi
  if $with_bench && ! have_bench; then install_bench; fi
  mapfile -t packages < <(missing_packages)
  report "${packages[@]}" || fail "still missing, see above and $log"
  if $with_tests; then install_libraries_beside; fi
  say "ready in $SECONDS s; LibTorch $torch: ${LIBTORCH_DIR:-.deps/torch-site/torch}"
}

main "$@"
