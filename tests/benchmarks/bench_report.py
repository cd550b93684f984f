"""Statistics of `make bench`, its goals, and its table: pure functions, tested by bench_test.py."""
import math
import statistics
from pathlib import Path

# Ratio ddprun / PyTorch that each row is held against; what is not listed has no goal.
# Key: (what, precision, ranks, variant).
GOALS = {
    ("step", "fp32", 2, "as run"): 0.70,
    ("step", "fp32", 2, "tuned"): 0.75,
    ("step", "bf16", 2, "as run"): 0.35,
    ("step", "bf16", 2, "tuned"): 0.45,
    ("step", "fp32", 1, "as run"): 0.85,
    ("step", "bf16", 1, "as run"): 0.50,
    ("exposed communication", "fp32", 2, "as run"): 0.15,
    ("optimizer", "fp32", 1, "as run"): 0.85,
    ("peak memory of all ranks", "fp32", 2, "as run"): 0.64,
    ("peak memory of all ranks", "bf16", 2, "as run"): 0.64,
    ("step", "fp32", 2, "fsdp / FSDP2"): 0.50,
    ("step", "fp32", 2, "fsdp / zero1"): 1.10,
    ("step", "bf16", 2, "fsdp / zero1"): 1.10,
    ("step", "fp32", 2, "zero1 / bucketed"): 1.00,
    ("step", "bf16", 2, "zero1 / bucketed"): 0.95,
    ("launch to first step", "fp32", 2, "as run"): 0.20,
    ("AdamW pass", "fp32", 1, "as each program holds them"): 0.85,
    ("all-reduce, shm against gloo", "fp32", 2, "as run"): 0.25,
    ("all-reduce, shm against Open MPI", "fp32", 2, "as run"): 0.60,
    ("all-reduce, shm against the copy limit", "fp32", 2, "as run"): 1.25,  # 0.8 of the limit
}
# What only some instructions make possible, by class of CPU. The fastest PyTorch is the one to beat. Against the floor it is
# ddprun's step alone.
CLASS_GOALS = {
    "AMX": {
        ("step", "fp32", 2, "fastest"): 0.72,
        ("step", "fp32", 1, "fastest"): 0.85,
        ("step", "bf16", 2, "fastest"): 0.42,
        ("step", "bf16", 1, "fastest"): 0.45,
        ("step over its floor", "fp32", 2, "large matrices"): 1.10,
        ("step over its floor", "bf16", 2, "large matrices"): 1.35,
    },
    "AVX-512 with bf16": {
        ("step", "fp32", 2, "tuned"): 0.80,
        ("step", "bf16", 2, "as run"): 0.75,
        ("step", "bf16", 2, "tuned"): 0.75,
        ("step", "bf16", 1, "as run"): 0.75,
        ("step", "fp32", 2, "fastest"): 0.76,
        ("step", "fp32", 1, "fastest"): 0.85,
        ("step", "bf16", 2, "fastest"): 0.72,
        ("step", "bf16", 1, "fastest"): 0.77,
        ("step over its floor", "fp32", 2, "large matrices"): 1.08,
        ("step over its floor", "bf16", 2, "large matrices"): 1.15,
    },
    "AVX2": {
        ("step", "fp32", 2, "tuned"): 0.80,
        ("step", "fp32", 2, "fastest"): 0.80,
        ("step", "fp32", 1, "fastest"): 0.88,
        ("step over its floor", "fp32", 2, "large matrices"): 1.10,
    },
}
# Compiled, PyTorch is held against the same as run.
for goals in (GOALS, *CLASS_GOALS.values()):
    goals.update({(what, precision, ranks, "compiled"): goal for (what, precision, ranks, variant), goal in list(goals.items())
                  if (what, variant) == ("step", "as run")})


def class_of(flags):
    """The class of a CPU by its flags, as /proc/cpuinfo has them."""
    if "amx_bf16" in flags:
        return "AMX"
    return "AVX-512 with bf16" if "avx512_bf16" in flags else "AVX-512" if "avx512f" in flags else "AVX2"


def goals_of(cpu_class):
    """Key as in GOALS -> ratio."""
    return {**GOALS, **CLASS_GOALS.get(cpu_class, {})}


CPU_CLASS = class_of(Path("/proc/cpuinfo").read_text().split())
GOALS_HERE = goals_of(CPU_CLASS)
OVERLAPPING = ("overlap", "bucketed", "zero1")  # strategies of either side: what exposed communication is compared of


def over_ranks(run, column, combine):
    """One value a measured step: `combine` over the ranks' samples of that step."""
    ranks = [[sample[column] for sample in rank["samples"] if not sample["warmup"]] for rank in run["ranks"]]
    return [combine(step) for step in zip(*ranks)]


