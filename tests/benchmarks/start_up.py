#!/usr/bin/env python3
"""How long runs take besides their steps: from the command to the end of the first step, a row, its checks, and a sweep of short rows.

    tests/benchmarks/start_up.py --program build/release/bin/ddprun [--beside OTHER/bin/ddprun] [--runs 9] [--case NAME...]

Two programs take turns, A B A B. Medians: seconds, and CPU seconds of the command with its ranks, which other programs disturb less.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from bench_sides import children_cpu_s

FILE = """
name: start_up
model: {{preset: tiny, vocab_size: {vocabulary}, context_length: 128}}
data: {{source: random}}
world: {{size: 2, backend: gloo}}
precision: fp32
attention: flash
optimizer: {{name: adamw, lr: 1e-3}}
train: {{global_batch: 8, warmup_steps: {warmup}, steps: {steps}}}
{rows}
"""
ONE = "strategy: flat"
# Small enough that nothing but starting and checking is left.
SWEEP = "strategy: flat\nsweep: {{optimizer.lr: [{rates}]}}"
CASES = {
    "first step, vocabulary 10000": {"vocabulary": 10000, "warmup": 0, "steps": 1, "rows": ONE},
    "first step, quickstart's size": {"vocabulary": 256, "warmup": 0, "steps": 1, "rows": ONE},
    "row of 20 steps, quickstart's size": {"vocabulary": 256, "warmup": 5, "steps": 20, "rows": ONE},
    "sweep of 20 rows, tiny steps": {"vocabulary": 64, "warmup": 0, "steps": 2, "rows": SWEEP.format(rates=", ".join(f"{i}e-5" for i in range(1, 21)))},
}
SMALL = ["--set", "model={vocab_size: 64, context_length: 16, d_model: 32, layers: 1, heads: 2, d_ff: 64}", "--set", "train.global_batch=2"]


def one_run(program, case, folder):
    """Figure -> its value."""
    file = folder / "start_up.yaml"
    file.write_text(FILE.format(**CASES[case]))
    small = SMALL if case.startswith("sweep") else []
    begin, cpu_begin = time.monotonic(), children_cpu_s()
    subprocess.run([program, "run", file, "--quiet", "--output", folder, *small], check=True, stdout=subprocess.DEVNULL)
    wall, cpu = time.monotonic() - begin, children_cpu_s() - cpu_begin
    rows = json.loads((folder / "start_up/latest/result.json").read_text())["rows"]
    steps = [sum(row["ranks"][0]["samples"]["step_ms"]) * 1e-3 for row in rows]
    checks = [max(rank["checks_s"] for rank in row["ranks"]) for row in rows]
    return {"command s": wall, "CPU s": cpu, "first step s": max(rank["first_step_done_s"] for rank in rows[0]["ranks"]),
            "checks s a row": statistics.median(checks), "steps s a row": statistics.median(steps),
            "s a row beside its steps": (wall - sum(steps)) / len(rows)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--beside", help="another build, which takes turns with the first")
    parser.add_argument("--runs", type=int, default=9, help="of each program and case")
    parser.add_argument("--case", nargs="*", choices=CASES, default=list(CASES))
    options = parser.parse_args()
    programs = [options.program] + ([options.beside] if options.beside else [])
    for case in options.case:
        figures = {program: [] for program in programs}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(options.runs):
                for program in programs:
                    figures[program].append(one_run(program, case, pathlib.Path(folder)))
        print(f"\n{case}\n\n| | {' | '.join(programs)} |\n|---|{'---|' * len(programs)}", flush=True)
        for figure in figures[programs[0]][0]:
            medians = [statistics.median(run[figure] for run in figures[program]) for program in programs]
            print(f"| {figure} | {' | '.join(f'{median:.3f}' for median in medians)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
