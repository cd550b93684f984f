#!/usr/bin/env python3
"""`make bench`: ddprun against what one would otherwise run, PyTorch in Python, on this machine, in one run.

    make bench                              everything (some two hours on two idle cores)
    make bench WHAT=step,startup            parts: step, sharding, attention, startup, all_reduce, adamw
    make bench ARGS='--quick'               two models, two rounds
    make bench ARGS='--models tiny --precisions bf16 --ranks 2'
    make bench ARGS='--models drawn-7'      a size that nobody tuned for, drawn by a seed
    make bench PEER_TORCH=2.11.0,compiled   beside the PyTorch that ddprun is built with, these too
    make bench WHAT=attention,step ARGS=--compile    the same as PEER_TORCH=compiled: with and without torch.compile
    make bench ARGS=--toy                   every part once and small: whether it runs, no figures (CI does it)
    python3 tests/benchmarks/bench.py --table results/bench/A results/bench/B    one table of runs made apart

For each model, precision and number of ranks, short runs find the fastest strategy of each side, and which PyTorch is the fastest
by it: of the versions at hand, compiled or not, with tcmalloc or not. Then the sides run in turn, A B A B, so that what the machine
does besides meets both. Every sample goes to results/bench/<time>/bench.json, the table to stdout and to bench.md beside it. The
ratio that counts is "fastest": to the fastest of all. docs/results.md explains the columns.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from pathlib import Path

import bench_attention as attention
import bench_sides as sides
from bench_parts import adamw_rows, all_reduce_rows, left_out, say
from bench_report import CPU_CLASS, OVERLAPPING, QUANTITIES, best, figure, make_row, survivors, table
from bench_roofline import Roofline, roofline_rows
from peer.sizes import DRAWN, is_drawn

PARTS = ("step", "sharding", "attention", "startup", "all_reduce", "adamw")
STEPS = {"tiny": (4, 20), "peer-small": (3, 8), "laptop-70m": (2, 5)}  # of one run: warm-up, measured
QUICK_STEPS = {"tiny": (3, 12), "peer-small": (2, 5), "laptop-70m": (1, 3)}
SEARCH = {"tiny": (2, 6), "peer-small": (2, 3), "laptop-70m": (1, 2)}  # the same of a run that looks for the fastest
TOY_STEPS = {"tiny": (0, 1)}
MEGABYTES = ("1", "10", "100", "1024")  # of an all-reduce
LOADED_CPUS = 0.15  # more than this taken by others while a side runs: the figures are worth little


def alternate(configurations, rounds, warmup, steps, runs):
    """Runs each configuration once a round, in turn. Returns name -> its runs; appends every run to `runs`."""
    results = {name: [] for name in configurations}
    for index in range(rounds):
        for name, configuration in configurations.items():
            result = configuration.run(warmup, steps)
            runs.append({"configuration": configuration.label, "side": name, "round": index, **result})
            results[name].append(result)
    return results


def values(results, quantity):
    return [QUANTITIES[quantity][1](result) for result in results]


def rows_by(case, competitors, results):
    """(what, variant, our side, their side) -> a row of what these two took."""
    def row(what, variant, ours, theirs):
        return make_row(what, {**case, "variant": variant}, QUANTITIES[what][0], values(results[ours], what),
                        values(results[theirs], what), (competitors[ours].label, competitors[theirs].label))
    return row


# ---------------------------------------------------------------- steps


def candidates(cell, args):
    """What is tried for a cell: ddprun's and the peer's configurations, by label."""
    if cell[2] == 1:  # nothing to synchronize
        strategies, words = ["none"], [["--strategy", "single"]]
    elif args.toy:
        strategies, words = sides.DDPRUN_QUICK[:2], sides.PEER_QUICK[:2]
    elif args.quick:
        strategies, words = sides.DDPRUN_QUICK, sides.PEER_QUICK
    else:
        strategies, words = sides.DDPRUN_STRATEGIES, sides.PEER_STRATEGIES
    settings = [] if args.dry_run else sides.fast_settings(cell)
    ours = [sides.Ddprun(cell, strategy, settings=settings) for strategy in strategies]
    ours = [side for side in ours if args.dry_run or side.is_accepted()]
    theirs = [sides.Peer(cell, word) for word in words]
    return {side.label: side for side in ours}, {side.label: side for side in theirs}


def search(configurations, steps, rounds, runs):
    """Name -> its times, the fastest first, by runs of so many warm-up and measured steps. Each round but the first runs only what the
    rounds before left. A single one need not run."""
    times = {name: [] for name in configurations}
    if len(configurations) == 1:
        return times
    for index in range(rounds):
        if index > 0:
            times = {name: times[name] for name in survivors(times)}
        results = alternate({name: configurations[name] for name in times}, 1, *steps, runs)
        for name, result in results.items():
            times[name] += values(result, "step")
            say(f"    {figure(times[name])['median']:8.1f} ms  {name}")
    return dict(sorted(times.items(), key=lambda each: figure(each[1])["median"]))


def that_overlaps(times):
    """The fastest that overlaps communication with backward; the fastest of all if none does. times: as search() has it."""
    return next((name for name in times if name.split()[0] in OVERLAPPING), next(iter(times)))


def compile_once(side, runs):
    """Fills the cache of compiled code, which later processes use; no rows."""
    say(f"compiling: {side.label}")
    runs.append({"configuration": side.label, "side": "PyTorch compiling", "round": 0, **side.run(0, 1)})
    return []


def peer_variants(cell, words, args):
    """Every PyTorch that may be the fastest by one of these strategies: of each version at hand, compiled or not, each with tcmalloc too."""
    versions = ["", *sides.versions_at_hand()] if not args.toy else [""]
    plain = [sides.Peer(cell, word, torch=version) for word in words for version in versions]
    if args.compiled:
        plain += [side.compiled() for side in plain]
    every = plain + [side.preloading(args.tcmalloc) for side in plain]
    return {side.label: side for side in every}


def fastest_peer(cell, words, args, runs):
    """The fastest of peer_variants(), by a short run of each. What does not run is no candidate, and is said."""
    variants = peer_variants(cell, words, args)
    say(f"{cell[0]} {cell[1]} {cell[2]} rank(s): finding the fastest of {len(variants)} PyTorch")
    times = {}
    for label, side in variants.items():
        try:
            if side.is_compiled():
                compile_once(side, runs)
            times |= alternate({label: side}, 1, *args.search[cell[0]], runs)
        except sides.RunFailed as failure:
            say(f"    left out: {label}: {failure}")
            continue
        times[label] = values(times[label], "step")
        say(f"    {figure(times[label])['median']:8.1f} ms  {label}")
    return variants[best(times)]


def other_peers(cell, side, args):
    """The PyTorch of --peer-torch as `side` runs, by the variant that its rows have."""
    return {name: side.compiled() if name == "compiled" else sides.Peer(cell, side.words, torch=name) for name in args.peers}


def variant_of(name):
    """What the table calls the row of this PyTorch."""
    return name.removeprefix("PyTorch ") if name != "PyTorch" else "as run"


def forward_rows(case, competitors, args, runs):
    """The forward without anything for a backward, which ddprun's head begins in a training step's forward."""
    rows, alone = [], {name: side.forward_alone() for name, side in competitors.items()}
    compiled = alone.get("PyTorch compiled")
    if compiled and not guarded(rows, "forward", {**case, "variant": "compiled"}, lambda: compile_once(compiled, runs)):
        del alone["PyTorch compiled"]
    results = alternate(alone, args.rounds, *args.steps[case["model"]], runs)
    row = rows_by(case, alone, results)
    return rows + [row("forward", variant_of(name), "ddprun", name) for name in alone if name != "ddprun"]


def step_rows(cell, args, runs):
    """Step, its passes, exposed communication, optimizer and memory of one model, precision and number of ranks."""
    model, precision, ranks = cell
    ours, theirs = candidates(cell, args)
    say(f"{model} {precision} {ranks} rank(s): finding the fastest of {len(ours)} and {len(theirs)} configurations")
    our_times = search(ours, args.search[model], args.pick_rounds, runs)
    their_times = search(theirs, args.search[model], args.pick_rounds, runs)
    our_pick, their_pick = next(iter(our_times)), next(iter(their_times))
    competitors = {"ddprun": ours[our_pick], "PyTorch": theirs[their_pick]}
    if ranks > 1 or not args.quick:
        competitors.update({f"{name} tuned": side.preloading(args.tcmalloc) for name, side in competitors.items()})
    if args.fastest:
        fastest = fastest_peer(cell, [theirs[name].words for name in list(their_times)[:2]], args, runs)
        if fastest.label not in [side.label for side in competitors.values()]:
            competitors["PyTorch fastest"] = fastest
    case = {"model": model, "precision": precision, "ranks": ranks}
    rows = []
    for variant, peer in other_peers(cell, theirs[their_pick], args).items():
        prepare = (lambda peer=peer: compile_once(peer, runs)) if variant == "compiled" else list
        if guarded(rows, "step", {**case, "variant": variant}, prepare):
            competitors[f"PyTorch {variant}"] = peer
    for side, known, times in (("ddprun", ours, our_times), ("PyTorch", theirs, their_times)):
        overlapping = that_overlaps(times)
        if ranks > 1 and overlapping != next(iter(times)):
            competitors[f"{side} overlapping"] = known[overlapping]
    say(f"{model} {precision} {ranks} rank(s): {our_pick} against {their_pick}, {args.rounds} rounds")
    if not left_out(sides.BIN / "roofline_benchmark", ""):
        competitors["roofline"] = Roofline(cell)
    results = alternate(competitors, args.rounds, *args.steps[model], runs)

    row = rows_by(case, competitors, results)
    rows.append(row("step", "as run", "ddprun", "PyTorch"))
    ours, theirs = ({name: values(result, "step") for name, result in results.items() if name in (side, f"{side} tuned", *more)}
                    for side, more in (("ddprun", ()), ("PyTorch", [f"PyTorch {peer}" for peer in (*args.peers, "fastest")])))
    if "PyTorch tuned" in results:
        rows.append(row("step", "tuned", best(ours), "PyTorch tuned"))
    rows += [row("step", variant_of(name), "ddprun", name) for name in theirs if variant_of(name) in args.peers]
    if args.peers or args.fastest:
        rows.append(row("step", "fastest", best(ours), best(theirs)))
    compiled = ["PyTorch compiled"] if "PyTorch compiled" in results else []
    rows += [row("forward + backward", variant_of(name), "ddprun", name) for name in ["PyTorch", *compiled]]
    if ranks == 1:
        rows += forward_rows(case, {name: competitors[name] for name in ["ddprun", "PyTorch", *compiled]}, args, runs)
    if "roofline" in results:
        rows += roofline_rows(case, results["ddprun"], results["PyTorch"], results["roofline"])
    if ranks > 1:
        overlapping = [f"{side} overlapping" if f"{side} overlapping" in results else side for side in ("ddprun", "PyTorch")]
        rows += [row("exposed communication", "as run", *overlapping), row("skew", "as run", *overlapping)]
    rows.append(row("optimizer", "as run", "ddprun", "PyTorch"))
    rows.append(row("peak memory of all ranks", "as run", "ddprun", "PyTorch"))
    return rows


# ---------------------------------------------------------------- sharding


# What is compared, of which two sides.
SHARDED = (("step", "fsdp", "FSDP2"), ("step", "zero1", "ZeroRedundancyOptimizer"), ("step", "fsdp", "zero1"),
           ("step", "zero1", "bucketed"), ("optimizer", "zero1", "bucketed"), ("peak memory of all ranks", "fsdp", "FSDP2"),
           ("peak memory of all ranks", "zero1", "ZeroRedundancyOptimizer"))


def sharding_rows(cell, args, runs):
    """What it costs to keep a part: beside PyTorch's ways to do it, and beside our own strategies that keep everything, or more."""
    model, precision, ranks = cell
    settings = sides.fast_settings(cell)
    ours = {"zero1": "zero1", "fsdp": "fsdp", "bucketed": {"name": "bucketed", "bucket_mb": 25}}
    competitors = {name: sides.Ddprun(cell, strategy, settings=settings) for name, strategy in ours.items()}
    competitors["bucketed"].experiment["optimizer"]["overlap"] = True
    competitors["ZeroRedundancyOptimizer"] = sides.Peer(cell, ["--strategy", "zero1", "--bucket-mb", "25"], "ZeroRedundancyOptimizer")
    competitors["FSDP2"] = sides.Peer(cell, ["--strategy", "fsdp"], "FSDP2")
    say(f"sharding: {model} {precision} {ranks} ranks, {args.rounds} rounds")
    results = alternate(competitors, args.rounds, *args.steps[model], runs)

    row = rows_by({"model": model, "precision": precision, "ranks": ranks}, competitors, results)
    return [row(what, f"{ours} / {theirs}", ours, theirs) for what, ours, theirs in SHARDED]


