#!/usr/bin/env bash
# Profiles rows of an experiment on GPUs with Nsight Systems, naive beside overlap, and makes tables of the reports.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

readonly kWarmup=5
# Kernels (NCCL's among them), copies, ranges on the host, ranges on the GPU, kernels by range, calls of CUDA.
readonly kTables=cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum,nvtx_sum,nvtx_gpu_proj_sum,nvtx_kern_sum,cuda_api_sum
# cublas and cudnn say which of their calls launched a kernel; the allocator's memory is a row of the timeline; a replay of a CUDA
# graph shows its kernels. NCCL makes NVTX ranges of its own. Without samples of the CPU a run is slowed down less.
readonly kOptions=('--trace=cuda,nvtx,cublas,cudnn,osrt' --cuda-memory-usage=true --cuda-graph-trace=node --sample=none --cpuctxsw=none
  --force-overwrite=true)

usage() {
  cat <<TEXT
usage: scripts/nsys.sh [FILE.yaml [WORDS ...]]

Runs FILE.yaml, or configs/cs336/strategies_gpu.yaml, under Nsight Systems: without its sweep, once for each strategy. Each
rank is a process of its own and has a report of its own. WORDS go to ddprun (--set model.context_length=512). Needs nsys,
and a GPU for each rank.

  STRATEGIES='naive overlap'   what is run, one after the other
  RANKS=2                      ranks, each on a GPU
  STEPS=3                      steps after $kWarmup of warm-up
  OUT=results/nsys/<time>      NAME_rank0.nsys-rep for Nsight Systems; tables/ with each table as CSV
TEXT
}

# refuse WHAT GOT EXPECTED HINT
refuse() {
  printf 'error: %s\n  where: scripts/nsys.sh\n  got: %s\n  expected: %s\n  hint: %s\n' "$@" >&2
  exit 1
}

check_machine() {
  local gpus
  command -v nsys >/dev/null ||
    refuse "Nsight Systems is not here" "no program nsys in PATH" "nsys, which comes with a CUDA toolkit or as nsight-systems-cli" \
      "install it, or put its folder into PATH; on the CPU \`profile: {operators: true}\` says what takes the time (docs/profiling.md)"
  gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU ' || true)
  ((gpus >= ranks)) ||
    refuse "there are too few GPUs" "$gpus, by nvidia-smi --list-gpus" "$ranks, one for each rank" \
      "for one GPU: RANKS=1 STRATEGIES=none; a container must be given the host's GPUs"
}

find_ddprun() {
  if [[ -x $repo/build/release/bin/ddprun ]]; then
    echo "$repo/build/release/bin/ddprun"
  else
    command -v ddprun || refuse "ddprun is not here" "no build/release/bin/ddprun, and none in PATH" "a build" "make quickstart"
  fi
}

# profile STRATEGY: a report a rank. A process that ddprun forks would be seen by a fragile option of nsys alone, so each rank is
# started here, as torchrun would.
profile() {
  local strategy=$1 rank status=0 pids=() port
  port=$(shuf -i 20000-29999 -n 1)
  for ((rank = 0; rank < ranks; ++rank)); do
    WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks RANK=$rank LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      nsys profile "${kOptions[@]}" --output="$out/${strategy}_rank$rank" \
      "$ddprun" "$file" --set 'sweep={}' --set strategy="$strategy" --set world.size="$ranks" \
      --set train.warmup_steps=$kWarmup --set train.steps="$steps" \
      "${words[@]}" --output "$out/results" >"$out/${strategy}_rank$rank.log" 2>&1 &
    pids+=($!)
  done
  for rank in "${!pids[@]}"; do
    wait "${pids[rank]}" || { status=$? && echo "nsys.sh: rank $rank of $strategy ended with status $status" >&2; }
  done
  ((status == 0)) || refuse "$strategy did not run to its end" "$(tail -n 3 "$out/${strategy}_rank0.log" | tr '\n' ' ')" \
    "exit status 0 of each rank" "see $out/${strategy}_rank*.log"
}

# tables STRATEGY: of the last step, which is measured.
tables() {
  local rank report
  for ((rank = 0; rank < ranks; ++rank)); do
    report=$out/${1}_rank$rank.nsys-rep
    nsys stats --report="$kTables" --format=csv --filter-nvtx="step@ddprun/$((kWarmup + steps - 1))" --force-export=true \
      --force-overwrite=true --output="$out/tables/${1}_rank$rank" "$report" >"$out/tables/${1}_rank$rank.log" 2>&1 ||
      refuse "no tables of $report" "$(tail -n 1 "$out/tables/${1}_rank$rank.log")" "nsys stats with exit status 0" \
        "see $out/tables/${1}_rank$rank.log"
  done
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then usage && exit; fi
file=${1:-$repo/configs/cs336/strategies_gpu.yaml}
words=("${@:2}")
ranks=${RANKS:-2}
steps=${STEPS:-3}
out=${OUT:-results/nsys/$(date -u +%Y-%m-%dT%H-%M-%SZ)}
check_machine
[[ -f $file ]] || refuse "there is no such experiment" "$file" "a YAML file" "scripts/nsys.sh --help"
ddprun=$(find_ddprun) || exit 1
mkdir -p "$out/tables"
for strategy in ${STRATEGIES:-naive overlap}; do
  echo "nsys.sh: $strategy on $ranks ranks"
  profile "$strategy"
  tables "$strategy"
done
echo "nsys.sh: written: $out/*.nsys-rep, for Nsight Systems, and $out/tables/*.csv"
