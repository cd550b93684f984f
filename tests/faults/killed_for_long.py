#!/usr/bin/env python3
"""A long run that loses a rank every minute: which share of its time was useful (ETTR), and whether it ends as if nothing had happened.

    python3 tests/faults/killed_for_long.py --minutes 60 --every 60 --program build/release/bin/ddprun

A short run says how long a step takes, and so how many make up the minutes. `ddprun --max-restarts` runs them on two ranks; every so many
seconds one of them, drawn from the seed, gets SIGKILL. Then the same steps run undisturbed, unless --alone says that they need not, and the
last checkpoints must be equal, bit for bit. Exit status: 0 if the run ended, and equal; 1 if not.

`--plugins build/release/tests/plugins/slow --sleep-ms 300` has each step of the run that loses ranks sleep in backward, so that an hour of it
leaves the cores to others; the undisturbed run does not sleep.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fault_driver import MARK, REPO, ranks_of

EXPERIMENT = """
name: long
model: {{preset: tiny, vocab_size: 256, context_length: 128}}
data: {{source: random}}
world: {{size: 2, timeout_s: 10}}
strategy: {strategy}
precision: fp32
attention: flash
optimizer: {{name: adamw, lr: 0.001}}
"""


def command(args, folder, name, steps, save_every):
    train = (f"train={{batch_per_rank: 1, warmup_steps: 0, steps: {steps}, resume_from: latest, "
             f"checkpoint: {{every: {save_every}, keep: 2, async: true, path: {folder}/{name}}}}}")
    plugins = ["--plugin-path", args.plugins] if args.plugins else []
    return [args.program, str(folder / "long.yaml"), "--quiet", *plugins, "--output", str(folder / "results" / name), "--set", train]


def sleepy(args):
    """The environment in which the strategy `slow` sleeps."""
    return {**os.environ, "SLOW_EXTRA_MS": str(args.sleep_ms)}


def row_of(folder, name):
    return json.loads((folder / "results" / name / "long" / "latest" / "result.json").read_text())["rows"][0]


def step_seconds(args, folder):
    steps = 20 if args.sleep_ms else 300
    subprocess.run(command(args, folder, "first", steps, 1000), check=True, stdout=subprocess.DEVNULL, env=sleepy(args))
    return row_of(folder, "first")["statistics"]["step_ms"]["median"] / 1000


def run_killed(args, folder, steps, save_every):
    """Returns how many ranks were killed."""
    draw = random.Random(args.seed)
    kills = 0
    begun = [*command(args, folder, "killed", steps, save_every), "--max-restarts", "100000"]
    run = subprocess.Popen(begun, stdout=subprocess.DEVNULL, env=sleepy(args) | {MARK: str(folder)})
    while True:
        try:
            run.wait(args.every)
            break
        except subprocess.TimeoutExpired:
            ranks = ranks_of(run.pid, str(folder))
            if ranks:
                os.kill(draw.choice(ranks), signal.SIGKILL)
                kills += 1
    if run.returncode != 0:
        sys.exit(f"killed_for_long: the run ended with status {run.returncode}")
    return kills


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(REPO / "build/release/bin/ddprun"))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=60, help="seconds from one kill to the next")
    parser.add_argument("--save-s", type=float, default=1, help="seconds from one checkpoint to the next")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="without the undisturbed run")
    parser.add_argument("--plugins", help="the folder of the strategy slow, which then trains")
    parser.add_argument("--sleep-ms", type=float, default=0, help="of each step; with --plugins")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ddprun-long-") as name:
        folder = Path(name)
        (folder / "long.yaml").write_text(EXPERIMENT.format(strategy="slow" if args.plugins else "overlap"))
        step_s = step_seconds(args, folder)
        steps, save_every = int(args.minutes * 60 / step_s), max(1, int(args.save_s / step_s))
        print(f"{steps} steps of {step_s * 1000:.1f} ms, a checkpoint every {save_every}", flush=True)
        begin = time.monotonic()
        kills = run_killed(args, folder, steps, save_every)
        restarts = row_of(folder, "killed")["restarts"]
        print(f"{kills} kills in {(time.monotonic() - begin) / 60:.1f} minutes, {len(restarts['reasons'])} starts again, {restarts['steps_again']} "
              f"steps done twice, {restarts['all_s'] - restarts['useful_s']:.1f} s lost, "
              f"{(restarts['all_s'] - restarts['useful_s']) / max(1, kills):.2f} s a kill: ETTR {restarts['ettr']:.4f}", flush=True)
        if args.alone:
            return
        subprocess.run(command(args, folder, "quiet", steps, steps), check=True, stdout=subprocess.DEVNULL)
        equal = subprocess.run([args.program, "checkpoint", "diff", folder / "killed", folder / "quiet"], check=False).returncode == 0
        print("the last checkpoints are equal, bit for bit" if equal else "the last checkpoints differ")
        sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
