#!/usr/bin/env bash
# What some tests need, and are skipped without, for setup.sh to source.
# shellcheck disable=SC2154 # check_only, deps: setup.sh's

# Debian package, and the command that it brings.
missing_test_packages() {
  local package command
  while read -r package command; do
    have_command "$command" || echo "$package"
  done <<TABLE
libopenmpi-dev  mpicxx
openmpi-bin     mpirun
zsh             zsh
fish            fish
TABLE
}

readonly kSafetensors=0.5.3 # Hugging Face's library, whose format checkpoints have

have_safetensors() { [[ -f $deps/safetensors-site/safetensors/__init__.py ]]; }

# Where it cannot be fetched, its test is skipped.
install_safetensors() {
  if have_safetensors || $check_only; then return; fi
  mkdir -p "$deps"
  if ! (find_python >/dev/null && pip_install safetensors-site "safetensors==$kSafetensors"); then
    say "not fetched here, so its test will be skipped: safetensors"
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
