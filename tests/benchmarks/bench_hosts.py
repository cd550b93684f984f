#!/usr/bin/env python3
"""Backends between hosts: gloo against hierarchical, 2 hosts x 2 ranks on this machine (tests/support/two_hosts.sh).

    tests/benchmarks/bench_hosts.py [--rounds 5] [--rates none,1gbit]

All-reduce of 1, 10 and 100 MB, and steps of the preset `tiny` in fp32; the sides take turns. Prints a table, and all
samples as JSON with --json FILE.
"""
import argparse
import json
import statistics
from pathlib import Path

import bench_sides as sides

BACKENDS = ("gloo", "hierarchical")
STRATEGIES = ("flat", {"name": "bucketed", "bucket_mb": 5})


def two_hosts(rate):
    limit = [] if rate == "none" else ["--rate", rate]
    return [str(sides.REPO / "tests/support/two_hosts.sh"), "--local-size", "2", *limit]


def all_reduce_round(rate):
    """(part, backend) -> milliseconds, medians of one run in which the backends take turns size by size."""
    sweep = {"collectives.bytes": [megabytes * 1_000_000 for megabytes in (1, 10, 100)], "world.backend": list(BACKENDS)}
    experiment = sides.collectives("all-reduce", {}, sweep, {"warmup": 1, "count": 101, "seconds": 4})
    experiment["collectives"]["memory"] = "group"
    medians, _, _ = sides.run_collectives(experiment, two_hosts(rate))
    return {(f"all-reduce of {megabytes} MB", backend): ms for (backend, _, megabytes), ms in medians.items()}


def step(rate, backend, strategy):
    """(part, backend) -> median milliseconds of a step, and of its exposed communication."""
    side = sides.Ddprun(("tiny", "fp32", 4), strategy, [("world", "backend", backend)])
    side.experiment["train"].update(warmup_steps=3, steps=10)
    result, _ = sides.run_experiment(side.experiment, two_hosts(rate))
    row = result["rows"][0]
    if row["proof"]["status"] != "passed" or not row["ranks"][0]["backend"].startswith(backend):
        raise sides.RunFailed(f"not proved, or not over {backend}: {row['proof']}")
    name = strategy if isinstance(strategy, str) else f"{strategy['name']}, {strategy['bucket_mb']} MB"
    return {(f"{what} of tiny, {name}", backend): row["statistics"][column]["median"]
            for what, column in (("step", "step_ms"), ("exposed communication", "exposed_ms"))}


def measure(rate, rounds):
    """(part, backend) -> one figure a round."""
    figures = {}
    for _ in range(rounds):
        found = all_reduce_round(rate)
        for strategy in STRATEGIES:
            for backend in BACKENDS:
                found.update(step(rate, backend, strategy))
        for key, ms in found.items():
            figures.setdefault(key, []).append(ms)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rates", default="none,1gbit")
    parser.add_argument("--json")
    args = parser.parse_args()
    everything = []
    print("| link | what | gloo ms | hierarchical ms | hierarchical / gloo |\n|---|---|---|---|---|")
    for rate in args.rates.split(","):
        figures = measure(rate, args.rounds)
        for part in dict.fromkeys(part for part, _ in figures):
            gloo, own = (figures[part, backend] for backend in BACKENDS)
            ratios = [b / a for a, b in zip(gloo, own)]
            print(f"| {rate} | {part} | {statistics.median(gloo):.3g} | {statistics.median(own):.3g} | "
                  f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}) |", flush=True)
            everything.append({"link": rate, "what": part, "gloo_ms": gloo, "hierarchical_ms": own})
    if args.json:
        Path(args.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
