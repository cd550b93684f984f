#!/usr/bin/env python3
"""PyTorch computing attention alone: the side that `make bench WHAT=attention` compares with.

    pytorch_attention.py operators --lengths 256,1024,4096 --head-dim 64 --batch 8 [--bf16]
    pytorch_attention.py compiled ...      the same operators, by torch.compile
    pytorch_attention.py sdpa ...          scaled_dot_product_attention

Attention without heads or mask, forward and backward, on one thread. Prints one JSON object: of each length the samples, with
the keys of ddprun's `experiment: attention` and the same meaning (docs/measurement.md), and how long the first call took.
"""
import argparse
import json
import math
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch reads it
os.environ.setdefault("MKL_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402


def operators(q, k, v):
    """As one writes it down; each operator reads and writes the whole matrix of scores."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(scores, -1) @ v


def attention_of(how):
    # A length has its own code, as if it were the only one.
    return {"operators": operators, "sdpa": F.scaled_dot_product_attention,
            "compiled": torch.compile(operators, dynamic=False) if how == "compiled" else None}[how]


def call(attention, inputs, gradient):
    """Milliseconds of one call: to the output, and from there to the gradients of q, k and v."""
    begin = time.perf_counter()
    output = attention(*inputs)
    middle = time.perf_counter()
    torch.autograd.grad(output, inputs, gradient)
    end = time.perf_counter()
    return {"forward_ms": (middle - begin) * 1e3, "backward_ms": (end - middle) * 1e3, "time_ms": (end - begin) * 1e3}


def samples_of(attention, length, args):
    """The first call's seconds, and the samples of `count` calls, or of `seconds` and three at least."""
    shape = (args.batch, 1, length, args.head_dim)
    dtype = torch.bfloat16 if args.bf16 else torch.float32
    inputs = [torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(3)]
    gradient = torch.randn(shape, dtype=dtype)
    first = call(attention, inputs, gradient)["time_ms"] / 1e3
    for _ in range(args.warmup):
        call(attention, inputs, gradient)
    samples, end = [], time.perf_counter() + args.seconds
    while len(samples) < args.count and (len(samples) < 3 or time.perf_counter() < end):
        samples.append(call(attention, inputs, gradient))
    return {"first_s": first, "samples": samples}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("how", choices=["operators", "compiled", "sdpa"])
    parser.add_argument("--lengths", default="256,1024,4096")
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--bf16", action="store_true", help="q, k and v in bfloat16")
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    attention = attention_of(args.how)
    lengths = {length: samples_of(attention, int(length), args) for length in args.lengths.split(",")}
    print(json.dumps(dict(torch=torch.__version__, options=vars(args), lengths=lengths)))


if __name__ == "__main__":
    main()
