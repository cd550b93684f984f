#!/usr/bin/env bash
# What CUDA support needs besides LibTorch and a CUDA toolkit, for setup.sh to source: wheels in .deps/cuda-VERSION, of that LibTorch.
# shellcheck disable=SC2154 # deps, with_cuda, torch: setup.sh's

cuda_home=${CUDAToolkit_ROOT:-${CUDA_HOME:-/usr/local/cuda}}

# Only with a toolkit is CUDA support built.
want_cuda() { $with_cuda || have_command nvcc || [[ -x $cuda_home/bin/nvcc ]]; }

# toolkit_has LIBRARY REQUIREMENT: as new as asked for, if it is NCCL, of which libtorch_cuda calls what an older one lacks.
toolkit_has() {
  compgen -G "$cuda_home/lib64/$1" >/dev/null || return 1
  [[ $1 != libnccl.* ]] || at_least "${2#*==}" "$(sed -nE 's/#define NCCL_(MAJOR|MINOR|PATCH) //p' "$cuda_home/include/nccl.h" | paste -sd.)"
}

# The wheels of what libtorch_cuda is linked with and neither the toolkit nor the folders beside LibTorch have. Toolkits lack
# the first three (304 MB on disk), many also cuDNN and NCCL.
cuda_wheels() {
  local libtorch=${LIBTORCH_DIR:-$deps/torch-site/torch} wheel library
  while read -r wheel library; do
    toolkit_has "$library" "$(wanted "$torch" "$wheel")" && continue
    compgen -G "$libtorch/../nvidia/*/lib/$library" >/dev/null && continue
    wanted "$torch" "$wheel"
  done <<TABLE
nvidia-cusparselt-cu13  libcusparseLt.so.0
nvidia-nvshmem-cu13     libnvshmem_host.so.3
nvidia-cufile           libcufile.so.0
nvidia-cudnn-cu13       libcudnn.so.9
nvidia-nccl-cu13        libnccl.so.2
TABLE
}

have_cuda_wheels() {
  want_cuda || return 0
  local wheel
  for wheel in $(cuda_wheels); do
    wheel=${wheel//-/_}
    [[ -d $deps/cuda-$torch/${wheel/==/-}.dist-info ]] || return 1
  done
}

install_cuda_wheels() {
  local wheels
  mapfile -t wheels < <(cuda_wheels)
  pip_install "cuda-$torch" "${wheels[@]}"
}
