"""The part of `make bench` about attention alone: ddprun's `flash` beside PyTorch's operators, these by torch.compile, and PyTorch's
own fused kernel; forward, and forward + backward, at several lengths. The shape is CS336's: batch 8, no heads, no mask."""
import bench_sides as sides
from bench_report import make_row

PROGRAM = sides.PEER_PROGRAM.parent / "pytorch_attention.py"
SHAPE = {"batch": 8, "heads": 1, "head_dim": 64, "causal": False}
LENGTHS, TOY_LENGTHS = (256, 1024, 4096), (64,)
REPEAT = {"warmup": 1, "count": 100, "seconds": 2}
QUICK_REPEAT, TOY_REPEAT = {**REPEAT, "seconds": 1}, {"warmup": 0, "count": 3, "seconds": 1}
QUANTITIES = {"attention, forward": "forward_ms", "attention, forward + backward": "time_ms"}


def experiment(precision, lengths, repeat):
    dtype = {"fp32": "float32", "bf16": "bfloat16"}[precision]
    return {"name": "attention", "experiment": "attention", "attention": "flash", "world": {"threads_per_rank": 1},
            "attention_call": {**SHAPE, "dtype": dtype}, "repeat": repeat, "sweep": {"attention_call.length": list(lengths)}}


def own_times(result):
    """Length -> quantity -> milliseconds of the measured calls; every row must be proved."""
    times = {}
    for row in sides.proved_rows(result):
        columns = row["ranks"][0]["samples"]
        measured = [not warmup for warmup in columns["warmup"]]
        times[row["config"]["attention_call"]["length"]] = {
            what: [ms for ms, counts in zip(columns[key], measured) if counts] for what, key in QUANTITIES.items()}
    return times


def peer_times(run):
    return {int(length): {what: [sample[key] for sample in found["samples"]] for what, key in QUANTITIES.items()}
            for length, found in run["lengths"].items()}


class Ours:
    label = "flash"

    def __init__(self, precision, lengths, repeat):
        self.experiment = experiment(precision, lengths, repeat)

    def run(self):
        """Times as own_times() has them, and what bench.json keeps."""
        result, others = sides.run_experiment(self.experiment)
        return own_times(result), {"experiment": self.experiment, "other_cpus": others}


class Theirs:
    """PyTorch's attention; how: as pytorch_attention.py calls it."""

    def __init__(self, how, precision, lengths, repeat):
        self.how = how
        self.label = {"operators": "q @ k, softmax, @ v", "compiled": "the same by torch.compile",
                      "sdpa": "scaled_dot_product_attention"}[how]
        self.words = ["--lengths", ",".join(map(str, lengths)), "--batch", str(SHAPE["batch"]), "--head-dim", str(SHAPE["head_dim"]),
                      *(word for key, value in repeat.items() for word in (f"--{key}", str(value)))]
        self.words += ["--bf16"] if precision == "bf16" else []

    def run(self):
        run = sides.peer_json([str(sides.peer_python()), str(PROGRAM), self.how, *self.words])
        first = {length: found["first_s"] for length, found in run["lengths"].items()}
        return peer_times(run), {"first_s": first, "other_cpus": run["other_cpus"], "command": run["command"]}


def sides_of(precision, args):
    """Of --peer-torch, `compiled` alone has a side here."""
    lengths = TOY_LENGTHS if args.toy else LENGTHS
    repeat = TOY_REPEAT if args.toy else QUICK_REPEAT if args.quick else REPEAT
    hows = ["operators", *(["compiled"] if "compiled" in args.peers else []), "sdpa"]
    return {"ddprun": Ours(precision, lengths, repeat), **{how: Theirs(how, precision, lengths, repeat) for how in hows}}


def alternate(competitors, precision, rounds, runs):
    """Runs each side once a round, in turn. Returns name -> the times of each round; appends every run to `runs`."""
    times = {name: [] for name in competitors}
    for index in range(rounds):
        for name, side in competitors.items():
            found, kept = side.run()
            runs.append({"configuration": f"attention {precision}", "side": name, "round": index, "times": found, **kept})
            times[name].append(found)
    return times


def rows_of(times, labels, precision):
    """times: as alternate() returns them; labels: name -> what the table calls that side."""
    def values(name, length, what):
        return [found[length][what] for found in times[name]]

    def case(name, length):
        return {"model": f"{SHAPE['batch']} x {length} x {SHAPE['head_dim']}", "precision": precision, "ranks": 1, "variant": name}

    return [make_row(what, case(name, length), "ms", values("ddprun", length, what), values(name, length, what),
                     (labels["ddprun"], labels[name]))
            for length in times["ddprun"][0] for what in QUANTITIES for name in labels if name != "ddprun"]
