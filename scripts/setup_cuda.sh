#!/usr/bin/env bash
# What CUDA support needs besides LibTorch and a CUDA toolkit, for setup.sh to source: wheels in .deps/cuda-site.
# shellcheck disable=SC2154 # deps, with_cuda: setup.sh's

cuda_home=${CUDAToolkit_ROOT:-${CUDA_HOME:-/usr/local/cuda}}

# Only with a toolkit is CUDA support built.
want_cuda() { $with_cuda || have_command nvcc || [[ -x $cuda_home/bin/nvcc ]]; }

# The wheels of what libtorch_cuda is linked with and neither the toolkit nor the folders beside LibTorch have;
# versions as PyTorch 2.11 asks for them. Toolkits lack the first three (304 MB on disk), many also cuDNN and NCCL.
cuda_wheels() {
  local libtorch=${LIBTORCH_DIR:-$deps/torch-site/torch} wheel library
  while read -r wheel library; do
    compgen -G "$cuda_home/lib64/$library" >/dev/null && continue
    compgen -G "$libtorch/../nvidia/*/lib/$library" >/dev/null && continue
    echo "$wheel"
  done <<TABLE
nvidia-cusparselt-cu13==0.8.0  libcusparseLt.so.0
nvidia-nvshmem-cu13==3.4.5     libnvshmem_host.so.3
nvidia-cufile==1.15.1.6        libcufile.so.0
nvidia-cudnn-cu13==9.19.0.56   libcudnn.so.9
nvidia-nccl-cu13==2.28.9       libnccl.so.2
TABLE
}

have_cuda_wheels() {
  want_cuda || return 0
  local wheel
  for wheel in $(cuda_wheels); do
    wheel=${wheel//-/_}
    [[ -d $deps/cuda-site/${wheel/==/-}.dist-info ]] || return 1
  done
}

install_cuda_wheels() {
  local wheels
  mapfile -t wheels < <(cuda_wheels)
  pip_install cuda-site "${wheels[@]}"
}
