#!/usr/bin/env python3
"""PyTorch doing ddprun's job, as fast as we could make it: the side that `make bench` compares with.

    pytorch_ddp.py train --size tiny --strategy bucketed --bucket-mb 5 [--bf16] [--world 2]
    pytorch_ddp.py train --device cuda --size small --context 512 --strategy single --world 1 --bf16 [--compile]
    pytorch_ddp.py all_reduce --megabytes 1,10,100
    pytorch_ddp.py adamw --size peer-small --world 1

Prints one JSON object. `train` gives every sample of every rank, with the keys that ddprun's result.json has and the
same meaning (docs/measurement.md). One compute thread a rank; ranks are processes of this machine over gloo, or with
one GPU each over NCCL.
"""
import argparse
import gc
import json
import math
import os
import socket
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch reads it
os.environ.setdefault("MKL_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from sizes import size_of  # noqa: E402

# What was tried to make this side fast: least CPU time of a step, one rank, variants in turn in one process, on a busy machine,
# so differences below some 5 % may be noise.
#   complex RoPE               peer-small bf16 500 -> 463 ms, tiny bf16 137 -> 124, fp32 219 -> 210, peer-small fp32 equal: taken
#   q, k, v and w1, w3 fused   peer-small bf16 500 -> 459, with complex RoPE 440; fp32 and tiny equal: taken
#   F.rms_norm or own          equal within 1 %: F.rms_norm
#   tcmalloc preloaded         peer-small bf16 475 -> 404: the side "tuned"
#   THP_MEM_ALLOC_ENABLE=1 (also with tcmalloc), glibc's mmap and trim thresholds with huge pages: up to 6 % either way, not taken
#   torch.compile              tiny fp32, RoPE by pairs, 274 -> 230, after 47 to 130 s of compiling; bf16, beside other programs, least step
#                              247 -> 145 after 200 s; two ranks at least twice as long: a side of its own,
#                              `make bench WHAT=step ARGS=--compile`
#   Python's bytecode          launch to first step 55 -> 20 s: scripts/setup_bench.sh writes it, as pip would
# Bucket size, static_graph, pinning and zero1 are tried by bench.py in every run.
# Not tried, as they change the result: float32 matrix products in bfloat16, parameters in bfloat16.

# ---------------------------------------------------------------- model: pre-norm decoder, RoPE, SwiGLU, no biases


class Linear(nn.Module):
    def __init__(self, inputs, outputs, std_outputs=None):
        super().__init__()
        std = math.sqrt(2.0 / (inputs + (std_outputs or outputs)))
        self.weight = nn.Parameter(nn.init.trunc_normal_(torch.empty(outputs, inputs), 0.0, std, -3 * std, 3 * std))

    def forward(self, x):
        return F.linear(x, self.weight)


class RMSNorm(nn.Module):
    def __init__(self, width, own, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.own, self.eps = own, eps

    def forward(self, x):
        if not self.own:
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        dtype, x = x.dtype, x.float()
        return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight).to(dtype)


def rotate_pairs(x, cos, sin):
    """Adjacent pairs of the last dimension turned by their position's angle; x: (batch, heads, time, head_dim)."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).to(x.dtype)


def rotate_complex(x, turns):
    """The same as one complex product."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


class Block(nn.Module):
    def __init__(self, args):
        super().__init__()
        d, f = args.d_model, args.d_ff
        self.heads, self.fused, self.complex_rope = args.heads, args.fused_linears, args.rope == "complex"
        self.norm1, self.norm2 = RMSNorm(d, args.norm == "own"), RMSNorm(d, args.norm == "own")
        if self.fused:
            self.qkv, self.up = Linear(d, 3 * d, d), Linear(d, 2 * f, f)
        else:
            self.q, self.k, self.v = Linear(d, d), Linear(d, d), Linear(d, d)
            self.w1, self.w3 = Linear(d, f), Linear(d, f)
        self.o, self.w2 = Linear(d, d), Linear(f, d)

    def forward(self, x, tables):
        x = x + self.attention(self.norm1(x), tables)
        return x + self.feed_forward(self.norm2(x))

    def attention(self, x, tables):
        batch, time_, d = x.shape
        parts = self.qkv(x).chunk(3, -1) if self.fused else (self.q(x), self.k(x), self.v(x))
        q, k, v = (part.view(batch, time_, self.heads, d // self.heads).transpose(1, 2) for part in parts)
        rotate = rotate_complex if self.complex_rope else rotate_pairs
        y = F.scaled_dot_product_attention(rotate(q, *tables), rotate(k, *tables), v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(batch, time_, d))

    def feed_forward(self, x):
        gate, up = self.up(x).chunk(2, -1) if self.fused else (self.w1(x), self.w3(x))
        return self.w2(F.silu(gate) * up)


class LanguageModel(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embedding = nn.Parameter(nn.init.trunc_normal_(torch.empty(args.vocab, args.d_model), 0.0, 1.0, -3.0, 3.0))
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm, self.head = RMSNorm(args.d_model, args.norm == "own"), Linear(args.d_model, args.vocab)
        head_dim = args.d_model // args.heads
        frequency = 10000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        angle = torch.arange(args.context).float()[:, None] * frequency
        tables = (torch.polar(torch.ones_like(angle), angle),) if args.rope == "complex" else (angle.cos(), angle.sin())
        for index, table in enumerate(tables):
            self.register_buffer(f"rope{index}", table, persistent=False)
        self.table_count = len(tables)

    def forward(self, ids):
        x = F.embedding(ids, self.embedding)
        tables = [getattr(self, f"rope{index}")[: ids.shape[1]] for index in range(self.table_count)]
        for block in self.blocks:
            x = block(x, tables)
        return self.head(self.norm(x))


# ---------------------------------------------------------------- moments of a step


class CpuClock:
    def mark(self):
        return time.perf_counter()

    def finish(self):
        pass

    def ms(self, begin, end):
        return (end - begin) * 1e3


class CudaClock:
    """Events in the stream: nothing in the step waits for them, as in ddprun."""

    def mark(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def finish(self):
        torch.cuda.synchronize()

    def ms(self, begin, end):
        return begin.elapsed_time(end)


# ---------------------------------------------------------------- strategies
# backward(loss) returns two moments: the last gradient is final on this rank; every gradient is the mean over the ranks.
# DistributedDataParallel waits for its buckets inside backward(), so a hook takes the first.


class Single:
    def __init__(self, model, args, clock):
        self.args, self.model, self.clock = args, model, clock
        self.parameters = list(model.parameters())
        self.forward = model
        self.setup()
        if args.compile:
            self.compile()
        self.optimizer = self.make_optimizer()

    def setup(self):
        if self.args.world > 1:
            for parameter in self.parameters:
                dist.broadcast(parameter.data, 0)

    def make_optimizer(self):
        return torch.optim.AdamW(self.parameters, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def compile(self):
        self.loss = torch.compile(self.loss)

    def loss(self, ids, targets):
        # Autocast computes cross_entropy in float32.
        return F.cross_entropy(self.forward(ids).flatten(0, 1), targets.flatten())

    def backward(self, loss):
        loss.backward()
        done = self.clock.mark()
        self.synchronize()
        return done, self.clock.mark()

    def synchronize(self):
        pass


class Naive(Single):
    def synchronize(self):
        for parameter in self.parameters:
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(self.args.world)


class Flat(Single):
    def synchronize(self):
        gradients = [parameter.grad for parameter in self.parameters]
        flat = torch._utils._flatten_dense_tensors(gradients)
        dist.all_reduce(flat)
        flat.div_(self.args.world)
        for parameter, view in zip(self.parameters, torch._utils._unflatten_dense_tensors(flat, gradients)):
            parameter.grad = view  # no copy back


class Overlap(Single):
    def setup(self):
        super().setup()
        self.pending = []
        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(
                lambda p: self.pending.append((dist.all_reduce(p.grad, async_op=True), p)))

    def synchronize(self):
        for work, parameter in self.pending:
            work.wait()
            parameter.grad.div_(self.args.world)
        self.pending.clear()


class Bucketed(Single):
    def setup(self):
        self.last_gradient = None
        if self.args.device == "cpu":  # an event for each gradient of a GPU would cost what it measures
            for parameter in self.parameters:
                parameter.register_post_accumulate_grad_hook(self.gradient_is_final)
        self.forward = nn.parallel.DistributedDataParallel(
            self.model, bucket_cap_mb=self.args.bucket_mb, gradient_as_bucket_view=True, broadcast_buffers=False,
            static_graph=self.args.static_graph)

    def compile(self):
        self.forward = torch.compile(self.forward)

    def gradient_is_final(self, _):
        self.last_gradient = self.clock.mark()

    def backward(self, loss):
        loss.backward()
        return self.last_gradient, self.clock.mark()


class Zero1(Bucketed):
    def make_optimizer(self):
        from torch.distributed.optim import ZeroRedundancyOptimizer
        return ZeroRedundancyOptimizer(self.parameters, optimizer_class=torch.optim.AdamW, lr=1e-3, betas=(0.9, 0.95),
                                       weight_decay=0.1, fused=True)


class Fsdp(Single):
    """FSDP2: a unit a block, and one of all the rest."""

    def setup(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh(self.args.device, (self.args.world,))
        for block in self.model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.parameters = list(self.model.parameters())


STRATEGIES = dict(single=Single, naive=Naive, flat=Flat, overlap=Overlap, bucketed=Bucketed, zero1=Zero1, fsdp=Fsdp)

# ---------------------------------------------------------------- what a rank measures


def barrier(world):
    if world > 1:
        dist.barrier()


def proc_bytes(file, key):
    with open(f"/proc/self/{file}") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def resident_memory(world):
    """The peak, and what of it counts for other processes that share it: RSS - PSS, while all ranks are there."""
    barrier(world)
    memory = dict(peak_resident_bytes=proc_bytes("status", "VmHWM:"),
                  shared_resident_bytes=proc_bytes("smaps_rollup", "Rss:") - proc_bytes("smaps_rollup", "Pss:"))
    barrier(world)
    return memory


def run_forward(strategy, args, ids):
    """Its loss, and the moments begin and loss there."""
    begin = strategy.clock.mark()
    ids = ids.to(args.device, non_blocking=True)
    with torch.no_grad(), torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.bf16):
        loss = strategy.loss(ids[:, :-1], ids[:, 1:])
    return loss, (begin, strategy.clock.mark())


def run_step(strategy, args, ids):
    """Its loss; its moments: begin, loss there, last gradient (or None), all gradients averaged, end."""
    if args.passes == "forward":
        return run_forward(strategy, args, ids)
    clock = strategy.clock
    begin = clock.mark()
    strategy.optimizer.zero_grad(set_to_none=True)
    ids = ids.to(args.device, non_blocking=True)
    with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.bf16):
        loss = strategy.loss(ids[:, :-1], ids[:, 1:])
    forward = clock.mark()
    backward, synchronized = strategy.backward(loss)
    strategy.optimizer.step()
    return loss, (begin, forward, backward, synchronized, clock.mark())


def sample_of(clock, moments):
    if len(moments) == 2:
        return {"step_ms": clock.ms(*moments), "forward_ms": clock.ms(*moments)}
    begin, forward, backward, synchronized, end = moments
    sample = {"step_ms": clock.ms(begin, end), "forward_ms": clock.ms(begin, forward),
              "backward_ms": clock.ms(forward, backward or synchronized), "optimizer_ms": clock.ms(synchronized, end)}
    if backward is not None:
        sample["synchronize_ms"] = clock.ms(backward, synchronized)
    return sample


def busy_ms(strategy, args, ids, step_ms):
    """Milliseconds of steps on the GPU alone: each waits behind a kernel that spins while the host gives it the whole step."""
    times = []
    for _ in range(5):
        torch.cuda._sleep(int(2 * step_ms * 2e6))  # cycles, of some 2 GHz
        _, moments = run_step(strategy, args, ids)
        strategy.clock.finish()
        times.append(strategy.clock.ms(moments[0], moments[-1]))
    return times


def train(rank, args):
    torch.manual_seed(0)
    on_gpu = args.device == "cuda"
    clock = CudaClock() if on_gpu else CpuClock()
    with torch.device(args.device):
        model = LanguageModel(args)
    strategy = STRATEGIES[args.strategy](model, args, clock)
    generator = torch.Generator().manual_seed(1000 + rank)
    batches = [torch.randint(args.vocab, (args.batch, args.context + 1), generator=generator) for _ in range(8)]
    if on_gpu:
        batches = [batch.pin_memory() for batch in batches]
    samples, first_step_done_s, losses = [], None, []
    for index in range(args.warmup + args.steps):
        if index == args.warmup:
            gc.collect()
            gc.disable()
            if on_gpu:
                torch.cuda.reset_peak_memory_stats()
        ids = batches[index % len(batches)]
        barrier(args.world)
        loss, moments = run_step(strategy, args, ids)
        clock.finish()
        if first_step_done_s is None:
            first_step_done_s = (time.monotonic_ns() - args.launch_ns) * 1e-9
        samples.append({"step": index, "warmup": index < args.warmup, **sample_of(clock, moments)})
        losses.append(loss.item())
        del loss
    result = dict(rank=rank, samples=samples, losses=losses, first_step_done_s=first_step_done_s, **resident_memory(args.world))
    if on_gpu:
        result.update(gpu=torch.cuda.get_device_name(), peak_allocated_bytes=torch.cuda.max_memory_allocated())
    if args.busy:
        result["busy_ms"] = busy_ms(strategy, args, ids, samples[-1]["step_ms"])
    checksum = sum(parameter.detach().double().abs().sum().item() for parameter in strategy.parameters)
    return dict(result, checksum=checksum)


def all_reduce(rank, args):
    """Milliseconds of each call, by size; the caller takes the slowest rank of each."""
    times = {}
    for megabytes in args.megabytes.split(","):
        data = torch.ones(int(float(megabytes) * 1e6) // 4)
        times[megabytes] = []
        calls = 60 if data.numel() < 1e6 else 20 if data.numel() < 1e7 else 7
        for index in range(1 + calls):
            data.fill_(1.0)
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(data)
            if index > 0:
                times[megabytes].append((time.perf_counter() - begin) * 1e3)
    return times


def adamw(rank, args):
    """Milliseconds of each update of the model's parameters."""
    strategy = Single(LanguageModel(args), args, CpuClock())
    for parameter in strategy.parameters:
        parameter.grad = torch.randn_like(parameter)
    times = []
    for _ in range(args.warmup + args.steps):
        begin = time.perf_counter()
        strategy.optimizer.step()
        times.append((time.perf_counter() - begin) * 1e3)
    return dict(adamw_ms=times[args.warmup:])


# ---------------------------------------------------------------- ranks


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_rank(rank, measure, args, port):
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    if args.pin:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    gpu = torch.device("cuda", rank) if args.device == "cuda" else None
    if gpu:
        torch.cuda.set_device(gpu)
    if args.world > 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("nccl" if gpu else "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                                world_size=args.world, device_id=gpu)
    result = measure(rank, args)
    results = [result]
    if args.world > 1:
        results = [None] * args.world
        dist.all_gather_object(results, result)
    if rank == 0:
        options = {name: value for name, value in vars(args).items() if name != "launch_ns"}
        print(json.dumps(dict(torch=torch.__version__, options=options, ranks=results)), flush=True)
    if args.world > 1:
        dist.barrier()
        os._exit(0)  # gloo's threads and the interpreter's own exit do not always agree in torch 2.11


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", choices=["train", "all_reduce", "adamw"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda, of train: one GPU a rank")
    parser.add_argument("--size", type=size_of, default="tiny", help="of sizes.py, or drawn-SEED")
    parser.add_argument("--context", type=int, default=0, help="tokens in a sequence; default: the size's")
    parser.add_argument("--batch", type=int, default=0, help="sequences of a rank; default: the size's")
    parser.add_argument("--strategy", choices=list(STRATEGIES), default="bucketed")
    parser.add_argument("--bucket-mb", type=float, default=25)
    parser.add_argument("--static-graph", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="autocast")
    parser.add_argument("--norm", choices=["own", "torch"], default="torch")
    parser.add_argument("--rope", choices=["pairs", "complex"], default="complex")
    parser.add_argument("--fused-linears", action=argparse.BooleanOptionalAction, default=True,
                        help="q, k, v as one matrix, w1 and w3 as one")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--passes", choices=["step", "forward"], default="step", help="of train; forward: alone, without gradients")
    parser.add_argument("--busy", action="store_true", help="of one rank on a GPU: also what a step takes on the GPU alone")
    parser.add_argument("--pin", action="store_true", help="each rank to one core")
    parser.add_argument("--start", choices=["spawn", "fork"], default="spawn")
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--megabytes", default="1,10,100")
    args = parser.parse_args()
    # The caller may say when it started this process, in time.monotonic_ns().
    args.launch_ns = int(os.environ.get("BENCH_LAUNCH_NS", time.monotonic_ns()))
    for name, value in args.size.items():
        setattr(args, name, getattr(args, name, 0) or value)
    if args.device == "cuda" and args.measure != "train":
        parser.error("only train runs on a GPU")
    if args.busy and (args.device, args.world) != ("cuda", 1):
        parser.error("--busy is of one rank on a GPU")
    measure = dict(train=train, all_reduce=all_reduce, adamw=adamw)[args.measure]
    if args.world == 1:
        run_rank(0, measure, args, 0)
    else:
        mp.start_processes(run_rank, args=(measure, args, free_port()), nprocs=args.world, start_method=args.start)


if __name__ == "__main__":
    main()
