"""The floor of a step: the least time that its work takes at the rates this machine gives, measured in the same rounds."""
import json

import bench_sides as sides
from bench_report import QUANTITIES, make_row

ADAMW_BYTES = 28  # a parameter: gradient, parameter, two moments read; the last three written
GRADIENT_BYTES = 4


class Roofline(sides.Side):
    """Measures rates beside the sides: products of the model's own shapes and large ones, memory; on as many cores as ranks."""

    label = "roofline"

    def __init__(self, cell):
        self.cell = cell

    def run(self, warmup, steps):
        model, precision, ranks = self.cell
        section = json.dumps(sides.model_section(model))
        batch = sides.size_of(model)["batch"]
        command = [str(sides.BIN / "roofline_benchmark"), section, str(batch), precision, str(ranks)]
        out, others = sides.execute(command, {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
        return {**json.loads(out), "other_cpus": others}


def flops(model, batch):
    """Operations of one rank's step in linear layers, and in attention: docs/results.md has the formulas."""
    d, layers, context = model["d_model"], model["layers"], model["context_length"]
    matrices = layers * (4 * d * d + 3 * d * model["d_ff"]) + d * model["vocab_size"]
    tokens = batch * context
    return 6 * matrices * tokens, 6 * layers * d * context * tokens


def floor(run, core, ranks, at_peak):
    """The parts of a step's floor by the rates of one core, in milliseconds, and the rate of its products in GFLOP/s."""
    linear, attention = flops(run["model"], run["batch"])
    rate = linear * 1e-6 / core["linears_ms"]
    if at_peak:
        rate = max(rate, core["peak_gflops"])
    parameters = run["model"]["parameters"]
    travels = 2 * GRADIENT_BYTES * parameters if ranks > 1 else 0  # in place: each rank reads as much as it writes
    return {"products": (linear + attention) * 1e-6 / rate,
            "AdamW": ADAMW_BYTES * parameters * 1e-6 / core["streams_gb_s"],
            "all-reduce": travels * 1e-6 / core["copy_gb_s"],
            "rate": rate}


def total(parts):
    return parts["products"] + parts["AdamW"] + parts["all-reduce"]


def slowest(run, ranks, at_peak):
    """The floor by the core that makes it longest: a step is as slow as its slowest rank."""
    return max((floor(run, core, ranks, at_peak) for core in run["cores"]), key=total)


def in_words(parts):
    return (f"floor {total(parts):.0f} ms: products {parts['products']:.0f} at {parts['rate']:.0f} GFLOP/s, "
            f"AdamW {parts['AdamW']:.1f}, all-reduce {parts['all-reduce']:.1f}")


def roofline_rows(case, ours, theirs, rooflines):
    """How many times its floor a step takes, by the rate of the model's own shapes and by that of large matrices. Rounds of
    runs of each, in turn; each round's steps are held against its own floor."""
    step = QUANTITIES["step"][1]
    rows = []
    for variant, at_peak in (("own shapes", False), ("large matrices", True)):
        floors = [slowest(run, case["ranks"], at_peak) for run in rooflines]
        multiples = [[[ms / total(parts) for ms in step(run)] for run, parts in zip(runs, floors)] for runs in (ours, theirs)]
        middle = sorted(floors, key=total)[len(floors) // 2]
        rows.append(make_row("step over its floor", {**case, "variant": variant}, "times", *multiples, (in_words(middle), "")))
    return rows
