#!/usr/bin/env python3
"""What a checkpoint costs, beside the disk and beside PyTorch's distributed checkpoint (DCP), and what reading it costs.

    tests/benchmarks/checkpoint_speed.py --program build/release/bin/ddprun [--runs 5] [--folder DIR] [--python PYTHON]

Rounds in which the sides take turns: dd writes as many bytes and syncs them (conv=fsync), ddprun saves the state of laptop-70m (parameters
and AdamW's moments, 2 ranks, --strategy), and, where --python has torch, DCP saves tensors of the same sizes on 2 gloo ranks. Then each reads,
from the page cache: `dd` to nothing, `ddprun checkpoint verify`, a run that goes on, DCP's load; these two in new processes, and moments into new
memory. Just before, other memory of that size is used and given back: a virtual machine whose host takes what is free (free page reporting)
measures its host otherwise. Medians, and ratios of medians.
"""
import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from peer.host_memory import warm

REPO = pathlib.Path(__file__).resolve().parents[2]
FILE = """
model: {{preset: laptop-70m, context_length: 64}}
data: {{source: random}}
world: {{size: 2, memory_check: false}}
strategy: {strategy}
precision: fp32
attention: flash
optimizer: {{name: adamw, lr: 1e-4}}
train: {{batch_per_rank: 1, warmup_steps: 0, steps: {steps}, checkpoint: {{every: {steps}, path: {path}}}}}
"""


def timed(command):
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def save(program, folder, strategy, beside=False):
    """The last save of each rank that trained on after it; `beside`: written beside training, and the second one, which has its memory."""
    file = folder / "speed.yaml"
    file.write_text(FILE.format(strategy=strategy, path=folder / "saved", steps=2))
    sets = ["--set", "train.checkpoint.async=true", "--set", "train.steps=9", "--set", "train.checkpoint.every=4"] if beside else []
    subprocess.run([program, file, "--quiet", "--output", folder, *sets], check=True, stdout=subprocess.DEVNULL)
    row = json.loads((folder / "speed/latest/result.json").read_text())["rows"][0]
    saved = [rank["checkpoints"][1 if beside else 0] for rank in row["ranks"]]
    if any(each["failure"] for each in saved):
        sys.exit(f"checkpoint_speed: not saved: {saved[0]['failure']}")
    return {key: max(each[key] for each in saved) for key in ("seconds", "stall_seconds", "bytes")}


def load(program, folder, size):
    """Seconds in which a run that goes on from the checkpoint reads it, checks it, and makes the memory of the moments; of rank 0."""
    sets = ["--set", "train.steps=3", "--set", "train.checkpoint.every=0", "--set", f"train.resume_from={folder / 'saved'}"]
    warm(4 * size)
    subprocess.run([program, folder / "speed.yaml", "--quiet", "--output", folder, *sets], check=True, stdout=subprocess.DEVNULL)
    checks = json.loads((folder / "speed/latest/result.json").read_text())["rows"][0]["proof"]["checks"]
    detail = next(check["detail"] for check in checks if check["name"] == "resumed")
    return float(re.search(r" in ([0-9.]+) s", detail)[1])


def dcp(python, folder, bytes_of_all):
    """Seconds of a save and of a load by the peer, of the slower rank."""
    script = REPO / "tests/benchmarks/peer/pytorch_checkpoint.py"
    out = subprocess.run([python, script, "--folder", folder / "dcp", "--bytes", str(bytes_of_all)], check=True, capture_output=True, text=True)
    return json.loads(out.stdout.splitlines()[-1])


def one_round(args, folder, sides):
    """Returns the bytes of a checkpoint."""
    written = folder / "dd"
    saved = save(args.program, folder, args.strategy)
    size = saved["bytes"]
    sides.setdefault("ddprun save", []).append(saved["seconds"])
    sides.setdefault("dd write", []).append(timed(["dd", "if=/dev/zero", f"of={written}", "bs=4M", f"count={size // (4 << 20) + 1}", "conv=fsync"]))
    sides.setdefault("ddprun verify", []).append(timed([args.program, "checkpoint", "verify", folder / "saved"]))
    sides.setdefault("ddprun load", []).append(load(args.program, folder, size))
    sides.setdefault("dd read", []).append(timed(["dd", f"if={written}", "of=/dev/null", "bs=4M"]))
    if args.python:
        peer = dcp(args.python, folder, size)
        sides.setdefault("DCP save", []).append(peer["save_s"])
        sides.setdefault("DCP load", []).append(peer["load_s"])
        sides.setdefault("one copy", []).append(peer["copy_s"])
        sides.setdefault("DCP async: stall", []).append(peer["async_stall_s"])
    shutil.rmtree(folder / "saved")
    sides.setdefault("ddprun async: stall", []).append(save(args.program, folder, args.strategy, beside=True)["stall_seconds"])
    for name in ("saved", "dcp", "speed"):
        shutil.rmtree(folder / name, ignore_errors=True)
    written.unlink()
    return size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(REPO / "build/release/bin/ddprun"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="on the disk that is measured (default: the system's temporary folder)")
    parser.add_argument("--strategy", default="flat")
    parser.add_argument("--python", help="one that has torch: DCP saves too")
    args = parser.parse_args()
    sides = {}
    with tempfile.TemporaryDirectory(prefix="ddprun-speed-", dir=args.folder) as folder:
        for _ in range(args.runs):
            size = one_round(args, pathlib.Path(folder), sides)
    print(f"{size / 1e6:.0f} MB, {args.strategy}, medians of {args.runs}")
    print("| side | s | MB/s | all |\n|---|---|---|---|")
    for name, seconds in sides.items():
        median = statistics.median(seconds)
        print(f"| {name} | {median:.2f} | {size / 1e6 / median:.0f} | {', '.join(f'{each:.2f}' for each in seconds)} |")
    median = {name: statistics.median(seconds) for name, seconds in sides.items()}
    print(f"save: {median['dd write'] / median['ddprun save']:.2f} of the rate of dd")
    if args.python:
        print(f"save: {median['ddprun save'] / median['DCP save']:.2f} of DCP's time")
        print(f"load: {median['ddprun load'] / median['DCP load']:.2f} of DCP's time")
        print(f"async: training stands {median['ddprun async: stall'] / median['one copy']:.2f} of one copy, "
              f"{median['ddprun async: stall'] / median['DCP async: stall']:.2f} of DCP's async_save")


if __name__ == "__main__":
    main()
