#!/usr/bin/env bash
# Dependencies that came with the tree instead of over the network (scripts/pack_dependencies.sh), for setup.sh to source.
# shellcheck disable=SC2034,SC2154 # repo, deps, torch: setup.sh's
#
# Where a pack is and the system lacks something that is in it, nothing is installed: what the pack brings is built into
# .deps/prefix, where CMake looks first, LibTorch is that of the machine's PyTorch, and what is missing then is said.

carried=$deps/carried
prefix=$deps/prefix
python=${PYTHON:-python3}

# What is convenient, of other targets, or for fetching, and not in a pack.
readonly kDispensable='ccache mold iproute2 fortunes python3-pip'

unpack_carried() {
  [[ ! -d $carried && -f $carried.tar.gz ]] || return 0
  say "unpacking .deps/carried.tar.gz"
  tar -C "$deps" -xzf "$carried.tar.gz" || fail ".deps/carried.tar.gz cannot be unpacked"
}

# want_carried PACKAGE...: whether the pack has one of these, which the system lacks.
want_carried() {
  [[ -f $carried/packages ]] && grep -qxFf "$carried/packages" <(printf '%s\n' "$@")
}

# not_carried PACKAGE...: those that must be there besides the pack.
not_carried() {
  printf '%s\n' "$@" | grep -vxFf "$carried/packages" | grep -vxF "${kDispensable// /$'\n'}" || true
}

have_carried() { cmp -s "$carried/contents" "$prefix/contents"; }

# The folder `torch` of the Python that is there, without importing it; empty if it has none.
python_torch() {
  "$python" -c 'import importlib.util as util
spec = util.find_spec("torch")
print(spec.submodule_search_locations[0] if spec else "")' 2>/dev/null || true
}

# LibTorch of the machine's PyTorch: its site-packages, with the CUDA libraries beside it, stand for what setup.sh would fetch.
take_python_torch() {
  [[ -z ${LIBTORCH_DIR:-} ]] || return 0
  if [[ $(readlink "$deps/torch-site") == torch-* ]]; then return; fi # fetched
  local found
  found=$(python_torch)
  [[ -n $found ]] || return 0 # report() says that LibTorch is missing
  check_libtorch "$found" "PyTorch of $(command -v "$python")"
  if $check_only; then LIBTORCH_DIR=$found; else ln -sfnT "$(dirname "$found")" "$deps/torch-site"; fi
  torch=$(version_of "$found")
}

build_carried() {
  rm -rf "$prefix" "$deps/carried-build"
  mkdir -p "$prefix"
  cp -r "$carried/include" "$carried/share" "$prefix/"
  run_logged "building the libraries of .deps/carried" cmake -S "$repo/cmake/carried" -B "$deps/carried-build" -G Ninja \
    -DCARRIED="$carried" -DCMAKE_INSTALL_PREFIX="$prefix" || fail "CMake failed; see $log"
  run_logged "compiling them into .deps/prefix" cmake --build "$deps/carried-build" || fail "they do not build; see $log"
  rm -rf "$deps/carried-build"
  cp "$carried/contents" "$prefix/contents"
}

# report_without_network PACKAGE...: what neither the system nor the pack has; 1 if anything.
report_without_network() {
  local packages status=0
  mapfile -t packages < <(not_carried "$@")
  report "${packages[@]}" || status=1
  if ! have_torch_site && [[ -z $(python_torch) ]]; then
    say "  $python has no PyTorch to take it from (PYTHON=/path/to/python names another, LIBTORCH_DIR a LibTorch)"
  fi
  return $status
}

# set_up_carried PACKAGE...: the system lacks these, and the pack has at least one of them.
set_up_carried() {
  mkdir -p "$deps"
  take_python_torch
  report_without_network "$@" || fail "nothing is installed where .deps/carried is used: bring what is missing by this machine's means,
or remove .deps/carried and run this again with a network"
  if ! have_carried; then
    if $check_only; then fail ".deps/carried is there, and not built yet; without --check it is"; fi
    : >"$log"
    build_carried
  fi
  say "nothing more is needed; from .deps/carried: .deps/prefix, LibTorch: ${LIBTORCH_DIR:-$(readlink -f "$deps/torch-site/torch")}"
}
