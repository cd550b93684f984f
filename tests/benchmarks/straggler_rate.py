#!/usr/bin/env python3
"""How often a run names the rank that is slow, and how often it names one where nobody planted any.

    tests/benchmarks/straggler_rate.py --program build/release/bin/ddprun [--runs 20] [--keep FOLDER]

Two ranks on two cores. Planted runs have a loop on one of these cores, now on rank 0's, now on rank 1's; quiet runs, which take turns with
them, have none. A planted run is right if its sentence names that rank, and the phase in which it lost most. Prints a line for each run and the counts, apart from
those of runs in which another program took 5 % and more of a core from a rank that was to have it alone. Goes on until there are --runs of
each sort without others, five times as many at most.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

FILE = """
model: {preset: tiny, layers: 2}
data: {source: random}
world: {size: 2}
strategy: overlap
precision: fp32
attention: flash
optimizer: {name: adamw, lr: 1e-3}
train: {batch_per_rank: 4, warmup_steps: 3, steps: 20}
"""
LOOP = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
BUSY = 0.05  # of a core: the program calls such a run busy


def run(program, folder, name, core=None):
    """The only row of a run beside a loop on that core, and what the run said of a slow rank: None, or its numbers."""
    file = pathlib.Path(folder) / f"{name}.yaml"
    file.write_text(FILE)
    loop = None if core is None else subprocess.Popen([sys.executable, "-c", LOOP, str(core)])
    try:
        subprocess.run([program, "run", str(file), "--quiet", "--output", folder], check=True, stdout=subprocess.DEVNULL)
    finally:
        if loop:
            loop.kill()
            loop.wait()
    result = json.loads((pathlib.Path(folder) / name / "latest/result.json").read_text())
    named = [each for each in result["findings"] if each.get("finding") == "slow_rank"]
    return result["rows"][0], named[0] if named else None


def taken(rank):
    """Of its core, what others had."""
    load = rank["load"]
    return sum(core["busy_s"] + core["stolen_s"] for core in load["cores"]) / load["wall_s"] - load["own_s"] / load["wall_s"]


def slowest_phase(row, rank):
    """In which the rank was behind the other one the most, in all measured steps."""
    own, other = row["ranks"][rank]["samples"], row["ranks"][1 - rank]["samples"]
    behind = {phase: sum(a - b for a, b, warmup in zip(own[f"{phase}_ms"], other[f"{phase}_ms"], own["warmup"]) if not warmup)
              for phase in ("forward", "backward", "optimizer")}
    return max(behind, key=behind.get)


class Count:
    """Of one sort of runs, which are right if they name what was planted."""

    def __init__(self, sort):
        self.sort, self.alone, self.shared = sort, [], []

    def add(self, right, row, planted=None):
        busy = max(taken(rank) for number, rank in enumerate(row["ranks"]) if number != planted)
        (self.shared if busy >= BUSY else self.alone).append(right)
        return f"{busy:.2f} of a core with others"

    def __str__(self):
        return (f"{self.sort}: {sum(self.alone)} of {len(self.alone)} right, and {sum(self.shared)} of {len(self.shared)} where other "
                "programs had a core too")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--runs", type=int, default=20, help="of each sort")
    parser.add_argument("--keep", help="folder for the results; default: a temporary one")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no loop is left
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        parser.error("two ranks need two cores")
    planted, quiet = Count("planted, rank and phase named"), Count("quiet, nobody named")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        for i in range(5 * options.runs):
            if len(planted.alone) < options.runs:
                rank = i % 2
                row, named = run(options.program, folder, f"planted_{i:02}", cores[len(cores) * rank // 2])
                right = named is not None and (named["rank"], named["phase"]) == (rank, slowest_phase(row, rank))
                shared = planted.add(right, row, rank)
                print(f"planted {i + 1}, rank {rank}, {shared}: {named['text'] if named else 'nobody named'}", flush=True)
            if len(quiet.alone) < options.runs:
                row, named = run(options.program, folder, f"quiet_{i:02}")
                shared = quiet.add(named is None, row)
                print(f"quiet {i + 1}, {shared}: {named['text'] if named else 'nobody named'}", flush=True)
    print(f"\n{planted}\n{quiet}")
    return 0 if all(planted.alone + quiet.alone) else 1


if __name__ == "__main__":
    sys.exit(main())
