"""The parts of `make bench` below a step: all-reduce alone, AdamW alone."""
import json
import statistics
import sys

import bench_sides as sides
from bench_report import make_row

COPY_SIDES = ("read_and_write", "copy_slices")  # of copy_limit_benchmark: two ways of copying what a reduction moves
OWN_SIDES = {("shm", "group"): "shm_in_place", ("shm", "ordinary"): "shm_outside", ("gloo", "ordinary"): "gloo"}
ALL_REDUCE_REPEAT = {"warmup": 1, "count": 101, "seconds": 3}


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def left_out(executable, instead):
    """Whether a part must be left out as this build has no such program; says so."""
    if not executable.exists():
        say(f"left out: there is no {executable.relative_to(sides.REPO)}{instead}")
    return not executable.exists()


# ---------------------------------------------------------------- all-reduce


def peer_medians(run):
    """Megabytes -> side -> median milliseconds of a call, each as slow as its slowest rank."""
    return {megabytes: {"PyTorch's gloo": statistics.median(map(max, *(rank[megabytes] for rank in run["ranks"])))}
            for megabytes in run["ranks"][0]}


def own_rows(sizes):
    """The same of ddprun: in shared memory, from outside of it, and over gloo; and the runs' results."""
    medians, results = {megabytes: {} for megabytes in sizes}, []
    for (backend, memory), side in OWN_SIDES.items():
        experiment = sides.collectives("all-reduce", {"size": 2, "backend": backend},
                                       {"collectives.bytes": [int(size) * 1_000_000 for size in sizes]}, ALL_REDUCE_REPEAT)
        experiment["collectives"]["memory"] = memory
        result, others = sides.run_experiment(experiment)
        results.append({"side": side, "other_cpus": others, "statistics": [row["statistics"] for row in result["rows"]]})
        for (_, _, megabytes), ms in sides.collective_medians(result).items():
            medians[str(megabytes)][side] = ms
    return medians, results


def program_medians(out):
    """The same of a program that prints a JSON line a size."""
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {str(line["bytes"] // 1_000_000): {side: times["median_ms"] for side, times in line["sides"].items()} for line in lines}


def all_reduce_round(sizes, runs, index):
    """One run of each program, in turn: megabytes -> side -> median milliseconds."""
    medians, results = own_rows(sizes)
    runs += [{"configuration": "all-reduce", "round": index, **result} for result in results]
    mpi = sides.BIN / "mpi_all_reduce"
    programs = [([str(sides.BIN / "copy_limit_benchmark"), "2", *sizes], {})]
    if mpi.exists():
        in_bytes = [f"{megabytes}000000" for megabytes in sizes]
        programs.append((["mpirun", "-n", "2", "--bind-to", "core", str(mpi), *in_bytes], sides.MPI_ENVIRONMENT))
    for command, environment in programs:
        out, others = sides.execute(command, environment)
        runs.append({"configuration": "all-reduce", "side": command[0], "round": index, "other_cpus": others,
                     "lines": out.splitlines()})
        for megabytes, found in program_medians(out).items():
            medians[megabytes].update(found)
    command = [str(sides.peer_python()), str(sides.PEER_PROGRAM), "all_reduce", "--megabytes", ",".join(sizes)]
    run = sides.peer_json(command)
    runs.append({"configuration": "all-reduce", "side": "PyTorch", "round": index, **run})
    for megabytes, found in peer_medians(run).items():
        medians[megabytes].update(found)
        limits = [medians[megabytes][side] for side in COPY_SIDES]
        medians[megabytes]["copy limit"] = min(limits)
    return medians


def all_reduce_rows(args, runs):
    """In shared memory against gloo (in ddprun, and PyTorch's), Open MPI, and what copying memory takes."""
    if left_out(sides.BIN / "copy_limit_benchmark", ""):
        return []
    say(f"all-reduce, {args.rounds} rounds")
    rounds = [all_reduce_round(args.megabytes, runs, index) for index in range(args.rounds)]
    rows = []
    for megabytes in args.megabytes:
        pairs = [("all-reduce, shm against gloo", "gloo"), ("all-reduce, shm against PyTorch's gloo", "PyTorch's gloo")]
        if "mpi" in rounds[0][megabytes]:
            pairs.append(("all-reduce, shm against Open MPI", "mpi"))
        if megabytes == "100":
            pairs.append(("all-reduce, shm against the copy limit", "copy limit"))
        for what, other in pairs:
            case = {"model": f"{megabytes} MB", "precision": "fp32", "ranks": 2, "variant": "as run"}
            ours, theirs = ([[medians[megabytes][side]] for medians in rounds] for side in ("shm_in_place", other))
            rows.append(make_row(what, case, "ms", ours, theirs, ("shm, in place", other)))
    return rows


# ---------------------------------------------------------------- AdamW


def repetitions(report, name):
    """Milliseconds of each repetition of a case of Google Benchmark."""
    scale = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
    return [case["real_time"] * scale[case["time_unit"]] for case in report["benchmarks"]
            if case["run_type"] == "iteration" and case["run_name"] == name]


ADAMW_REPETITIONS = 3
ADAMW_CASES = ("adamw_as_held", "adamw_as_held_aten", "adamw/huge_pages:1", "adamw_aten/huge_pages:1")
# Variant, model, the cases of both sides; the first has the goal.
ADAMW_ROWS = (("as each program holds them", "peer-small", "adamw_as_held", "torch.optim.AdamW(fused=True), Python"),
              ("torch's kernel alone", "peer-small", "adamw_as_held", "adamw_as_held_aten"),
              ("same memory", "one array", "adamw/huge_pages:1", "adamw_aten/huge_pages:1"))


def adamw_round(executable, runs, index):
    """One run of each program: case -> milliseconds of its passes."""
    command = [str(executable), f"--benchmark_filter=^({'|'.join(ADAMW_CASES)})$", "--benchmark_format=json",
               f"--benchmark_repetitions={ADAMW_REPETITIONS}", "--benchmark_enable_random_interleaving=true"]
    out, others = sides.execute(command, {"OMP_NUM_THREADS": "1"})
    report = json.loads(out)
    runs.append({"configuration": "AdamW", "side": "ddprun", "round": index, "other_cpus": others, **report})
    times = {case: repetitions(report, case) for case in ADAMW_CASES}
    missing = [case for case, found in times.items() if not found]
    if missing:
        raise sides.RunFailed(f"{executable.name} has no case {', '.join(missing)}")
    command = [str(sides.peer_python()), str(sides.PEER_PROGRAM), "adamw", "--size", "peer-small", "--world", "1"]
    run = sides.peer_json(command)
    runs.append({"configuration": "AdamW", "side": "PyTorch", "round": index, **run})
    return {**times, ADAMW_ROWS[0][3]: run["ranks"][0]["adamw_ms"]}


def adamw_rows(args, runs):
    """The update of all parameters of a model: ddprun's one pass over its flat buffers, PyTorch's over its list of tensors; and
    the two kernels on the same memory. One thread."""
    executable = sides.BIN / "adamw_benchmark"
    if left_out(executable, "; the steps' optimizer rows stand for it"):
        return []
    say(f"AdamW, {args.rounds} rounds")
    rounds = [adamw_round(executable, runs, index) for index in range(args.rounds)]
    return [make_row("AdamW pass", {"model": model, "precision": "fp32", "ranks": 1, "variant": variant}, "ms",
                     [times[ours] for times in rounds], [times[theirs] for times in rounds], (ours, theirs))
            for variant, model, ours, theirs in ADAMW_ROWS]