# ---------------------------------------------------------------- attention


def attention_rows(args, runs):
    """Attention alone, of each precision: ours beside PyTorch's operators, these compiled, and its fused kernel."""
    rows = []
    for precision in dict.fromkeys(precision for _, precision, _ in args.cells):
        competitors = attention.sides_of(precision, args)

        def compile_attention(side=competitors.get("compiled")):
            say(f"compiling attention, {precision}")
            runs.append({"configuration": "attention", "side": "PyTorch compiling", "round": 0, **side.run()[1]})
            return []

        case = {"model": "", "precision": precision, "ranks": 1, "variant": "compiled"}
        if "compiled" in competitors and not guarded(rows, "attention", case, compile_attention):
            del competitors["compiled"]
        say(f"attention, {precision}, {args.rounds} rounds")
        times = attention.alternate(competitors, precision, args.rounds, runs)
        rows += attention.rows_of(times, {name: side.label for name, side in competitors.items()}, precision)
    return rows


# ---------------------------------------------------------------- start-up


def startup_rows(args, runs):
    """Launch to first step done: tiny, two ranks, bucketed on both sides."""
    cell = ("tiny", "fp32", 2)
    words = ["--strategy", "bucketed", "--bucket-mb", "5"]
    competitors = {
        "ddprun": sides.Ddprun(cell, {"name": "bucketed", "bucket_mb": 5}, settings=sides.fast_settings(cell)),
        "PyTorch": sides.Peer(cell, words, label="ranks spawned"),
        # Not what torchrun or spawn do, but it imports torch once instead of three times.
        "PyTorch tuned": sides.Peer(cell, [*words, "--start", "fork"], label="ranks forked"),
    }
    say(f"launch to first step, {args.rounds} rounds")
    results = alternate(competitors, args.rounds, 0, 1, runs)
    row = rows_by({"model": "tiny", "precision": "fp32", "ranks": 2}, competitors, results)
    return [row("launch to first step", variant, "ddprun", name) for variant, name in (("as run", "PyTorch"), ("tuned", "PyTorch tuned"))]


