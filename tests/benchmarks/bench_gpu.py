#!/usr/bin/env python3
"""`make bench-gpu`: ddprun on GPUs against PyTorch in Python, eager and compiled, on this machine, in one run.

    make bench-gpu                          what fits in nine and a half minutes, the most telling first
    make bench-gpu ARGS=--quick             one round, fewer models, in four
    make bench-gpu ARGS='--models xl-2025 --contexts 512,1024 --minutes 0'
    make bench-gpu ARGS='--ranks 8'         one GPU a rank, NCCL on both sides
    make bench-gpu ARGS='--rehearse'        try the program itself where there is no GPU; its figures mean nothing

The sides run in turn, A B A B, each in a process of its own. Every sample goes to results/bench_gpu/<time>/bench_gpu.json, the
table to stdout and to bench_gpu.md beside it. No network. docs/gpu.md explains what is compared.
"""
import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import bench_gpu_report as report
import bench_gpu_sides as gpu_sides
import bench_sides as sides
from bench import describe_machine, guarded
from bench_gpu_sides import BATCH, Cell, GpuDdprun, GpuPeer
from bench_report import best, step_values
from peer.sizes import SIZES

PARTS = ("memory", "overhead", "step")
# Of one run: warm-up, measured. A second or so of each, so that clocks have risen; compiling is in the first step.
STEPS = {"tiny": (100, 300), "small": (40, 60), "medium": (20, 40), "large": (15, 25), "xl-2025": (10, 20), "2.7B-2025": (6, 12)}
REHEARSED_STEPS = (1, 2)
# Seconds of a round of a cell, and of compiling once besides: guesses, not measured, that the time already taken corrects.
ROUND_S = {"tiny": 12, "small": 25, "medium": 30, "large": 40, "xl-2025": 60, "2.7B-2025": 60}
COMPILE_S = {"tiny": 0, "small": 20, "medium": 35, "large": 50, "xl-2025": 65, "2.7B-2025": 45}
# Model and context, the most telling first; what no longer fits in the time is left out.
CELLS = (("small", 512), ("xl-2025", 512), ("medium", 512), ("large", 512), ("small", 1024), ("small", 128), ("2.7B-2025", 512),
         ("xl-2025", 1024), ("xl-2025", 128))
QUICK_CELLS = (("small", 512), ("xl-2025", 512))
MODES = ("eager", "cuda_graph")
WAYS = (*MODES, "eager reference", "cuda_graph reference")  # the latter by PyTorch's operators one by one


def say(text):
    print(f"bench-gpu: {text}", file=sys.stderr, flush=True)


def case_of(cell, variant=""):
    return {**cell._asdict(), "variant": variant}


class Budget:
    """Time that is left. If guesses were too low so far, the next is taken to be as low; a minute's worth of them is not enough to
    tell."""

    def __init__(self, minutes, clock=time.monotonic):
        self.limit_s = minutes * 60 if minutes else float("inf")
        self.clock, self.begin, self.guessed = clock, clock(), 0.0

    def spent(self):
        return self.clock() - self.begin

    def allows(self, guess_s):
        pace = max(1.0, (self.spent() + 60) / (self.guessed + 60))
        if self.spent() + pace * guess_s > self.limit_s:
            return False
        self.guessed += guess_s
        return True


def guess_s(cell, rounds, compiled):
    return rounds * ROUND_S[cell.model] + (COMPILE_S[cell.model] if compiled else 0)


def alternate(competitors, rounds, steps, runs, drop=lambda results: None):
    """Runs each side once a round, in turn. Returns name -> its runs, and name -> why one of its runs failed; a side that failed
    does not run again. After each round drop(results) may name sides that need not run again either."""
    results, failures = {name: [] for name in competitors}, {}
    for index in range(rounds):
        for name, side in competitors.items():
            if name not in results or name in failures:
                continue
            try:
                run = side.run(*steps)
            except sides.RunFailed as failure:
                failures[name] = str(failure)
                say(f"    {name}: {report.why(str(failure))}")
                continue
            results[name].append(run)
            runs.append({"side": name, "configuration": side.label, "round": index, **run})
            say(f"    {name}: {statistics.median(step_values(run)):.2f} ms")
        for name in drop(results) or ():
            del results[name]
    return {name: found for name, found in results.items() if found and name not in failures}, failures


