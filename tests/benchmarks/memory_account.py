#!/usr/bin/env python3
"""Runs combinations of strategy, precision, kernels and recomputation, and compares the memory that each was predicted with what it took.

    tests/benchmarks/memory_account.py --program build/release/bin/ddprun [--ranks 1,2,4] [--strategies ...] 

With --categories each run records its memory (profile.memory), and the tensors of rank 0 at the peak are compared category by category
with what the rank that holds most was predicted to hold at its own.

The model is small, so that all of it takes minutes; sizes are odd, so that no two terms hide each other. Exit status 1 if a peak is off by more
than --most percent. What a combination's plugins refuse is left out.
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

STRATEGIES = [
    "{name: none, unsynchronized: true}", "naive", "flat", "overlap", "{name: bucketed, bucket_mb: 5}", "{name: torch_ddp, bucket_mb: 5}",
    "zero1", "zero1_cs336", "zero2", "fsdp", "hsdp", "powersgd", "local_sgd", "gossip",
]
PRECISIONS = ["fp32", "bf16_mixed", "bf16_pure", "fp16_mixed"]
RECOMPUTE = ["none", "every_block", "{groups: 2}"]

FILE = """
name: memory_account
model: {{preset: tiny, vocab_size: 3000, context_length: 96, d_model: 256, d_ff: 704, layers: 4, heads: 4, kernels: {kernels}, recompute: {recompute}}}
data: {{source: random}}
world: {{size: {ranks}}}
strategy: {strategy}
precision: {precision}
attention: {attention}
optimizer: {{name: adamw, lr: 1e-3}}
train: {{batch_per_rank: 6, warmup_steps: 3, steps: 1}}
profile: {{memory: {categories}}}
output: {{dir: {output}}}
"""


def call(arguments):
    return subprocess.run(arguments, capture_output=True, text=True)


def measured_peaks(result):
    """By phase: the highest of the ranks."""
    peaks = {}
    for rank in result["rows"][0]["ranks"]:
        for each in rank["memory_phases"]:
            peaks[each["phase"]] = max(peaks.get(each["phase"], 0), each["peak_allocated_bytes"])
    return peaks


def peak_by_category(predicted, row):
    """Predicted and measured bytes of each category that has any, at the peak of the steps."""
    peak = max((each for each in predicted["phases"] if each["phase"] != "setup"), key=lambda each: each["bytes"])
    measured = dict(row["ranks"][0]["memory_peak"]["tensors"])
    return {name: (each, measured[name]) for name, each in peak["by_category"].items() if each or measured[name]}


def compare(program, folder, point):
    """None: refused. Else predicted and measured bytes by phase, or by category."""
    file = folder / "memory_account.yaml"
    file.write_text(FILE.format(output=folder / "results", **point))
    account = call([program, "account", str(file), "--format", "json"])
    if account.returncode == 2:
        return None
    predicted = json.loads(account.stdout)[0]
    if predicted["unknown"]:
        return predicted["unknown"]
    run = call([program, "run", str(file), "--quiet", "--format", "json"])
    if run.returncode != 0:
        return "it did not run: " + (run.stderr.strip().splitlines() or ["?"])[-1]
    result = json.loads(run.stdout)
    if point["categories"] == "true":
        return peak_by_category(predicted, result["rows"][0])
    measured = measured_peaks(result)
    return {each["phase"]: (each["bytes"], measured.get(each["phase"], 0)) for each in predicted["phases"]}


def line_of(point, name, found, most, groups):
    """Prints what a combination took, and enters it in its group. Returns its largest difference in percent."""
    start = "| {kernels} | {precision} | {recompute} | {ranks} |".format(**point) + f" `{name}` |"
    if isinstance(found, str):
        print(start, f"{found[:150]} | | | |", flush=True)
        return 0.0
    # A megabyte of a category is nobody's concern.
    small = 1e6 if point["categories"] == "true" else 0
    off = {phase: 100 * (predicted / measured - 1) if measured and abs(predicted - measured) > small else 0.0
           for phase, (predicted, measured) in found.items()}
    steps = [phase for phase in found if phase != "setup"]
    peak = max(steps, key=lambda phase: found[phase][1])
    largest = max(steps, key=lambda phase: abs(off[phase]))
    for phase in [peak] if abs(off[largest]) <= most else steps:
        predicted, measured = found[phase]
        print(start, f"{phase} | {predicted / 1e6:.2f} | {measured / 1e6:.2f} | {off[phase]:+.2f} % |", flush=True)
    group = groups.setdefault((point["kernels"], point["precision"], point["recompute"]), [])
    group.append((abs(off[largest]), off[largest], f"{largest} of `{name}`, {point['ranks']} ranks", off[peak]))
    return abs(off[largest])


def print_groups(groups):
    print("\n| kernels | precision | recompute | combinations | peak off by at most | a phase or category off by at most | which |")
    print("|---|---|---|---|---|---|---|")
    for key, entries in groups.items():
        worst = max(entries)
        peak = max((entry[3] for entry in entries), key=abs)
        print("|", " | ".join(key), f"| {len(entries)} | {peak:+.2f} % | {worst[1]:+.2f} % | {worst[2] if worst[0] >= 0.005 else '–'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--strategies", default=";".join(STRATEGIES), help="separated by semicolons")
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--kernels", default="fused,reference")
    parser.add_argument("--recompute", default=";".join(RECOMPUTE), help="separated by semicolons")
    parser.add_argument("--categories", action="store_const", const="true", default="false", help="compare by category at the peak")
    parser.add_argument("--most", type=float, default=2.0, help="percent that a phase may be off")
    options = parser.parse_args()
    worst, groups = 0.0, {}
    print("| kernels | precision | recompute | ranks | strategy | phase or category | predicted MB | measured MB | difference |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kernels, precision, recompute, ranks, strategy in itertools.product(
                options.kernels.split(","), options.precisions.split(","), options.recompute.split(";"), options.ranks.split(","),
                options.strategies.split(";")):
            attention = "eager" if precision == "fp16_mixed" else "flash"
            point = dict(categories=options.categories, kernels=kernels, precision=precision, recompute=recompute, ranks=ranks, strategy=strategy, attention=attention)
            found = compare(options.program, pathlib.Path(folder), point)
            if found is not None:
                name = strategy.strip("{}").split(",")[0].replace("name: ", "")
                worst = max(worst, line_of(point, name, found, options.most, groups))
    print_groups(groups)
    return 1 if worst > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
