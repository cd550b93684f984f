#!/usr/bin/env python3
"""What many ranks cost the program itself: seconds of each part of a run of 4 steps of next to nothing, and its memory.

    tests/benchmarks/many_ranks.py --program build/release/bin/ddprun [--beside OTHER/bin/ddprun] [--ranks 2 8 64] [--backend shm]

Two programs take turns, A B A B. Parts are told by what the command says with -vv; medians. Memory is the largest sum of all processes' PSS
in a run of its own, which is looked at for half of the time and so takes longer.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

FILE = pathlib.Path(__file__).parents[2] / "configs/scaling/many_ranks.yaml"
STEPS = 4
# The end of a part: what the command says then.
PARTS = {"plan": "starting", "rendezvous": "backend:", "model, values": "checks are drawn", "first proof, step": None, "steps, proofs, results, exits": "ms/step",
         "report": None}


def command(program, ranks, backend, folder):
    settings = {"world.size": ranks, "world.backend": backend, "train.warmup_steps": 0,
                "train.steps": STEPS}
    return [program, "run", FILE, "-vv", "--output", folder, *(word for item in settings.items() for word in ("--set", "=".join(map(str, item))))]


def pss_mb(pid):
    """PSS of the process and of its children, the parent first."""
    def own(each):
        try:
            lines = pathlib.Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            return 0
        return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("Pss:")), 0)
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        children = []
    return [own(each) for each in [pid, *children]]


def timed_run(*what):
    """Part -> seconds."""
    begin = time.monotonic()
    said = {}
    with subprocess.Popen(command(*what), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
        for line in run.stderr:
            for words in filter(None, PARTS.values()):
                if words in line:
                    said[words] = time.monotonic() - begin  # of all ranks, the last
    if run.returncode != 0:
        sys.exit(f"{what}: failed")
    end = time.monotonic() - begin
    row = json.loads((pathlib.Path(what[-1]) / "scaling-many-ranks/latest/result.json").read_text())["rows"][0]
    first_step = max(rank["first_step_done_s"] for rank in row["ranks"])
    ends = [said["starting"], said["backend:"], said["checks are drawn"], first_step, said["ms/step"], end]
    return dict(zip(PARTS, (after - before for before, after in zip([0, *ends], ends)))) | {"all": end}


def memory_of(*what):
    """MB: the sum at its largest, and then the parent and a rank, in the mean."""
    most = (0, 0, 0)
    with subprocess.Popen(command(*what), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as run:
        while run.poll() is None:
            begin = time.monotonic()
            parent, *ranks = pss_mb(run.pid)
            most = max(most, (parent + sum(ranks), parent, sum(ranks) / max(1, len(ranks))))
            time.sleep(max(0.01, time.monotonic() - begin))
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--beside", help="another build, which takes turns with the first")
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 8, 32, 64, 128, 256])
    parser.add_argument("--backend", default="shm")
    parser.add_argument("--runs", type=int, default=3, help="of each program and number of ranks")
    parser.add_argument("--no-memory", action="store_true", help="times alone")
    options = parser.parse_args()
    programs = [options.program] + ([options.beside] if options.beside else [])
    columns = [*PARTS, "all", "MB in all", "MB parent", "MB a rank"]
    print(f"{options.backend}, seconds\n\n| ranks | program | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}", flush=True)
    for ranks in options.ranks:
        with tempfile.TemporaryDirectory() as folder:
            runs = {program: [] for program in programs}
            for _ in range(options.runs):
                for program in programs:
                    runs[program].append(timed_run(program, ranks, options.backend, folder))
            for program in programs:
                seconds = [f"{statistics.median(run[part] for run in runs[program]):.2f}" for part in columns[:-3]]
                memory = [] if options.no_memory else [f"{mb:,.0f}" for mb in memory_of(program, ranks, options.backend, folder)]
                print(f"| {ranks} | {program} | {' | '.join(seconds + memory)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
