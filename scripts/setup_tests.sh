#!/usr/bin/env bash
# What some tests need, and are skipped without, for setup.sh to source.
# shellcheck disable=SC2154 # check_only, deps: setup.sh's

# Debian package, and how to see that what it brings is there, as in setup.sh.
missing_test_packages() {
  local package kind what
  while read -r package kind what; do
    "have_$kind" "$what" || echo "$package"
  done <<TABLE
libopenmpi-dev   command mpicxx
openmpi-bin      command mpirun
zsh              command zsh
fish             command fish
libvalijson-dev  file    include/valijson/validator.hpp
TABLE
  # Ubuntu has no such package.
  if ! have_command chromium && apt-cache show chromium >/dev/null 2>&1; then echo chromium; fi
}

# Libraries in Python that tests hold ours against: Hugging Face's, whose formats checkpoints and tokenizers have, and tiktoken; the
# readers of TensorBoard and of mlperf-logging, with what they import besides numpy (20 MB).
readonly kBeside=(safetensors==0.5.3 tokenizers==0.21.4 tiktoken==0.9.0 regex==2024.11.6
  tensorboard==2.21.0 protobuf==7.36.2 absl-py==2.5.1 mlperf-logging==4.1.68 pyyaml==6.0.2)

have_libraries_beside() {
  local name
  for name in safetensors tiktoken tensorboard mlperf_logging; do
    [[ -f $deps/beside-site/$name/__init__.py ]] || return
  done
}

# Where they cannot be fetched, their tests are skipped.
install_libraries_beside() {
  if have_libraries_beside || $check_only; then return; fi
  mkdir -p "$deps"
  if ! (find_python >/dev/null && pip_install beside-site "${kBeside[@]}"); then
    say "not fetched here, so their tests will be skipped: ${kBeside[*]}"
  fi
}

# Where it cannot be installed, it says which tests will be skipped, and set-up goes on.
install_for_tests() {
  local packages
  mapfile -t packages < <(missing_test_packages)
  if ((${#packages[@]} == 0)); then return; fi
  if $check_only; then
    say "missing for some tests: ${packages[*]}"
  elif [[ -f $deps/carried/packages ]] || ! have_command apt-get || ! become_root || ! (install_packages "${packages[@]}"); then
    say "not installed here, so tests that need them will be skipped: ${packages[*]}"
  fi
}
