#!/usr/bin/env bash
# What `make bench` compares with, for setup.sh to source: PyTorch in Python, in a virtual environment of its own.
# shellcheck disable=SC2154 # deps, log, kTorch: setup.sh's

bench_venv=$deps/bench-venv
# What `import torch` needs of a PyTorch installed without its dependencies.
readonly kBenchPackages=(numpy filelock 'typing-extensions>=4.10' 'sympy>=1.13.3' networkx jinja2 fsspec 'setuptools<80')
# The CUDA libraries that its Python part is linked with, even for a CPU run: those that no toolkit brings, and those that one does.
readonly kBenchCuda=(nvidia-cusparselt-cu13==0.8.0 nvidia-nvshmem-cu13==3.4.5 nvidia-cufile)
readonly kBenchToolkit=('cuda-toolkit[cublas,cudart,cufft,cufile,cupti,curand,cusolver,cusparse,nvjitlink,nvrtc,nvtx]==13.0.2'
  nvidia-cudnn-cu13==9.19.0.56 nvidia-nccl-cu13==2.28.9)

have_bench() { [[ -x $bench_venv/bin/python && $(cat "$bench_venv/ready" 2>/dev/null) == "$kTorch" ]]; }

# The toolkit whose libraries the wheel takes; bench_sides.py names the same folder.
have_toolkit() { compgen -G '/usr/local/cuda/lib64/libcublas.so.13' >/dev/null && compgen -G '/usr/local/cuda/lib64/libcudnn.so.9' >/dev/null; }

# python_works COMMAND VERSION: it runs, is that version (empty: 3.10 or newer), and can make virtual environments.
python_works() {
  "$1" -c "import sys, venv, ensurepip
version = sys.version_info[:2]
sys.exit(version < (3, 10) or '$2' not in ('', '%d.%d' % version))" 2>/dev/null
}

# find_bench_python VERSION: the Python that the wheel in torch-site is for; else any other, which gets a wheel of its own.
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

bench_pip() { run_logged "$1" "$bench_venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off "${@:2}"; }

install_bench() {
  local python wheel version site packages
  site=${LIBTORCH_DIR:+$(dirname "$LIBTORCH_DIR")}
  site=${site:-$deps/torch-site}
  wheel=$(compgen -G "$site/torch/_C.cpython-3*.so" | head -n 1 || true) # .../_C.cpython-312-x86_64-linux-gnu.so
  version=$(sed -n 's/.*cpython-3\([0-9]*\)-.*/3.\1/p' <<<"$wheel")
  python=$(find_bench_python "$version") ||
    fail "Python 3.10 or newer with venv is needed for the comparison with PyTorch (Debian: python3-venv)"
  rm -rf "$bench_venv"
  run_logged "making .deps/bench-venv with $python" "$python" -m venv "$bench_venv" || fail "no virtual environment; see $log"
  packages=$("$bench_venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  if [[ -n $wheel && $packages == */python$version/* ]]; then
    say "  its torch is links to $site"
    cp -rs "$(realpath "$site")/." "$packages/"
  else
    bench_pip "fetching torch $kTorch for $("$bench_venv/bin/python" --version), about 550 MB" --no-deps "torch==$kTorch" ||
      fail "pip cannot fetch torch; see $log"
  fi
  bench_pip "fetching what torch imports" "${kBenchPackages[@]}" || fail "pip failed; see $log"
  bench_pip "fetching the CUDA libraries that torch is linked with" --no-deps "${kBenchCuda[@]}" || fail "pip failed; see $log"
  if ! have_toolkit; then
    say "  no CUDA 13 toolkit in /usr/local/cuda: its libraries come as wheels, about 2 GB"
    bench_pip "fetching the CUDA toolkit's libraries" "${kBenchToolkit[@]}" || fail "pip failed; see $log"
  fi
  # Without it every import would parse all of torch, and the start-up that is measured would be no user's. Files that are no
  # valid Python, which some packages carry, are left out, as pip leaves them out.
  run_logged "compiling to bytecode, as pip does" "$bench_venv/bin/python" -m compileall -q -j 0 "$packages" || true
  [[ -d $packages/torch/__pycache__ ]] || fail "no bytecode of torch was written; see $log"
  LD_LIBRARY_PATH=/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} run_logged "importing torch" \
    "$bench_venv/bin/python" -c 'import torch, torch.distributed; print(torch.__version__); torch.ones(2) + 1' ||
    fail "torch does not import in .deps/bench-venv; the end of $log:
$(tail -n 5 "$log")"
  echo "$kTorch" >"$bench_venv/ready"
}
