#!/usr/bin/env python3
"""How often a planted difference is found, and how often none is taken for one.

    tests/benchmarks/difference_trials.py --program build/release/bin/ddprun --plugins build/release/tests/plugins/slow [--trials 20]

Each trial is one table with three rows: a step, the same step again, and one whose strategy sleeps for --share of it in backward. Its rounds
go on until the interval of the difference is --until wide, or there are --rounds of them. The row that is the same must be within noise, the
planted one must be found and be slower. The step's length is measured first.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

EXPERIMENT = """
model: {{vocab_size: 2000, context_length: 64, d_model: 128, d_ff: 256, layers: 2, heads: 4}}
data: {{source: random}}
world: {{size: 2, backend: shm, threads_per_rank: 1}}
precision: fp32
attention: flash
strategy: slow
train: {{batch_per_rank: {batch}, warmup_steps: 3, steps: {steps}}}
report: {{repeats: {rounds}, until: {until}}}
sweep: {{strategy.sleep_ms: [{values}]}}
"""


def run(args, folder, values, rounds, until):
    file = Path(folder) / "trial.yaml"
    file.write_text(EXPERIMENT.format(batch=args.batch, steps=args.steps, rounds=rounds, until=until, values=", ".join(f"{value:.4f}" for value in values)))
    subprocess.run([args.program, file, "--quiet", "--plugin-path", args.plugins, "--output", folder], check=True, stdout=subprocess.DEVNULL)
    return json.loads((Path(folder) / "trial/latest/result.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--plugins", required=True)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=40, help="at most")
    parser.add_argument("--until", type=float, default=0.01, help="plus and minus, as a share")
    parser.add_argument("--share", type=float, default=0.02)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    found = alarms = 0
    with tempfile.TemporaryDirectory(prefix="ddprun-trials-") as folder:
        table = run(args, folder, [0], 1, 0)["table"]
        step_ms = table[0]["figures"]["step_ms"]
        planted = args.share * step_ms
        print(f"a step of {step_ms:.1f} ms; planted: {planted:.3f} ms")
        for trial in range(args.trials):
            result = run(args, folder, [0, planted], args.rounds, args.until)
            each = {finding["finding"]: finding for finding in result["findings"]}
            row, same = each["fastest"], each["calibration"]
            slower = row["ratio"] > 1
            found += row["p"] < 0.05 and slower
            alarms += same["p"] < 0.05
            smallest = same["smallest"]
            print(f"{trial}: planted {row['ratio']:.4f}, p {row['p']:.4f}; same {same['ratio']:.4f}, p {same['p']:.4f}; "
                  f"smallest {smallest if smallest is None else round(smallest, 4)}; {result['table'][1]['runs']} rounds", flush=True)
    print(f"planted {100 * args.share:.0f} %: found in {found} of {args.trials}; the same row twice: {alarms} of {args.trials} called different")


if __name__ == "__main__":
    main()
