"""The sides of `make bench-gpu`: how ddprun and PyTorch in Python are started on GPUs, and the machine's PyTorch found."""
import json
import os
import subprocess
from typing import NamedTuple

import bench_sides as sides

BATCH = 4  # sequences of one rank
BUCKET_MB = 25  # where there are several ranks, on both sides
RUN_LIMIT_S = 240

PROBE = """import json, torch
gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
print(json.dumps({"torch": torch.__version__, "gpus": gpus}))"""


class Cell(NamedTuple):
    model: str
    context: int
    precision: str  # fp32 or bf16
    ranks: int


def find_peer():
    """A Python with PyTorch: PYTHON, else python3, else that of `make bench`. Returns it and what PROBE says, or None, None."""
    for python in [os.environ["PYTHON"]] if os.environ.get("PYTHON") else ["python3", str(sides.peer_python())]:
        try:
            done = subprocess.run([python, "-c", PROBE], env={**os.environ, **sides.environment_of(python)}, capture_output=True, text=True,
                                  timeout=RUN_LIMIT_S)
        except OSError:
            continue
        if done.returncode == 0:
            return python, json.loads(done.stdout.splitlines()[-1])
    return None, None


class GpuDdprun(sides.Ddprun):
    """ddprun with one of its ways to give a GPU its work: a mode of execution, and "reference" behind it for PyTorch's operators."""

    limit_s = RUN_LIMIT_S

    def __init__(self, cell, way, device="cuda"):
        mode, *kernels = way.split()
        super().__init__((cell.model, cell.precision, cell.ranks), "none" if cell.ranks == 1 else {"name": "bucketed", "bucket_mb": BUCKET_MB})
        self.cell = cell
        self.label = way if cell.ranks == 1 else f"{way}, bucketed bucket_mb={BUCKET_MB}"
        self.experiment["model"].update(context_length=cell.context, kernels=kernels[0] if kernels else "fused")
        self.experiment["world"] = {"size": cell.ranks, "device": device, "timeout_s": RUN_LIMIT_S,
                                    **({"backend": "nccl"} if device == "cuda" else {"threads_per_rank": 1})}  # as PyTorch's
        self.experiment["attention"] = "sdpa"
        self.experiment["train"]["batch_per_rank"] = BATCH
        if mode != "eager":
            self.experiment["execution"] = {"mode": mode}


class GpuPeer(sides.Side):
    """PyTorch, with words for peer/pytorch_ddp.py."""

    def __init__(self, cell, python, label, words=(), device="cuda"):
        self.cell, self.python, self.device = cell, python, device
        strategy = ["single"] if cell.ranks == 1 else ["bucketed", "--bucket-mb", str(BUCKET_MB)]
        self.words = ["--strategy", *strategy, *words]
        self.label = label if cell.ranks == 1 else f"{label}, DDP bucket {BUCKET_MB} MB"

    def run(self, warmup, steps):
        cell = self.cell
        command = [self.python, str(sides.PEER_PROGRAM), "train", "--device", self.device, "--size", cell.model,
                   "--context", str(cell.context), "--batch", str(BATCH), "--world", str(cell.ranks),
                   "--warmup", str(warmup), "--steps", str(steps), *self.words]
        if cell.precision == "bf16":
            command.append("--bf16")
        return sides.peer_json(command, limit_s=RUN_LIMIT_S)


def device_memory(megabytes, rounds, device="cuda"):
    """10^9 bytes a second of a copy and of AdamW, one value a round: tests/benchmarks/device_memory_benchmark.cpp."""
    command = [str(sides.BIN / "device_memory_benchmark"), device, str(megabytes), str(rounds)]
    out, _ = sides.execute(command, {}, RUN_LIMIT_S)
    return json.loads(out.splitlines()[-1])
