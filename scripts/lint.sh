#!/usr/bin/env bash
# Checks what the compiler does not: formatting, shell scripts, pages of docs, the sizes of files, folders and functions, which
# folder includes which, and that core and runner name no plugin.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
problem() {
  printf 'lint: %s\n' "$*" >&2
  status=1
}

mapfile -t sources < <(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')
mapfile -t scripts < <(git ls-files '*.sh' .ci/run)

# Another version of clang-format would want other line breaks.
clang_format=.deps/clang-format/clang_format/data/bin/clang-format
if [[ ! -x $clang_format ]]; then echo "lint: $clang_format is missing; \`make lint\` installs it" >&2 && exit 1; fi
if [[ ${1:-} == --fix ]]; then "$clang_format" -i "${sources[@]}"; fi
misformatted=$("$clang_format" --dry-run "${sources[@]}" 2>&1 | sed -n 's/^\([^ :]*\):.*clang-format-violations.*/\1/p' | sort -u)
if [[ -n $misformatted ]]; then problem "make format would change: ${misformatted//$'\n'/ }"; fi

mapfile -t unstartable < <(git grep -lIE '^#!/' -- '*.py' '*.sh' | while read -r file; do [[ -x $file ]] || echo "$file"; done)
if ((${#unstartable[@]})); then problem "chmod +x: ${unstartable[*]}"; fi

shellcheck "${scripts[@]}" || problem "shellcheck: see above"

for file in "${sources[@]}"; do
  lines=$(wc -l <"$file")
  if ((lines > 400)); then problem "$file has $lines lines; 400 are the limit"; fi
  [[ $(head -n 1 "$file") == //* ]] || problem "$file: the first line must be a comment that says what the file is for"
done

scripts/check_floors.py || problem "floors: see above"
scripts/check_sizes.py || problem "sizes: see above"
scripts/check_names.py || problem "names: see above"
scripts/check_docs.py || problem "docs: see above"

# A plugin's name as a string in core or runner would be knowledge that only the YAML may have. Names that are
# everyday words mean other things there too.
readonly kEverydayWords='none|overlap|eager|tf32'
names=$(git ls-files 'plugins/*/*.cpp' | sed 's|.*/||; s|\.cpp$||' | grep -vxE "$kEverydayWords" | paste -sd '|')
if git grep -nE "^[^/]*\"($names)\"" -- core runner; then
  problem "core and runner must not name a plugin: see above"
fi

# Kinds of experiment are known by their interface alone: no header of a kind is included, and config names none, but for
# names that kinds of plugins have, too.
kinds=$(git ls-files 'core/ddprun/experiments/*/*.cpp' | cut -d/ -f4 | sort -u | grep -vxE 'attention|precision' | paste -sd '|')
if git grep -nE '"ddprun/experiments/[a-z]+/' -- runner core/ddprun/config core/ddprun/rank ||
  git grep -nE "^[^/]*\"($kinds)\"" -- core/ddprun/config core/ddprun/rank; then
  problem "config and runner must not name a kind of experiment: see above"
fi

if ((status == 0)); then echo "lint: ${#sources[@]} sources, ${#scripts[@]} scripts: fine"; fi
exit $status
