"""The parts of `make bench` below a step: all-reduce alone, AdamW alone."""
import json
import sys

import bench_sides as sides
from bench_report import make_row

ALL_REDUCE_MB = (1, 10, 100)
CALLS = {1: 60, 10: 20, 100: 8}  # of one run


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def peer_command(measure, *words):
    return [str(sides.PEER_PYTHON), str(sides.PEER_PROGRAM), measure, *map(str, words)]


# ---------------------------------------------------------------- all-reduce


class AlmostOnlyAllReduce(sides.Ddprun):
    """A model of nothing but an embedding and a head, so that a step is little more than `flat`'s one all-reduce."""

    def __init__(self, megabytes, settings):
        super().__init__(("tiny", "fp32", 2), "flat", settings=settings)
        width, rest = 64, 28_864  # parameters of one block and the last norm at this width
        vocabulary = (megabytes * 250_000 - rest) // (2 * width)
        self.experiment["model"] = {"preset": "tiny", "layers": 1, "heads": 1, "d_model": width, "d_ff": width,
                                    "vocab_size": vocabulary, "context_length": 8}
        self.experiment["train"]["batch_per_rank"] = 1

    @staticmethod
    def call_ms(run):
        """Of each measured step the all-reduce of the rank that came last: it waited for nobody."""
        ranks = [[s["communication_ms"] for s in rank["samples"] if not s["warmup"]] for rank in run["ranks"]]
        return [min(step) for step in zip(*ranks)]


def peer_call_ms(run, megabytes):
    return [max(call) for call in zip(*(rank[str(megabytes)] for rank in run["ranks"]))]


def all_reduce_rows(args, runs):
    """In a run of ddprun, over each backend that it has, against PyTorch's gloo; two ranks in turn."""
    shm = [("world", "backend", "shm")]
    backends = {"gloo": [("world", "backend", "gloo")]}
    if sides.Ddprun(("tiny", "fp32", 2), "flat", settings=shm).is_accepted():
        backends["shm"] = shm
    rows = []
    for megabytes in ALL_REDUCE_MB:
        say(f"all-reduce of {megabytes} MB, {args.rounds} rounds")
        ours, theirs = {name: [] for name in backends}, []
        words = ("--megabytes", megabytes, "--warmup", 5, "--steps", CALLS[megabytes])
        for index in range(args.rounds):
            for name, settings in backends.items():
                run = AlmostOnlyAllReduce(megabytes, settings).run(3, CALLS[megabytes])
                runs.append({"configuration": f"all-reduce {megabytes} MB", "side": name, "round": index, **run})
                ours[name].append(AlmostOnlyAllReduce.call_ms(run))
            run = sides.peer_json(peer_command("all_reduce", *words), {})
            runs.append({"configuration": f"all-reduce {megabytes} MB", "side": "PyTorch", "round": index, **run})
            theirs.append(peer_call_ms(run, megabytes))
        for name, times in ours.items():
            what = "all-reduce, shm against gloo" if name == "shm" else "all-reduce, gloo in ddprun"
            case = {"model": f"{megabytes} MB", "precision": "fp32", "ranks": 2, "variant": "as run"}
            rows.append(make_row(what, case, "ms", times, theirs, (name, "gloo in Python")))
    return rows


# ---------------------------------------------------------------- AdamW


def repetitions(report, name):
    """Milliseconds of each repetition of a case of Google Benchmark, one list a repetition."""
    scale = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
    cases = [case for case in report["benchmarks"] if case["run_type"] == "iteration" and case["run_name"].split("/")[0] == name]
    first = cases[0]["run_name"] if cases else ""  # adamw/bf16_copy:0 comes before adamw/bf16_copy:1
    return [[case["real_time"] * scale[case["time_unit"]]] for case in cases if case["run_name"] == first]


def adamw_rows(args, runs):
    """One pass over one range against the kernel of torch's fused AdamW on as many elements, one thread, one program."""
    executable = sides.BIN / "kernels_benchmark"
    if not executable.exists():
        say(f"adamw: left out, there is no {executable.relative_to(sides.REPO)}; the steps' optimizer rows stand for it")
        return []
    say("AdamW, repetitions in random order")
    command = [str(executable), "--benchmark_filter=^adamw", "--benchmark_format=json",
               f"--benchmark_repetitions={max(5, args.rounds)}", "--benchmark_enable_random_interleaving=true"]
    out, others = sides.execute(command, {"OMP_NUM_THREADS": "1"})
    report = json.loads(out)
    runs.append({"configuration": "AdamW", "side": "both", "round": 0, "other_cpus": others, **report})
    ours, theirs = repetitions(report, "adamw"), repetitions(report, "adamw_aten")
    if not ours or len(ours) != len(theirs):
        raise sides.RunFailed("kernels_benchmark should have the cases adamw and adamw_aten, equally often")
    case = {"model": "", "precision": "fp32", "ranks": 1, "variant": "as run"}
    return [make_row("AdamW pass", case, "ms", ours, theirs, ("adamw", "torch fused AdamW"))]
