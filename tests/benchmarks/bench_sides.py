"""The two sides of `make bench`: how ddprun and PyTorch in Python are started, and what a run of each leaves."""
import copy
import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from peer.sizes import SIZES, size_of

REPO = Path(__file__).resolve().parents[2]
BIN = REPO / "build/release/bin"
PEER_PROGRAM = REPO / "tests/benchmarks/peer/pytorch_ddp.py"
CUDA_LIBRARIES = Path("/usr/local/cuda/lib64")  # where a toolkit is, torch's Python wheel takes its libraries from it
RUN_LIMIT_S = 900
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

# Strategies that are tried, each with its options; what this ddprun does not have (yet) is left out, and said.
DDPRUN_STRATEGIES = ["flat", "overlap"] + [{"name": "bucketed", "bucket_mb": mb} for mb in (1, 5, 25, 100)] + ["zero1"]
DDPRUN_QUICK = ["flat"] + [{"name": "bucketed", "bucket_mb": mb} for mb in (1, 5)]
# Taken wherever this ddprun accepts them: section, key, value.
DDPRUN_FAST_SETTINGS = [("world", "backend", "shm"), ("model", "kernels", "fused")]

# peer/pytorch_ddp.py says what else was tried, and what it gave.
PEER_STRATEGIES = [["--strategy", "flat"], ["--strategy", "overlap"]]
PEER_STRATEGIES += [["--strategy", "bucketed", "--bucket-mb", mb] for mb in ("1", "5", "25", "100")]
PEER_STRATEGIES += [["--strategy", "bucketed", "--bucket-mb", "25", "--static-graph"],
                    ["--strategy", "bucketed", "--bucket-mb", "25", "--pin"],
                    ["--strategy", "zero1", "--bucket-mb", "25"]]
PEER_QUICK = [["--strategy", "flat"]] + [["--strategy", "bucketed", "--bucket-mb", mb] for mb in ("5", "25")]
# torch.compile leaves complex products to eager code.
PEER_COMPILED = ["--compile", "--rope", "pairs"]


class RunFailed(Exception):
    pass


def built_torch():
    """The version of PyTorch that ddprun was built with; empty if it is not built."""
    try:
        lines = subprocess.run([BIN / "ddprun", "--version"], capture_output=True, text=True).stdout.splitlines()
    except OSError:
        return ""
    return next((line.split()[1] for line in lines if line.startswith("torch ")), "")


def peer_python(version=""):
    """The Python that has PyTorch of this version, or of that which ddprun was built with."""
    return REPO / f".deps/python-{version or built_torch()}/bin/python"


def versions_at_hand():
    """Versions of PyTorch that are installed for the peer, beside that which ddprun was built with."""
    found = sorted(path.parent.parent.name.removeprefix("python-") for path in REPO.glob(".deps/python-*/bin/python"))
    return [version for version in found if version != built_torch()]


TCMALLOC = "libtcmalloc_minimal.so.4"


def find_tcmalloc():
    for folder in ("/usr/lib", "/usr/lib64", "/usr/local/lib"):
        found = sorted(Path(folder).glob(f"**/{TCMALLOC}"))
        if found:
            return str(found[0])
    return None


def busy_cpu_s():
    """Of the whole machine, all cores, since boot; without idle and waiting for disks."""
    with open("/proc/stat") as stat:
        fields = [int(field) for field in stat.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def execute(command, environment, limit_s=RUN_LIMIT_S):
    """Runs to the end; returns stdout, and how many cores' worth others on this machine took meanwhile."""
    begin, busy, own = time.monotonic(), busy_cpu_s(), children_cpu_s()
    launch = {"BENCH_LAUNCH_NS": str(time.monotonic_ns())}
    try:
        done = subprocess.run(command, env={**os.environ, **environment, **launch}, capture_output=True, text=True,
                              timeout=limit_s, cwd=REPO)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"no end after {limit_s:.0f} s: {' '.join(command)}") from None
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()[-12:]
        raise RunFailed(f"exit status {done.returncode}: {' '.join(command)}: {' / '.join(words)}")
    others = (busy_cpu_s() - busy - children_cpu_s() + own) / (time.monotonic() - begin)
    return done.stdout, round(max(0.0, others), 2)


class Side:
    """A configuration of ddprun or PyTorch. cell: model, precision, ranks."""

    environment = {}  # added to ours

    def preloading(self, library):
        """The same, with a library preloaded."""
        other = copy.copy(self)
        other.environment = {"LD_PRELOAD": library}
        other.label = f"{self.label} + {Path(library).name.split('.')[0].removeprefix('lib').split('_')[0]}"
        return other


class Peer(Side):
    """A PyTorch configuration: words on the command line of peer/pytorch_ddp.py; torch: its version, if not ddprun's own."""

    def __init__(self, cell, words, label="", torch=""):
        self.cell, self.words, self.torch = cell, words, torch
        self.label = label or " ".join(words).replace("--strategy ", "").replace("--", "") + (f" (PyTorch {torch})" if torch else "")

    def compiled(self):
        """The same by torch.compile."""
        return Peer(self.cell, [*self.words, *PEER_COMPILED], f"{self.label} compiled", self.torch)

    def is_compiled(self):
        return "--compile" in self.words

    def forward_alone(self):
        """The same model's forward, without anything for a backward."""
        return Peer(self.cell, [*self.words, "--passes", "forward"], f"{self.label}, forward alone", self.torch)

    def run(self, warmup, steps):
        model, precision, ranks = self.cell
        command = [str(peer_python(self.torch)), str(PEER_PROGRAM), "train", "--size", model, "--world", str(ranks),
                   "--warmup", str(warmup), "--steps", str(steps), *self.words]
        if precision == "bf16":
            command.append("--bf16")
        return peer_json(command, self.environment)


