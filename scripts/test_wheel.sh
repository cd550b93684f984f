#!/usr/bin/env bash
# The wheel in build/packages as its user meets it: in a fresh environment, and without the tree. Torch is linked into it, from
# .deps/python-$version if that has the version, else LibTorch's folder: so no network is needed. `make test-packages` lets pip bring it.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$PWD/build/packages/test
# What it was built with: the folder that CMake was told, or else what set-up installed.
libtorch=$(sed -n "s/^LIBTORCH_DIR:PATH=//p" build/release/CMakeCache.txt)
libtorch=$(realpath "${libtorch:-.deps/torch-site/torch}")
information=$(basename "$(dirname "$libtorch")"/torch-*.dist-info)
version=${information#torch-} version=${version%.dist-info}

say() { printf 'test_wheel: %s\n' "$*"; }
fail() { say "FAILED: $*" >&2 && exit 1; }
# must PATTERN COMMAND...: succeeds, and its output matches.
must() {
  local pattern=$1 output
  shift
  output=$("$@" 2>&1) || fail "exit status $? of $*: $output"
  grep -qE -- "$pattern" <<<"$output" || fail "the output of $* does not match '$pattern': $output"
}

# What the environment is made of: a Python, and the site-packages that its torch comes from.
python=python3 from=$(dirname "$libtorch") whole_torch=false
if bench=$(compgen -G "$PWD/.deps/python-$version/lib/python3*/site-packages/$information"); then
  python=.deps/python-$version/bin/python from=$(dirname "$bench") whole_torch=true
fi

say "a fresh environment, with torch of $from"
rm -rf "$work" && mkdir -p "$work/here"
"$python" -m venv --without-pip "$work/venv"
python3 -m pip --python "$work/venv/bin/python" install --quiet --disable-pip-version-check --no-deps --no-index build/packages/ddprun-*.whl
site=$(echo "$work"/venv/lib/python3*/site-packages)
ln -s "$from/torch" "$from/$information" "$site/"
source=$PWD
cd "$work/here"
unset LD_LIBRARY_PATH DDPRUN_PLUGIN_PATH PYTHONPATH
export PATH=$work/venv/bin:/usr/bin:/bin

say "the command"
[[ $(command -v ddprun) == "$work/venv/bin/ddprun" ]] || fail "the command is not in the environment"
must "^torch $version" ddprun --version
must "^$site/ddprun/lib/cmake/ddprun$" ddprun --cmake-dir
must "$site/ddprun/lib/ddprun/plugins/strategy_flat.so" ddprun list
must "no such file or folder" bash -c '! ddprun missing.yaml'
must 'proved in 5 of 6 rows' ddprun quickstart --set train.steps=3 --set train.warmup_steps=1 --set model.context_length=32
ddprun quickstart --set train.steps=1000 >output 2>&1 &
sleep 6
[[ $(readlink "/proc/$!/exe") == "$site/ddprun/bin/ddprun" ]] || fail "the command did not become the program: $(cat output)"
[[ $(grep -o '/[^ ]*libgomp[^ ]*' "/proc/$!/maps" | sort -u) == *torch/lib/libgomp.so.1 ]] || fail "another OpenMP runtime than torch's, or two"
kill -TERM $!
if wait $!; then fail "a signal did not reach the program"; fi

say "results in Python"
must 'rows 6, samples 48' python - <<'END'
import ddprun
result = ddprun.load("results/quickstart")
print(f"rows {len(result.rows)}, samples {len(result.samples)}")
assert all(row["status"] == "ok" and row["step_ms"] > 0 for row in result.rows)
END
if $whole_torch; then
  echo "$from" >"$site/rest_of_torch.pth" # what torch imports: typing_extensions, sympy
  ddprun describe flash --python >flash.py
  must 'largest difference from scaled_dot_product_attention: [0-9.]+e-0[5-9]' python flash.py
fi

say "a strategy that it wrote, built against it"
must '^ddprun-contract chunked/build/strategy_chunked.so$' ddprun new strategy chunked
must '' cmake -S chunked -B chunked/build -G Ninja -DCMAKE_PREFIX_PATH="$(ddprun --cmake-dir)" -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)"
must '' cmake --build chunked/build
must 'proved in 4 of 4 rows' ddprun chunked/chunked.yaml
must 'PASSED' ddprun-contract chunked/build/strategy_chunked.so --gtest_filter='*chunked*flat*:*AnyModule*chunked*'

say "another torch, and a Python without one, are refused in a sentence"
rm "$site/$information" && mkdir "$site/$information" && sed 's/^Version: .*/Version: 1.13.0/' "$from/$information/METADATA" >"$site/$information/METADATA"
must '^error: this ddprun was built with torch [0-9.]+, and .* has torch 1.13.0: pip install torch==[0-9.]+' bash -c '! ddprun list'
rm -rf "${site:?}/torch" "${site:?}/$information" "${site:?}/rest_of_torch.pth"
must '^error: ddprun needs torch [0-9.]+, and .* has none: pip install torch==' bash -c '! ddprun list'
if $whole_torch; then must 'needs torch, which .* has not: pipe it into .*/venv/bin/python' bash -c '! python flash.py'; fi

cd "$source" && rm -rf "$work"
say "passed"