# ---------------------------------------------------------------- the whole


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return "not there"
    return (done.stdout or done.stderr).strip().splitlines()[0] if done.returncode == 0 else "not there"


def describe_machine():
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in cpuinfo[:40] if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = fields.get("flags", "").split()
    return {
        "cpu": fields.get("model name", platform.machine()),
        "cpu_class": CPU_CLASS,
        "cores": len(os.sched_getaffinity(0)),
        "cpu_flags": [flag for flag in flags if flag.startswith(("avx", "amx", "fma"))],
        "memory": Path("/proc/meminfo").read_text().splitlines()[0].split(":")[1].strip(),
        "kernel": platform.release(),
        "load_average": os.getloadavg(),
        "ddprun": subprocess.run([sides.BIN / "ddprun", "--version"], capture_output=True, text=True).stdout.split("\n"),
        "commit": first_line(["git", "-C", str(sides.REPO), "describe", "--always", "--dirty"]),
        "torch": sides.built_torch(),
        "peer_python": first_line([str(sides.peer_python()), "--version"]),
        "open_mpi": first_line(["mpirun", "--version"]),
    }


def warn_if_loaded(runs):
    taken = [run["other_cpus"] for run in runs]
    loaded = sum(cpus > LOADED_CPUS for cpus in taken)
    if not loaded:
        return ""
    return (f"**Loaded machine**: in {loaded} of {len(taken)} runs other processes took more than {LOADED_CPUS} of a core "
            f"(up to {max(taken):.1f}). Figures are for a try-out only.")


