#!/usr/bin/env bash
# The versions of LibTorch that set-up fetches, and what the wheel of each asks for, for setup.sh to source.
# shellcheck disable=SC2034,SC2154 # deps: setup.sh's; the rest is for it

# Oldest first; the last is what a fresh clone takes. Of the wheels, libtorch_cpu itself loads the first two. The versions are those
# of the metadata of torch and of cuda-toolkit.
readonly kTorchTable='
torch   nvidia-cuda-runtime  nvidia-cuda-cupti  nvidia-cusparselt-cu13  nvidia-nvshmem-cu13  nvidia-cufile  nvidia-cudnn-cu13  nvidia-nccl-cu13  cuda-toolkit
2.11.0  13.0.96              13.0.85            0.8.0                   3.4.5                1.15.1.6       9.19.0.56          2.28.9            13.0.2
2.12.1  13.0.96              13.0.85            0.8.1                   3.4.5                1.15.1.6       9.20.0.48          2.29.7            13.0.2
2.13.0  13.0.96              13.0.85            0.8.1                   3.4.5                1.15.1.6       9.20.0.48          2.29.7            13.0.3.0
2.14.1  13.0.96              13.0.85            0.8.1                   3.4.5                1.15.1.6       9.24.0.43          2.30.7            13.0.3.0
2.15.0  13.2.86              13.2.86            0.8.1                   3.7.2                1.17.1.22      9.26.0.51          2.30.7            13.2.2
'
mapfile -t kTorchVersions < <(awk '/^[0-9]/ {print $1}' <<<"$kTorchTable")

# wanted VERSION PACKAGE...: the requirements of these packages, `package==version` each.
wanted() {
  awk -v torch="$1" -v names="${*:2}" '
    $1 == "torch" {for (i = 1; i <= NF; ++i) column[$i] = i}
    $1 == torch {n = split(names, name, " "); for (i = 1; i <= n; ++i) print name[i] "==" $column[name[i]]}' <<<"$kTorchTable"
}

# version_of FOLDER: the version of the LibTorch there; empty if its headers do not say.
version_of() {
  sed -n 's/.*define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$1/include/torch/headeronly/version.h" 2>/dev/null | paste -sd. || true
}

# The version that is taken: of LIBTORCH_DIR, that of TORCH, that which was taken before, or the newest.
chosen_version() {
  local linked
  if [[ -n ${LIBTORCH_DIR:-} ]]; then version_of "$LIBTORCH_DIR" && return; fi
  linked=$(version_of "$deps/torch-site/torch")
  echo "${TORCH:-${linked:-${kTorchVersions[-1]}}}"
}