def waiting_for_others(run):
    """The mean over ranks of what each waited, less the least: a rank that waited longer waited for another to compute."""
    return over_ranks(run, "synchronize_ms", lambda waited: statistics.fmean(waited) - min(waited))


def step_values(run):
    return over_ranks(run, "step_ms", max)  # a step is as slow as its slowest rank


def own_peak_bytes(rank):
    """The peak of what was resident, without what counts for others: of a page that n processes share it has 1/n."""
    return rank["peak_resident_bytes"] - rank["shared_resident_bytes"]


# What is taken from a run: unit, and the run's list of values.
QUANTITIES = {
    "step": ("ms", step_values),
    # The last rank to finish computing waits for communication alone, and least of all (docs/measurement.md).
    "exposed communication": ("ms", lambda run: over_ranks(run, "synchronize_ms", min)),
    "skew": ("ms", waiting_for_others),
    "forward": ("ms", lambda run: over_ranks(run, "forward_ms", statistics.fmean)),
    "forward + backward": ("ms", lambda run: [sum(step) for step in zip(over_ranks(run, "forward_ms", statistics.fmean),
                                                                        over_ranks(run, "backward_ms", statistics.fmean))]),
    "optimizer": ("ms", lambda run: over_ranks(run, "optimizer_ms", statistics.fmean)),
    "peak memory of all ranks": ("MB", lambda run: [sum(map(own_peak_bytes, run["ranks"])) / 1e6]),
    "launch to first step": ("s", lambda run: [max(rank["first_step_done_s"] for rank in run["ranks"])]),
}


def figure(rounds):
    """Rounds of values -> the median of all values, and the lowest and highest median of a round."""
    medians = [statistics.median(values) for values in rounds]
    return {
        "median": statistics.median(value for values in rounds for value in values),
        "low": min(medians),
        "high": max(medians),
        "round_medians": medians,
    }


def ratio(ours, theirs):
    """Figures of two sides whose rounds alternated -> the median ratio of a round, and the extremes. None: theirs is 0."""
    if min(theirs["round_medians"]) <= 0.0:
        return None
    ratios = [a / b for a, b in zip(ours["round_medians"], theirs["round_medians"])]
    return {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}


def best(candidates):
    """Name of the candidate with the lowest median; candidates: name -> rounds of values."""
    return min(candidates, key=lambda name: figure(candidates[name])["median"])


def survivors(candidates):
    """The names that a search goes on with: the faster third, and the fastest that overlaps. candidates: as best()."""
    ordered = sorted(candidates, key=lambda name: figure(candidates[name])["median"])
    kept = ordered[:math.ceil(len(ordered) / 3)]
    overlapping = [name for name in ordered if name.split()[0] in OVERLAPPING]
    return kept + [name for name in overlapping[:1] if name not in kept]


def make_row(what, case, unit, ours, theirs, choices=("", "")):
    """A row of the report. case: model, precision, ranks, variant; ours and theirs: rounds of values."""
    ours, theirs = figure(ours), figure(theirs)
    goal = GOALS_HERE.get((what, case["precision"], case["ranks"], case["variant"]))
    quotient = ratio(ours, theirs)
    measured = ours if what == "step over its floor" else quotient
    met = None if goal is None or measured is None else measured["median"] <= goal
    return {"what": what, **case, "unit": unit, "ddprun": ours, "peer": theirs, "ratio": quotient, "goal": goal, "met": met,
            "ddprun_choice": choices[0], "peer_choice": choices[1]}


def number(value):
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def spread(item):
    return f"{number(item['median'])} ({number(item['low'])}–{number(item['high'])})"


def in_a_cell(text):
    return text.replace("|", "/").replace("\n", " ")


def table(rows, of_a_case=("model", "precision", "ranks", "variant"), goal_in_words="≤ {:.2f}".format):
    """Markdown; a row that failed says why in place of figures, and so does the other side's figure (peer_failed)."""
    columns = ("what", *of_a_case, "unit", "ddprun", "the other", "ratio", "goal", "met", "ddprun is", "the other is")
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [row["what"], *(row[key] for key in of_a_case)]
        if "failed" in row:
            cells += ["", "failed: " + in_a_cell(row["failed"])] + [""] * 6
        else:
            theirs = spread(row["peer"]) if row["peer"] else in_a_cell(row["peer_failed"])
            quotient = "–" if row["ratio"] is None else "{median:.2f} ({low:.2f}–{high:.2f})".format(**row["ratio"])
            goal = "–" if row["goal"] is None else goal_in_words(row["goal"])
            met = {None: "–", True: "yes", False: "**no**"}[row["met"]]
            cells += [row["unit"], spread(row["ddprun"]), theirs, quotient, goal, met, row["ddprun_choice"], row["peer_choice"]]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)