TOY_NOTE = "**Toy sizes**: they show that every part runs. The figures mean nothing."


def with_drawn(table, models):
    """A table of steps, in which a drawn size has those of peer-small."""
    return {**table, **{model: table.get("peer-small", table["tiny"]) for model in models if is_drawn(model)}}


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default=",".join(PARTS), help="parts, separated by commas: " + ", ".join(PARTS))
    parser.add_argument("--models", default="", help=f"default: {','.join(STEPS)}; --quick: without laptop-70m; "
                        f"{DRAWN}7: a size that nobody tuned for, drawn by seed 7")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--ranks", default="2,1")
    parser.add_argument("--rounds", type=int, default=0, help="default: 5; --quick: 2")
    parser.add_argument("--quick", action="store_true", help="two models, two shorter rounds, fewer strategies")
    parser.add_argument("--toy", action="store_true", help="every part once, on the least that it can do; its figures mean nothing")
    parser.add_argument("--peer-torch", default="", metavar="PEERS", help="of steps also these, separated by commas: other versions "
                        "of PyTorch (2.11.0), `compiled` for torch.compile, which takes minutes more for each cell")
    parser.add_argument("--compile", action="store_true", help="of steps and attention also PyTorch by torch.compile: `compiled` "
                        "among the PEERS")
    parser.add_argument("--output", default="results/bench", help="folder of the results")
    parser.add_argument("--table", nargs="+", metavar="FOLDER", help="run nothing; one table of these results")
    parser.add_argument("--dry-run", action="store_true", help="print what would run")
    args = parser.parse_args()
    args.parts = args.what.split(",")
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    peers = [*args.peer_torch.split(","), *(["compiled"] if args.compile else [])]
    args.peers = [peer for peer in dict.fromkeys(peers) if peer not in ("", sides.built_torch())]
    args.models = (args.models or ("tiny,peer-small" if args.quick else ",".join(STEPS))).split(",")
    for model in set(args.models) - set(STEPS):
        if not is_drawn(model):
            parser.error(f"--models knows {', '.join(STEPS)} and {DRAWN}SEED, not {model}")
    args.quick = args.quick or args.toy
    args.rounds = args.rounds or (1 if args.toy else 2 if args.quick else 5)
    args.steps = with_drawn(TOY_STEPS if args.toy else QUICK_STEPS if args.quick else STEPS, args.models)
    args.search = with_drawn(TOY_STEPS if args.toy else SEARCH, args.models)
    args.megabytes = MEGABYTES[:1] if args.toy else MEGABYTES
    args.pick_rounds = 1 if args.quick else 3
    args.tcmalloc = sides.find_tcmalloc()
    args.compiled = not args.quick or "compiled" in args.peers
    args.fastest = args.toy or not args.quick or bool(args.peers)
    args.cells = [(model, precision, int(ranks)) for model in args.models for precision in args.precisions.split(",")
                  for ranks in args.ranks.split(",")]
    if args.toy:
        args.cells = toy_cells()
    return args