def own_sides(cell, args, ways=MODES):
    """ddprun's ways to give a GPU its work that this ddprun accepts, and why it does not accept the others."""
    found, refused = {}, {}
    for mode in ["eager"] if args.rehearse else ways:
        side = GpuDdprun(cell, mode, args.device)
        refusal = side.refusal()
        if refusal:
            refused[mode] = refusal.splitlines()[0]
        else:
            found[f"ddprun {mode}"] = side
    return found, refused


def slower_modes(results):
    """Of ddprun's ways, all but the fastest: only that one goes on."""
    own = {name: [step_values(run) for run in found] for name, found in results.items() if name.startswith("ddprun") and found}
    return [name for name in own if name != best(own)]


# ---------------------------------------------------------------- steps


def step_rows(cell, args, runs):
    """The step beside PyTorch's, eager and compiled, its MFU, and memory."""
    competitors, refused = own_sides(cell, args, WAYS)
    if not competitors:
        raise sides.RunFailed(refused["eager"])
    competitors["PyTorch"] = GpuPeer(cell, args.python, "eager", device=args.device)
    if not args.no_compile:
        competitors["PyTorch compiled"] = GpuPeer(cell, args.python, "compiled", sides.PEER_COMPILED, args.device)
    say(f"{cell.model}, context {cell.context}, {cell.precision}, {cell.ranks} rank(s): {args.rounds} round(s)")
    results, failures = alternate(competitors, args.rounds, args.steps(cell.model), runs, slower_modes)
    own = [name for name in results if name.startswith("ddprun")]
    if not own:
        raise sides.RunFailed("; ".join(report.why(failures[name]) for name in failures if name.startswith("ddprun")))
    ours = own[0]  # slower_modes() left one

    def row(what, variant, unit, values, theirs):
        other = [values(run) for run in results[theirs]] if theirs in results else report.why(failures[theirs])
        return report.make_row(what, case_of(cell, variant), unit, [values(run) for run in results[ours]], other,
                               (competitors[ours].label, competitors[theirs].label))

    peers = [name for name in competitors if name.startswith("PyTorch")]
    rows = [row("step", "compiled" if "compiled" in name else "eager", "ms", step_values, name) for name in peers]
    measured = {name: [step_values(run) for run in results[name]] for name in peers if name in results}
    fastest = best(measured) if measured else peers[0]
    if args.peak and cell.precision == "bf16":
        size = {**SIZES[cell.model], "context": cell.context}
        rows.append(row("MFU", "", "%", lambda run: [report.mfu_percent(size, BATCH, ms, args.peak) for ms in step_values(run)], fastest))
    if args.device == "cuda":
        rows.append(row("peak memory of a GPU", "", "MB", report.peak_mb, fastest))
    return rows


# ---------------------------------------------------------------- the host's share


def overhead_rows(cell, args, runs):
    """Where the host is the limit: what a step takes beyond what the GPU needs for it, beside PyTorch's eager."""
    competitors, refused = own_sides(cell, args)
    competitors["PyTorch"] = GpuPeer(cell, args.python, "eager", ["--busy"] if args.device == "cuda" else [], args.device)
    say(f"{cell.model}, context {cell.context}, {cell.precision}: the host's share, {args.rounds} round(s)")
    results, failures = alternate(competitors, args.rounds, args.steps(cell.model), runs)
    failures.update({f"ddprun {mode}": refusal for mode, refusal in refused.items()})
    if "PyTorch" not in results:
        raise sides.RunFailed(report.why(failures["PyTorch"]))
    theirs = results["PyTorch"]
    busy = [report.busy_of(run) for run in theirs]
    rows = []
    for mode in MODES:
        name = f"ddprun {mode}"
        if name not in results:
            if name in failures:
                rows.append({"what": "host overhead", **case_of(cell, mode), "failed": report.why(failures[name])})
            continue
        labels = (mode, "eager")
        rows.append(report.make_row("step, host-bound", case_of(cell, mode), "ms", [step_values(run) for run in results[name]],
                                    [step_values(run) for run in theirs], labels))
        if None not in busy:
            ours, others = ([report.host_overhead(run, ms) for run, ms in zip(found, busy)] for found in (results[name], theirs))
            labels = (f"{mode}, less {statistics.median(busy):.2f} ms of GPU", labels[1])
            rows.append(report.make_row("host overhead", case_of(cell, mode), "ms", ours, others, labels))
    return rows


