"""ddprun in Python: what its experiments measured, and its attention for the CPU.

    import ddprun
    result = ddprun.load("results/quickstart")          # the latest, or a folder of one run, or its result.json
    result.rows[0]["step_ms"], result.frame()           # the table; .samples and .frame("samples"): every step of every rank
    out = ddprun.flash_attention(q, k, v, is_causal=True)

torch is imported when `flash_attention` or `FlashAttention` is first asked for, and pandas by `frame` alone.
"""
from typing import TYPE_CHECKING, Any

from ddprun.results import Result, load

if TYPE_CHECKING:
    from ddprun.flash import FlashAttention, flash_attention

__all__ = ["FlashAttention", "Result", "flash_attention", "load"]


def __getattr__(name: str) -> Any:
    if name not in ("FlashAttention", "flash_attention"):
        raise AttributeError(f"module 'ddprun' has no attribute {name!r}")
    from ddprun import flash
    return getattr(flash, name)
