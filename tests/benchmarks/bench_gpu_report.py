"""Goals, model FLOPs utilization, rows and table of `make bench-gpu`: pure functions, tested by bench_gpu_test.py."""
import statistics
from typing import NamedTuple

import bench_report
from bench_report import figure, ratio, step_values
from bench_roofline import flops

# Dense bf16 products with float32 sums, 10^12 operations a second, from NVIDIA's data sheets (which print them with sparsity,
# twice as many); by the beginning of the device's name, longer ones first.
PEAK_TFLOPS = {
    "NVIDIA H100 PCIe": 756.5,
    "NVIDIA H100 NVL": 835.5,
    "NVIDIA H100": 989.4,  # SXM: "NVIDIA H100 80GB HBM3"
    "NVIDIA H200 NVL": 835.5,
    "NVIDIA H200": 989.4,
    "NVIDIA GH200": 989.4,
    "NVIDIA B200": 2250.0,
    "NVIDIA A100": 312.0,
    "NVIDIA L40S": 362.0,
}


class Goal(NamedTuple):
    of: str  # "ratio" or "ddprun": what is held against it
    least: bool  # at least or at most
    value: float

    def met_by(self, quantity):
        return quantity >= self.value if self.least else quantity <= self.value

    def __str__(self):
        return f"{'ddprun ' if self.of == 'ddprun' else ''}{'≥' if self.least else '≤'} {self.value:g}"


STEP_MODELS = ("small", "medium", "large", "xl-2025")
MFU_MODELS = ("xl-2025", "2.7B-2025")
COPY_GOAL_MB = 1000


def goal_of(what, case):
    """None where nothing is set. case: model, context, precision, ranks, variant."""
    model, variant = case["model"], case["variant"]
    if (what, variant, case["precision"]) == ("step", "compiled", "bf16") and model in STEP_MODELS:
        return Goal("ratio", False, 0.95)
    if what == "MFU" and model in MFU_MODELS:
        return Goal("ddprun", True, 50)
    if what == "host overhead":
        return Goal("ratio", False, {"eager": 0.5, "cuda_graph": 0.25}[variant])
    if what == "AdamW against copy" and model == f"{COPY_GOAL_MB} MB":
        return Goal("ratio", True, 0.85)
    return None


def peak_tflops(gpu):
    """None: MFU is not told of a device whose peak is not known."""
    names = sorted((name for name in PEAK_TFLOPS if gpu.startswith(name)), key=len)
    return PEAK_TFLOPS[names[-1]] if names else None


def mfu_percent(size, batch, step_ms, peak):
    """100 x the operations of one rank's step (6 P N + 6 L d T N, docs/results.md) / what its GPU could do meanwhile at its peak.
    size: as in peer/sizes.py, with the cell's context."""
    model = {"d_model": size["d_model"], "layers": size["layers"], "context_length": size["context"], "d_ff": size["d_ff"],
             "vocab_size": size["vocab"]}
    return 100 * sum(flops(model, batch)) * 1e-12 / (step_ms * 1e-3 * peak)


def peak_mb(run):
    """Of tensors on the GPU of the rank that has most, in the measured steps; either side's run."""
    return [max(rank.get("device_memory", rank)["peak_allocated_bytes"] for rank in run["ranks"]) / 1e6]


def host_overhead(run, busy_ms):
    """Each step's time beyond what the GPU needs for it."""
    return [ms - busy_ms for ms in step_values(run)]


def busy_of(run):
    """The median of what PyTorch's steps take on the GPU alone; None: it was not measured."""
    busy = run["ranks"][0].get("busy_ms")
    return statistics.median(busy) if busy else None


def make_row(what, case, unit, ours, theirs, choices):
    """ours, theirs: rounds of values; theirs may be a text instead, why there are none."""
    failed = theirs if isinstance(theirs, str) else ""
    ours, theirs = figure(ours), None if failed else figure(theirs)
    quotient = ratio(ours, theirs) if theirs else None
    goal = goal_of(what, case)
    held = (quotient and quotient["median"]) if goal and goal.of == "ratio" else ours["median"]
    met = None if goal is None or held is None else goal.met_by(held)
    return {"what": what, **case, "unit": unit, "ddprun": ours, "peer": theirs, "peer_failed": failed, "ratio": quotient,
            "goal": str(goal) if goal else None, "met": met, "ddprun_choice": choices[0], "peer_choice": choices[1]}


def why(failure):
    """A failed run in a few words."""
    if "out of memory" in failure or "OutOfMemoryError" in failure:
        return "out of memory"
    return failure


def table(rows):
    return bench_report.table(rows, ("model", "context", "precision", "ranks", "variant"), str)
