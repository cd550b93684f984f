#!/usr/bin/env bash
# What `make bench` compares with, for setup.sh to source: PyTorch in Python, each version in a virtual environment of its own,
# .deps/python-VERSION.
# shellcheck disable=SC2154 # deps, log, torch: setup.sh's

# That which ddprun is built with, and those of PEER_TORCH (2.11.0,compiled).
bench_versions() {
  local word
  echo "$torch"
  for word in $(tr , " " <<<"${PEER_TORCH:-}"); do
    if [[ $word != "$torch" && " ${kTorchVersions[*]} " == *" $word "* ]]; then echo "$word"; fi
  done
}

# What `import torch` needs of a PyTorch installed without its dependencies.
readonly kBenchPackages=(numpy filelock 'typing-extensions>=4.10' 'sympy>=1.13.3' networkx jinja2 fsspec 'setuptools<80')
# The CUDA libraries that its Python part is linked with, even for a CPU run: those that no toolkit brings, and those that one does.
readonly kBenchCuda=(nvidia-cusparselt-cu13 nvidia-nvshmem-cu13 nvidia-cufile)
readonly kBenchToolkit=(nvidia-cudnn-cu13 nvidia-nccl-cu13)
readonly kToolkitParts=cublas,cudart,cufft,cufile,cupti,curand,cusolver,cusparse,nvjitlink,nvrtc,nvtx

have_bench() {
  local version
  for version in $(bench_versions); do [[ -f $deps/python-$version/ready ]] || return 1; done
}

# have_toolkit VERSION: whether a toolkit has the libraries of that PyTorch; bench_sides.py names the same folder. A later wheel
# needs what a toolkit of an earlier release lacks.
have_toolkit() {
  local wanted_toolkit home=/usr/local/cuda/lib64
  wanted_toolkit=$(wanted "$1" cuda-toolkit)
  [[ $(readlink -f $home) == */cuda-"$(cut -d. -f1,2 <<<"${wanted_toolkit#*==}")"/* ]] &&
    compgen -G "$home/libcublas.so.13" >/dev/null && compgen -G "$home/libcudnn.so.9" >/dev/null
}

# python_works COMMAND VERSION: it runs, is that version (empty: 3.10 or newer), and can make virtual environments.
python_works() {
  "$1" -c "import sys, venv, ensurepip
version = sys.version_info[:2]
sys.exit(version < (3, 10) or '$2' not in ('', '%d.%d' % version))" 2>/dev/null
}

# find_bench_python VERSION: the Python that a fetched wheel is for; else any other, which gets a wheel of its own.
find_bench_python() {
  local python
  for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    if python_works "$python" "$1"; then echo "$python" && return; fi
  done
  for python in python3 /usr/bin/python3; do
    if python_works "$python" ''; then echo "$python" && return; fi
  done
  return 1
}

bench_pip() { run_logged "$1" "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off "${@:2}"; }

install_bench() {
  local version
  for version in $(bench_versions); do
    if [[ ! -f $deps/python-$version/ready ]]; then install_python "$version"; fi
  done
}

# install_python VERSION: its virtual environment, which is `ready` once torch has been imported there.
install_python() {
  local version=$1 venv=$deps/python-$1 python wheel minor site=$deps/torch-$1 packages requirements nccl
  if [[ -n ${LIBTORCH_DIR:-} && $version == "$torch" ]]; then site=$(dirname "$LIBTORCH_DIR"); fi
  wheel=$(compgen -G "$site/torch/_C.cpython-3*.so" | head -n 1 || true) # .../_C.cpython-312-x86_64-linux-gnu.so
  minor=$(sed -n 's/.*cpython-3\([0-9]*\)-.*/3.\1/p' <<<"$wheel")
  python=$(find_bench_python "$minor") ||
    fail "Python 3.10 or newer with venv is needed for the comparison with PyTorch (Debian: python3-venv)"
  rm -rf "$venv"
  run_logged "making .deps/python-$version with $python" "$python" -m venv "$venv" || fail "no virtual environment; see $log"
  packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  if [[ -n $wheel && $packages == */python$minor/* ]]; then
    say "  its torch is links to $site"
    cp -rs "$(realpath "$site")/." "$packages/"
  else
    bench_pip "fetching torch $version for $("$venv/bin/python" --version), about 550 MB" --no-deps "torch==$version" ||
      fail "pip cannot fetch torch; see $log"
  fi
  bench_pip "fetching what torch imports" "${kBenchPackages[@]}" || fail "pip failed; see $log"
  mapfile -t requirements < <(wanted "$version" "${kBenchCuda[@]}")
  nccl=$(wanted "$version" nvidia-nccl-cu13)
  if ! toolkit_has libnccl.so.2 "$nccl"; then requirements+=("$nccl"); fi
  bench_pip "fetching the CUDA libraries that torch is linked with" --no-deps "${requirements[@]}" || fail "pip failed; see $log"
  if ! have_toolkit "$version"; then
    say "  /usr/local/cuda is not the CUDA toolkit that it asks for: its libraries come as wheels, about 2 GB"
    mapfile -t requirements < <(wanted "$version" "${kBenchToolkit[@]}" cuda-toolkit)
    bench_pip "fetching the CUDA toolkit's libraries" "${requirements[@]/cuda-toolkit/cuda-toolkit[$kToolkitParts]}" ||
      fail "pip failed; see $log"
  fi
  # Without it every import would parse all of torch, and the start-up that is measured would be no user's. Files that are no
  # valid Python, which some packages carry, are left out, as pip leaves them out.
  run_logged "compiling to bytecode, as pip does" "$venv/bin/python" -m compileall -q -j 0 "$packages" || true
  [[ -d $packages/torch/__pycache__ ]] || fail "no bytecode of torch was written; see $log"
  LD_LIBRARY_PATH=/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} run_logged "importing torch" \
    "$venv/bin/python" -c 'import torch, torch.distributed; print(torch.__version__); torch.ones(2) + 1' ||
    fail "torch does not import in .deps/python-$version; the end of $log:
$(tail -n 5 "$log")"
  touch "$venv/ready"
}
