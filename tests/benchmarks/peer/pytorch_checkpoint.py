#!/usr/bin/env python3
"""Saves and loads tensors by PyTorch's distributed checkpoint on two gloo ranks, also while the program goes on, and copies them;
prints the slower rank's seconds as JSON."""
import argparse
import json
import os
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as multiprocessing
from host_memory import warm

RANKS = 2
TENSORS = 120  # of each kind, about as many as the model has
KINDS = ("parameter", "exp_avg", "exp_avg_sq")


def elements_of(size):
    """Of a tensor."""
    return size // 4 // len(KINDS) // TENSORS


def state_of(size):
    """Replicated, as DistributedDataParallel has it: DCP lets each rank write a part of the tensors."""
    return {f"{kind}.{i}": torch.rand(elements_of(size)) for kind in KINDS for i in range(TENSORS)}


def beside(folder):
    """Where async_save writes: the other checkpoint is read later."""
    return f"{folder}-async"


def slowest(seconds):
    value = torch.tensor([seconds])
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item()


def begin_rank(rank, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    dist.init_process_group("gloo")
    torch.set_num_threads(1)


def seconds_of(work, *args, **kwargs):
    """Of the slower rank, and what `work` returned."""
    dist.barrier()
    begin = time.monotonic()
    returned = work(*args, **kwargs)
    return slowest(time.monotonic() - begin), returned


def copy_part(state, copies, rank):
    for name, value in list(state.items())[rank::RANKS]:  # each rank a part, as with a save
        copies[name].copy_(value)


def save(rank, args, results):
    begin_rank(rank, 29533)
    state = state_of(args.bytes)
    result = {"save_s": seconds_of(dcp.save, state, checkpoint_id=args.folder)[0]}
    copies = {name: value.clone() for name, value in state.items()}  # touches the pages
    result["copy_s"] = seconds_of(copy_part, state, copies, rank)[0]
    for _ in range(2):  # the first one starts a process
        shutil.rmtree(beside(args.folder), ignore_errors=True)
        result["async_stall_s"], under_way = seconds_of(dcp.async_save, state, checkpoint_id=beside(args.folder))
        under_way.result()
    results.put(result)
    dist.destroy_process_group()


def load(rank, args, results):
    """In a process of its own, as a run that goes on is: it has its parameters, and no moments yet."""
    begin_rank(rank, 29534)
    warm(2 * args.bytes)
    elements = elements_of(args.bytes)
    state = {f"{kind}.{i}": torch.rand(elements) if kind == "parameter" else torch.empty(elements) for kind in KINDS for i in range(TENSORS)}
    results.put({"load_s": seconds_of(dcp.load, state, checkpoint_id=args.folder)[0]})
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--bytes", type=int, required=True)
    args = parser.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    results, of_all = multiprocessing.get_context("spawn").SimpleQueue(), {}
    for work in (save, load):
        multiprocessing.spawn(work, (args, results), RANKS)
        for _ in range(RANKS):  # equal, as they are the slower rank's
            of_all |= results.get()
    shutil.rmtree(beside(args.folder))
    print(json.dumps(of_all), flush=True)


if __name__ == "__main__":
    main()