# ---------------------------------------------------------------- memory


def memory_rows(args, runs):
    """AdamW's pass over flat buffers against a copy of as large an array."""
    rows = []
    for megabytes in [10] if args.rehearse else [100, report.COPY_GOAL_MB]:
        say(f"AdamW and copy of {megabytes} MB")
        found = gpu_sides.device_memory(megabytes, 2 if args.rehearse else 10, args.device)
        runs.append({"side": "device_memory_benchmark", **found})
        case = {"model": f"{megabytes} MB", "context": "", "precision": "fp32", "ranks": 1, "variant": ""}
        rates = ([[value] for value in found["gb_s"][name]] for name in ("adamw", "copy"))
        rows.append(report.make_row("AdamW against copy", case, "GB/s", *rates, ("AdamW, flat buffers", "device to device copy")))
    return rows


# ---------------------------------------------------------------- the whole


def read_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default=",".join(PARTS), help="parts, separated by commas: " + ", ".join(PARTS))
    parser.add_argument("--models", default="", help="steps of these alone: " + ", ".join(STEPS))
    parser.add_argument("--contexts", default="", help="with these context lengths; default: 512 where --models is given")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16", help="of the steps")
    parser.add_argument("--ranks", type=int, default=1, help="one GPU each")
    parser.add_argument("--rounds", type=int, default=0, help="default: 2; --quick: 1")
    parser.add_argument("--minutes", type=float, default=-1, help="begin nothing that would take longer in all; 0: no limit; default: 9.5; --quick: 4")
    parser.add_argument("--quick", action="store_true", help="one round, two models")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, a step or two of tiny: tries the program itself")
    parser.add_argument("--output", default="results/bench_gpu", help="folder of the results")
    parser.add_argument("--dry-run", action="store_true", help="print what would run")
    args = parser.parse_args(words)
    args.parts = args.what.split(",")
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    models = args.models.split(",") if args.models else []
    if set(models) - set(STEPS):
        parser.error(f"--models knows {', '.join(STEPS)}")
    if not all(word.isdecimal() and int(word) > 0 for word in args.contexts.split(",") if args.contexts):
        parser.error(f"--contexts takes numbers of tokens, not {args.contexts}")
    args.rounds = args.rounds or (1 if args.quick or args.rehearse else 2)
    args.minutes = args.minutes if args.minutes >= 0 else (4 if args.quick else 9.5)
    args.device = "cpu" if args.rehearse else "cuda"
    args.steps = (lambda model: REHEARSED_STEPS) if args.rehearse else STEPS.get
    args.cells, args.host_cells = plan(args, models)
    return args


def plan(args, models):
    """The cells of steps, and those of the host's share, which is of one rank."""
    contexts = [int(word) for word in args.contexts.split(",")] if args.contexts else []
    if args.rehearse:
        pairs, host_precisions = [("tiny", 32)], ["fp32"]
    else:
        pairs = QUICK_CELLS if args.quick else CELLS
        if models:
            pairs = [(model, context) for model in models for context in contexts or [512]]
        elif contexts:
            pairs = [(model, context) for context in contexts for model in dict.fromkeys(model for model, _ in pairs)]
        host_precisions = ["bf16"] if args.quick else ["bf16", "fp32"]
    cells = [Cell(model, context, args.precision, args.ranks) for model, context in pairs]
    context = 32 if args.rehearse else SIZES["tiny"]["context"]
    return cells, [Cell("tiny", context, precision, 1) for precision in host_precisions]


def planned(args):
    """What would be measured, in order: name, guess in seconds, the case of its row if it is not, and how to measure it."""
    if "memory" in args.parts:
        yield "AdamW against copy", 10, dict.fromkeys(("model", "context", "precision", "ranks", "variant"), ""), \
            lambda runs: memory_rows(args, runs)
    if "overhead" in args.parts:
        for cell in args.host_cells:
            yield "host overhead", guess_s(cell, args.rounds, False), case_of(cell), lambda runs, cell=cell: overhead_rows(cell, args, runs)
    if "step" in args.parts:
        for cell in args.cells:
            yield "step", guess_s(cell, args.rounds, not args.no_compile), case_of(cell), lambda runs, cell=cell: step_rows(cell, args, runs)


