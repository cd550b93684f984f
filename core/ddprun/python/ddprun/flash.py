"""FlashAttention-2 on the CPU for programs in PyTorch, by ddprun's kernels.

    import ddprun
    out = ddprun.flash_attention(q, k, v, is_causal=True)  # with gradients

q is (batch, heads, queries, width), k and v are (batch, heads, keys, width); without heads, (batch, time, width). float32 or
bfloat16. If is_causal, query i sees the keys 0 to i. docs/from_python.md has the rest.
"""
import pathlib
from typing import Any

import torch

from ddprun.torch_version import TORCH_VERSION

LIBRARY = pathlib.Path(__file__).resolve().parent / "libddprun_python.so"


def openmp_runtimes() -> list[str]:
    """Files of the OpenMP runtimes that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split(maxsplit=5)[5].strip() for line in maps if line.count("/")}
    return sorted(file for file in files if pathlib.Path(file).name.startswith(("libgomp", "libiomp", "libomp")))


def check_torch() -> None:
    """Raises ImportError if this PyTorch is not the one that the library was built for. Its symbols would be others."""
    version = torch.__version__.split("+")[0]
    if version != TORCH_VERSION:
        raise ImportError(f"{LIBRARY.name} was built for torch {TORCH_VERSION}, and this is torch {version}: install that version, "
                          "or build ddprun with LIBTORCH_DIR set to this torch's folder")
    runtimes = openmp_runtimes()
    if not any(pathlib.Path(file).name == "libgomp.so.1" for file in runtimes):
        raise ImportError(f"{LIBRARY.name} shares its threads with PyTorch through libgomp.so.1, and this PyTorch loaded "
                          f"{', '.join(runtimes) or 'no OpenMP runtime'}: install torch {TORCH_VERSION} from PyPI")


check_torch()
torch.ops.load_library(str(LIBRARY))
flash_attention = torch.ops.ddprun.flash_attention
flash_attention_forward = torch.ops.ddprun.flash_attention_forward
flash_attention_backward = torch.ops.ddprun.flash_attention_backward


class FlashAttention(torch.autograd.Function):
    """The same as an autograd.Function, whose saved tensors Python sees: FlashAttention.apply(q, k, v, is_causal)."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool = False) -> torch.Tensor:
        out, log_sum_exp = flash_attention_forward(q, k, v, is_causal)
        ctx.save_for_backward(q, k, v, out, log_sum_exp)
        ctx.is_causal = is_causal
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: torch.Tensor) -> tuple[Any, ...]:
        return *flash_attention_backward(grad_out, ctx.saved_tensors, ctx.is_causal), None
