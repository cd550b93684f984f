#!/usr/bin/env python3
"""Holds the predicted steps of ten rows against what they took, on two hosts with a slow link between them (tests/support/two_hosts.sh).

    tests/benchmarks/step_order.py --program build/release/bin/ddprun [--rate 100mbit] [--tflops 0.05] [--memory-rate 15GB/s]
    tests/benchmarks/step_order.py --program build/release/bin/ddprun --here [--link 10GB/s,20us] [--runs 3]

With --here all strategies run on two ranks of this machine, and computing is predicted by the rates that it has. A row counts with its
shortest step in all runs, which other programs on the machine disturb least.

Prints a table, and how many of the pairs of rows that are no ties are in the predicted order. Exit status 1: not all. A pair is a tie if
its predictions differ by less than --tie times.
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

HOSTS = pathlib.Path(__file__).resolve().parent.parent / "support/two_hosts.sh"
FILE = """
name: step_order
model: {preset: tiny, vocab_size: 3000, context_length: 64}
data: {source: random}
world: {size: 2}
strategy: flat
precision: fp32
attention: flash
optimizer: {name: adamw, lr: 1e-3}
train: {batch_per_rank: 4, warmup_steps: 2, steps: 5}
sweep: {sweep}
"""
SLOW_LINK = """{strategy: [naive, overlap, fsdp, {name: powersgd, rank: 2}, {name: local_sgd, every: 1}], model.recompute: [none, every_block]}"""
HERE = """{strategy: [{name: none, unsynchronized: true}, naive, flat, overlap, {name: bucketed, bucket_mb: 5}, {name: torch_ddp, bucket_mb: 5},
  zero1, zero1_cs336, zero2, fsdp, {name: hsdp, shard_ranks: 2}, {name: powersgd, rank: 2}, {name: local_sgd, every: 1}]}"""


def steps_of(command, folder):
    """The shortest step of each row, in ms."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    rows = json.loads((folder / "step_order/latest/result.json").read_text())["rows"]
    return [row["statistics"]["step_ms"]["min"] for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--rate", default="100mbit", help="of the link between the hosts, as tc takes it")
    parser.add_argument("--link", help="as ddprun takes it; 100Mbit/s,100us, or of ranks --here 10GB/s,20us")
    parser.add_argument("--tflops", default="0.05", help="of a rank")
    parser.add_argument("--memory-rate", default="15GB/s", help="of a rank")
    parser.add_argument("--here", action="store_true", help="on this machine, all strategies")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--tie", type=float, default=1.2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "step_order.yaml"
        file.write_text(FILE.replace("{sweep}", HERE if options.here else SLOW_LINK))
        account = [options.program, "account", str(file), "--link", options.link or ("10GB/s,20us" if options.here else "100Mbit/s,100us")]
        if not options.here:
            account += ["--hosts", "2x1", "--tflops", options.tflops, "--memory-rate", options.memory_rate]
        predicted = json.loads(subprocess.run([*account, "--format", "json"], check=True, capture_output=True).stdout)
        hosts = [] if options.here else [str(HOSTS), "--local-size", "1", "--rate", options.rate]
        run = [*hosts, options.program, "run", str(file), "--quiet", "--output", folder]
        runs = [steps_of(run, pathlib.Path(folder)) for _ in range(options.runs)]
    steps = [(each["label"], each["step_ms"], min(took)) for each, *took in zip(predicted, *runs)]
    print("| row | predicted ms | measured ms |\n|---|---|---|")
    for label, expected, took in sorted(steps, key=lambda step: step[1]):
        print(f"| {label} | {expected:.0f} | {took:.0f} |")
    pairs = [(a, b) for a, b in itertools.permutations(steps, 2) if a[1] > options.tie * b[1]]
    in_order = sum(a[2] > b[2] for a, b in pairs)
    print(f"\n{in_order} of {len(pairs)} pairs that are no ties are in the predicted order")
    return 0 if in_order == len(pairs) else 1


if __name__ == "__main__":
    sys.exit(main())