def describe_plan(args):
    lines = []
    for what, seconds, case, _ in planned(args):
        of = " ".join(f"{case[key]}" for key in ("model", "context", "precision") if case[key] != "")
        lines.append(f"{what} {of}".strip() + f": {args.rounds} round(s), a guess of {seconds} s")
    return "\n".join(lines)


def measure(args, save, rows, runs, notes):
    """Appends the rows of what the time allows; a cell that fails becomes a row with its reason, and the others go on."""
    budget, left_out = Budget(args.minutes), []
    for what, seconds, case, rows_of in planned(args):
        if not budget.allows(seconds):
            left_out.append(f"{what} {case['model']} {case['context']} {case['precision']}")
            continue
        guarded(rows, what, case, lambda rows_of=rows_of: rows_of(runs), report.why)
        save()
    if left_out:
        notes.append(f"Left out, as {args.minutes:g} minutes are over (--minutes): {'; '.join(left_out)}.")


def find_machine(args):
    """The Python of the other side and its GPUs; a sentence and exit status 2 where something is missing."""
    programs = [sides.BIN / name for name in ("ddprun", "device_memory_benchmark")]
    missing = [str(path) for path in programs if not path.exists()]
    if missing:
        return f"missing: {', '.join(missing)}; `make bench-gpu` builds it"
    args.python, args.machine = gpu_sides.find_peer()
    if args.python is None:
        return "no Python here has PyTorch, to compare with (PYTHON=/path/to/python names one, scripts/setup.sh --with-bench installs one)"
    gpus = args.machine["gpus"]
    if len(gpus) < args.ranks and not args.rehearse:
        return (f"{args.ranks} rank(s) need a GPU each, and PyTorch of {args.python} sees {len(gpus)}; nothing was measured" if gpus else
                f"there is no GPU that PyTorch of {args.python} can use; nothing was measured")
    refusal = "" if args.rehearse else GpuDdprun(Cell("tiny", 128, "fp32", args.ranks), "eager").refusal()
    return f"this ddprun cannot run on a GPU here; nothing was measured: {refusal}" if refusal else ""


def head(machine, args):
    gpus = machine["gpus"] or ["no GPU"]
    return (f"{len(machine['gpus'])} x {gpus[0]}, {machine['cpu']}, {machine['cores']} cores; PyTorch {machine['torch']}; "
            f"batch {BATCH} a rank; commit {machine['commit']}")


def main():
    args = read_arguments()
    if args.dry_run:
        print(describe_plan(args))
        return 0
    problem = find_machine(args)
    if problem:
        say(problem)
        return 2
    folder = Path(args.output) / time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    folder.mkdir(parents=True)
    begin, rows, runs, notes = time.monotonic(), [], [], []
    machine = {**describe_machine(), **args.machine}
    args.peak = report.peak_tflops(machine["gpus"][0]) if machine["gpus"] else None
    if args.rehearse:
        notes.append("**A rehearsal on the CPU**: the figures mean nothing.")
    elif args.peak is None:
        notes.append(f"MFU is not told: the peak of {machine['gpus'][0]} is not known (tests/benchmarks/bench_gpu_report.py).")
    else:
        notes.append(f"MFU: of {args.peak:g} TFLOP/s, dense bf16.")

    def page():
        return "\n".join([head(machine, args), "", report.table(rows), "", *notes]).rstrip() + "\n"

    def save():
        (folder / "bench_gpu.json").write_text(json.dumps({"machine": machine, "command": sys.argv, "notes": notes, "rows": rows, "runs": runs},
                                                          indent=1) + "\n")
        (folder / "bench_gpu.md").write_text(page())

    measure(args, save, rows, runs, notes)
    save()
    print(page())
    say(f"written: {folder}/bench_gpu.json and bench_gpu.md, after {(time.monotonic() - begin) / 60:.1f} minutes")
    return 1 if any("failed" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
