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

RANKS = 2
TENSORS = 120  # of each kind, about as many as the model has


def state_of(size):
    """Replicated, as DistributedDataParallel has it: DCP lets each rank write a part of the tensors."""
    elements = size // 4 // 3 // TENSORS
    return {f"{kind}.{i}": torch.rand(elements) for kind in ("parameter", "exp_avg", "exp_avg_sq") for i in range(TENSORS)}


def slowest(seconds):
    value = torch.tensor([seconds])
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item()


def run(rank, args):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533", "RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    state = state_of(args.bytes)
    result = {}
    for name, work in (("save_s", dcp.save), ("load_s", dcp.load)):
        if work is dcp.load:  # a program that goes on has its parameters, and no moments yet
            state = {key: value if key.startswith("parameter") else torch.empty_like(value) for key, value in state.items()}
        dist.barrier()
        begin = time.monotonic()
        work(state, checkpoint_id=args.folder)
        result[name] = slowest(time.monotonic() - begin)
    copies = {name: torch.empty_like(value) for name, value in state.items()}
    for name, value in state.items():  # touches the pages
        copies[name].copy_(value)
    dist.barrier()
    begin = time.monotonic()
    for name, value in list(state.items())[rank::RANKS]:  # each rank a part, as with a save
        copies[name].copy_(value)
    result["copy_s"] = slowest(time.monotonic() - begin)
    for _ in range(2):  # the first one starts a process
        shutil.rmtree(args.folder, ignore_errors=True)
        dist.barrier()
        begin = time.monotonic()
        under_way = dcp.async_save(state, checkpoint_id=args.folder)
        result["async_stall_s"] = slowest(time.monotonic() - begin)
        under_way.result()
    if rank == 0:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--bytes", type=int, required=True)
    args = parser.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    multiprocessing.spawn(run, (args,), RANKS)


if __name__ == "__main__":
    main()