def environment_of(python):
    """A PyTorch that was installed with all it depends on finds its CUDA libraries; those of `make bench` take the toolkit's."""
    if not python.startswith(str(REPO / ".deps")) or not CUDA_LIBRARIES.is_dir():
        return {}
    path = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": f"{CUDA_LIBRARIES}:{path}" if path else str(CUDA_LIBRARIES)}


def peer_json(command, environment=None, limit_s=RUN_LIMIT_S):
    out, others = execute(command, {**environment_of(command[0]), **(environment or {})}, limit_s)
    return {**json.loads(out.splitlines()[-1]), "command": command, "other_cpus": others}


def run_experiment(experiment, launcher=(), environment=None, limit_s=RUN_LIMIT_S):
    """Runs it, written as JSON, which is YAML; returns its result, and what others took."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*launcher, str(BIN / "ddprun"), "run", written(experiment, folder), "--quiet", "--output", folder]
        _, others = execute(command, environment or {}, limit_s)
        return json.loads((Path(folder) / experiment["name"] / "latest/result.json").read_text()), others


def written(experiment, folder):
    path = Path(folder) / "experiment.yaml"
    path.write_text(json.dumps(experiment, indent=1))
    return str(path)


def model_section(name):
    """Of an experiment: the preset of that name, or the dimensions of a drawn size."""
    if name in SIZES:
        return {"preset": name}
    size = size_of(name)
    own = {"vocab": "vocab_size", "context": "context_length"}  # where the names differ
    return {own.get(key, key): value for key, value in size.items() if key != "batch"}


class Ddprun(Side):
    """A ddprun configuration: an experiment."""

    limit_s = RUN_LIMIT_S
    kept = ("rank", "samples", "peak_resident_bytes", "shared_resident_bytes", "first_step_done_s", "device_memory")  # of each rank, where it is there

    def __init__(self, cell, strategy, settings=()):
        self.cell = cell
        model, precision, ranks = cell
        self.experiment = {
            "name": "bench",
            "model": model_section(model),
            "data": {"source": "random"},
            "world": {"size": ranks, "threads_per_rank": 1, "timeout_s": RUN_LIMIT_S},
            "precision": {"fp32": "fp32", "bf16": "bf16_mixed"}[precision],
            "attention": "flash",
            "strategy": strategy,
            "optimizer": {"name": "adamw", "lr": 1e-3, "betas": [0.9, 0.95], "weight_decay": 0.1},
            "train": {"batch_per_rank": size_of(model)["batch"], "warmup_steps": 5, "steps": 10},
        }
        for section, key, value in settings:
            self.experiment[section][key] = value
        words = [strategy["name"], *(f"{k}={v}" for k, v in strategy.items() if k != "name")] if isinstance(strategy, dict) else [strategy]
        self.label = " ".join(words + [f"{key}={value}" for _, key, value in settings])

    def forward_alone(self):
        """The same model's forward, without anything for a backward."""
        other = copy.deepcopy(self)
        other.experiment["train"]["measure"] = "forward"
        other.label += ", forward alone"
        return other

    def refusal(self):
        """Why this ddprun does not accept it, in its words; empty if it does."""
        with tempfile.TemporaryDirectory() as folder:
            command = [str(BIN / "ddprun"), "validate", written(self.experiment, folder)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=REPO)
            return "" if done.returncode == 0 else done.stderr.strip() or f"exit status {done.returncode}"

    def is_accepted(self):
        return not self.refusal()

    def run(self, warmup, steps):
        self.experiment["train"].update(warmup_steps=warmup, steps=steps)
        result, others = run_experiment(self.experiment, (), self.environment, self.limit_s)
        row = result["rows"][0]
        ranks = [{key: rank[key] for key in self.kept if key in rank} for rank in row["ranks"]]
        for rank in ranks:  # a sample each, as the peer has them
            columns = rank["samples"]
            rank["samples"] = [dict(zip(columns, values)) for values in zip(*columns.values())]
        return {"ranks": ranks, "proof": row["proof"], "experiment": self.experiment, "environment": result["environment"],
                "other_cpus": others}


def collectives(name, world, sweep, repeat):
    """An experiment of all-reduces in float32."""
    return {"name": name, "experiment": "collectives", "world": {"threads_per_rank": 1, "timeout_s": RUN_LIMIT_S, **world},
            "collectives": {"collective": "all_reduce", "dtype": "float32", "op": "sum"}, "repeat": repeat, "sweep": sweep}


def proved_rows(result):
    """Its rows; what was not proved is no figure."""
    for row in result["rows"]:
        if row["status"] != "ok":
            raise RunFailed(f"{row['label']}: {row['status']}: {row['reason']}")
    return result["rows"]


def collective_medians(result):
    """(backend, memory, megabytes) -> median milliseconds of the slowest rank; every row must be proved."""
    medians = {}
    for row in proved_rows(result):
        backend, memory = row["config"]["world"]["backend"], row["config"]["collectives"]["memory"]
        medians[backend, memory, row["work"]["bytes"] // 1_000_000] = row["statistics"]["time_us"]["median"] * 1e-3
    return medians


def fast_settings(cell):
    """Those of DDPRUN_FAST_SETTINGS that this ddprun accepts here."""
    return [setting for setting in DDPRUN_FAST_SETTINGS if Ddprun(cell, "flat", settings=[setting]).is_accepted()]