def sharded(args):
    """The cells with ranks to share among."""
    return [cell for cell in args.cells if cell[2] > 1]


def toy_cells():
    """A CPU without instructions for bfloat16 takes ten seconds for one step of it, on both sides."""
    flags = Path("/proc/cpuinfo").read_text()
    fast = "avx512_bf16" in flags or "amx_bf16" in flags
    return [("tiny", "fp32", 2), ("tiny", "bf16" if fast else "fp32", 1)]


def print_plan(args):
    """A plan needs nothing installed."""
    args.tcmalloc = args.tcmalloc or sides.TCMALLOC
    for part in args.parts:
        if part != "step":
            cells = f", {' '.join(f'{model} {precision}' for model, precision, _ in sharded(args))}" if part == "sharding" else ""
            print(f"{part}: {args.rounds} rounds of each side in turn{cells}")
            continue
        for cell in args.cells:
            ours, theirs = candidates(cell, args)
            print(f"step {' '.join(map(str, cell))} rank(s), {args.steps[cell[0]][1]} steps a run")
            print(f"  find the fastest, {args.pick_rounds} round(s): ddprun {', '.join(ours)}; PyTorch {', '.join(theirs)}")
            tuned = ", both with tcmalloc" if cell[2] > 1 or not args.quick else ""
            fastest = f"the fastest of {len(peer_variants(cell, [side.words for side in theirs.values()][:2], args))} PyTorch, " if args.fastest else ""
            print(f"  then {args.rounds} rounds of ddprun, PyTorch{tuned}, {fastest}"
                  f"each side's fastest that overlaps, roofline{''.join(f', PyTorch {peer}' for peer in args.peers)}")


