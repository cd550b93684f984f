#!/usr/bin/env bash
# Gathers the small libraries that ddprun is built with into .deps/carried, for a machine that has no network (docs/gpu.md).
# Needs what setup.sh installs, dpkg-dev, and the network; no root.
#
# Libraries that are compiled travel as sources, and setup.sh compiles them where they arrive, in a minute: Debian's binaries need
# this machine's glibc and libstdc++ or newer ones, and a compiler whose ABI of the standard library is the same. Of the others
# the installed headers travel; of Boost, of which all would be 138 MB, those that our sources can include.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
carried=$repo/.deps/carried
readonly kLimitKb=$((30 * 1024))
# Debian's source packages of what is compiled; cmake/carried/CMakeLists.txt builds them.
readonly kSources=(fmtlib spdlog yaml-cpp highway libsodium pcre2 benchmark googletest)
# Folders of these that no library is built from.
readonly kLeftOut=(.pc bench bindings debian doc docs example examples g3doc samples test testdata)
# What of setup.sh's table the pack stands for: compiled, as installed headers, and in part.
readonly kBuilt=(libyaml-cpp-dev libspdlog-dev libhwy-dev libsodium-dev libpcre2-dev libgtest-dev libgmock-dev libbenchmark-dev)
readonly kHeaders=(libcli11-dev nlohmann-json3-dev libgloo-dev libxxhash-dev libjs-chart.js)
readonly kBoost=libboost-dev

say() { printf 'pack: %s\n' "$*"; }
fail() {
  printf 'pack: error: %s\n' "$*" >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Debian's sources of the packages that are installed. apt's own lists, which may lack sources and want root, stay as they are.
fetch_sources() {
  local options
  mkdir -p "$work/parts" "$work/lists/partial" "$work/src"
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb /deb-src /p' >"$work/parts/src.list" || true
  cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed 's/^Types:.*/Types: deb-src/' >"$work/parts/src.sources" || true
  options=(-q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::Lists=$work/lists"
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User= -o Acquire::Languages=none)
  # An archive without sources fails to update; that matters only if what is wanted is missing.
  (cd "$work/src" && { apt-get "${options[@]}" update || true; } && fetch_newest "${kSources[@]}") >"$work/log" 2>&1 ||
    fail "apt-get cannot fetch the sources of ${kSources[*]}:
$(tail -n 15 "$work/log")"
}

# fetch_newest PACKAGE...: of each the newest version that the archive does serve: a mirror may list one without having its files.
fetch_newest() {
  local package version
  for package in "$@"; do
    apt-cache "${options[@]}" showsrc --only-source "$package" | sed -n 's/^Version: //p' | sort -rVu >"$work/versions"
    while read -r version; do
      if apt-get "${options[@]}" source --only-source "$package=$version"; then continue 2; fi
    done <"$work/versions"
    return 1
  done
}

pack_sources() {
  local package name source
  for package in "${kSources[@]}"; do
    source=$(compgen -G "$work/src/$package-*/" | head -n 1) || fail "apt-get brought no sources of $package"
    for name in "${kLeftOut[@]}"; do find "$source" -depth -type d -name "$name" -exec rm -rf {} +; done
    mkdir -p "$carried/src"
    cp -rL "$source" "$carried/src/$package"
  done
}

# Headers, CMake files, Chart.js in one file, and licences of an installed package, below the same folders.
pack_installed() {
  local file
  while read -r file; do
    if [[ -f $file ]]; then install -D -m 644 "$file" "$carried/${file#/usr/}"; fi
  done < <(dpkg -L "$1" | grep -E '^/usr/(include|share/cmake/(CLI11|nlohmann_json)|share/javascript/chart.js/chart\.min\.js|share/doc/[^/]*/copyright)')
}

# What our sources include of Boost, and what that includes, whatever the conditions: another compiler takes other branches. The
# compiler is asked too, as it sees the names that macros make.
pack_boost() {
  local seeds=$work/seeds.cpp found=$work/found new=$work/new
  git -C "$repo" grep -hoE '#include <boost/[^>]*>' -- '*.cpp' '*.h' | sort -u >"$seeds"
  "${CXX:-c++}" -std=c++20 -M "$seeds" | grep -oE '/usr/include/boost/[^ ]+' | sed 's|^/usr/include/||' | sort -u >"$found"
  cp "$found" "$new"
  while [[ -s $new ]]; do
    # Not those of Windows and of compilers without decltype or variadic templates. What Debian does not have is named for other
    # systems.
    sed 's|^|/usr/include/|' "$new" | xargs sed -nE 's/.*#[ ]*include[ ]*[<"](boost\/[^>"]+).*/\1/p' | sort -u |
      grep -vE '^boost/(winapi|typeof)/|/cpp03/' | comm -13 "$found" - | while read -r header; do
      if [[ -f /usr/include/$header ]]; then echo "$header"; fi
    done >"$work/next"
    mv "$work/next" "$new"
    sort -u -o "$found" "$found" "$new"
  done
  (cd /usr/include && mkdir -p "$carried/include" && xargs cp -L --parents -t "$carried/include" <"$found")
  install -D -m 644 "/usr/share/doc/$kBoost/copyright" "$carried/share/doc/$kBoost/copyright"
}

main() {
  rm -rf "$carried" "$carried.tar.gz"
  "$repo/scripts/setup.sh"
  command -v dpkg-source >/dev/null || fail "dpkg-source is needed (Debian: dpkg-dev)"
  say "fetching the sources of ${kSources[*]}"
  fetch_sources
  pack_sources
  local package
  for package in "${kHeaders[@]}"; do pack_installed "$package"; done
  pack_boost
  printf '%s\n' "${kBuilt[@]}" "${kHeaders[@]}" "$kBoost" >"$carried/packages"
  # Which pack this is: setup.sh builds one once.
  (cd "$carried" && find . -type f ! -name contents -print0 | sort -z | xargs -0 sha256sum) >"$work/contents"
  mv "$work/contents" "$carried/contents"
  tar -C "$repo/.deps" -czf "$carried.tar.gz" carried

  local kb
  kb=$(du -sk --apparent-size "$carried" | cut -f 1)
  say "$(wc -l <"$carried/contents") files, $((kb / 1024)).$((kb % 1024 * 10 / 1024)) MB in .deps/carried; \
the same in .deps/carried.tar.gz: $(du -k "$carried.tar.gz" | cut -f 1) kB"
  ((kb <= kLimitKb)) || fail "that is more than $((kLimitKb / 1024)) MB"
  say "copy either with the tree; there, \`make test-gpu\` builds with it and installs nothing"
}

main "$@"