def check_ready(args):
    pythons = [sides.peer_python(peer) for peer in ("", *args.peers) if peer != "compiled"]
    missing = [str(path) for path in (sides.BIN / "ddprun", *pythons) if not path.exists()]
    if missing or not args.tcmalloc:
        missing += [] if args.tcmalloc else [sides.TCMALLOC]
        sys.exit(f"bench: missing: {', '.join(missing)}; `make bench` builds and installs it, versions of "
                 "PyTorch that PEER_TORCH=2.11.0 names too (scripts/setup.sh --with-bench)")


def reason_of(failure):
    """Why a measurement failed, in words; of a defect of this program the traceback too."""
    if isinstance(failure, sides.RunFailed):
        return str(failure)
    traceback.print_exception(failure)
    return f"a defect of the benchmark itself: {failure!r}"


def guarded(rows, what, case, measure, words=str):
    """Appends measure()'s rows. What fails becomes a row with its reason, shortened by `words`, and the others go on: neither a run
    nor a defect of this program may lose what was measured before. Returns whether nothing failed."""
    try:
        rows.extend(measure())
        return True
    except Exception as failure:  # pylint: disable=broad-except
        reason = reason_of(failure)
        say(f"failed: {reason}")
        rows.append({"what": what, **case, "failed": words(reason)})
        return False


def report_text(reports):
    """The Markdown of one or several runs of this program: what each ran on, one table, the notes."""
    heads = [f"{r['machine']['cpu']} ({r['machine']['cpu_class']}), {r['machine']['cores']} cores; PyTorch {r['machine']['torch']}; {r['date']}; commit {r['machine']['commit']}" for r in reports]
    rows = [row for report in reports for row in report["rows"]]
    notes = [note for report in reports for note in report["notes"]]
    return "\n".join([*dict.fromkeys(heads), "", table(rows), "", *notes]).rstrip() + "\n"


def print_table(files):
    missing = [str(file) for file in files if not file.exists()]
    if missing:
        sys.exit(f"bench: no results: {', '.join(missing)}; a run writes them as it goes, after its first row")
    print(report_text([json.loads(file.read_text()) for file in files]), end="")


def main():
    args = read_arguments()
    if args.table:
        return print_table([Path(folder) / "bench.json" for folder in args.table])
    if args.dry_run:
        return print_plan(args)
    check_ready(args)
    folder = Path(args.output) / time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    folder.mkdir(parents=True)
    begin, rows, runs, notes = time.monotonic(), [], [], []
    report = {"machine": describe_machine(), "date": time.strftime("%Y-%m-%d", time.gmtime()), "command": sys.argv, "notes": notes,
              "rows": rows, "runs": runs}

    def save():
        (folder / "bench.json").write_text(json.dumps(report, indent=1) + "\n")

    of_cells = {"step": (step_rows, args.cells), "sharding": (sharding_rows, sharded(args))}
    for part in args.parts:
        if part in of_cells:
            measure, cells = of_cells[part]
            for cell in cells:
                case = {**dict(zip(("model", "precision", "ranks"), cell)), "variant": ""}
                guarded(rows, part, case, lambda measure=measure, cell=cell: measure(cell, args, runs))
                save()
            continue
        measure = {"attention": attention_rows, "startup": startup_rows, "all_reduce": all_reduce_rows, "adamw": adamw_rows}[part]
        guarded(rows, part, dict.fromkeys(("model", "precision", "ranks", "variant"), ""), lambda measure=measure: measure(args, runs))
        save()
    notes.extend(note for note in [warn_if_loaded(runs), TOY_NOTE if args.toy else ""] if note)
    save()
    text = report_text([report])
    (folder / "bench.md").write_text(text)
    print(text)
    say(f"written: {folder}/bench.json and bench.md, after {(time.monotonic() - begin) / 60:.0f} minutes")
    return 1 if any("failed" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
