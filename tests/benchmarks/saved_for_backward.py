#!/usr/bin/env python3
"""Holds what ddprun records as saved for backward against PyTorch's own record of the same model, block for block.

    PYTHONPATH=.deps/torch-site tests/benchmarks/saved_for_backward.py --program build/release/bin/ddprun

ddprun runs with `kernels: reference`, attention `eager` and `profile: {memory: true}`, on one rank; its record is
profile/01/memory.json. PyTorch runs the model of peer/pytorch_ddp.py with the same operators, under
torch.autograd.graph.saved_tensors_hooks: each storage counts once, for the unit that made it; parameters and tables do not count.
Exit status 1 if a unit differs by more than --most percent.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peer"))
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from pytorch_ddp import Block, LanguageModel, rotate_complex  # noqa: E402

FILE = """
model: {{preset: tiny, vocab_size: {vocab}, context_length: {context}, d_model: {d_model}, d_ff: {d_ff}, layers: {layers}, heads: {heads},
  kernels: reference}}
data: {{source: random}}
strategy: {{name: none, unsynchronized: true}}
precision: {precision}
attention: eager
optimizer: {{name: adamw, lr: 1e-3}}
train: {{batch_per_rank: {batch}, warmup_steps: 2, steps: 1}}
profile: {{memory: true}}
output: {{dir: {output}}}
"""


class EagerBlock(Block):
    """With attention as ddprun's `eager` computes it, and heads turned where they lie."""

    def attention(self, x, tables):
        batch, time, d = x.shape
        heads = (batch, time, self.heads, d // self.heads)
        turns = tables[0][:, None, :]
        q, k = (rotate_complex(part(x).view(heads), turns).transpose(1, 2) for part in (self.q, self.k))
        v = self.v(x).view(heads).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))
        weights = torch.softmax(scores.masked_fill(self.future, -math.inf), -1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class Saved:
    """Bytes that autograd saves, by the unit that made them."""

    def __init__(self, model):
        self.bytes, self.unit = {}, ""
        fixed = [*model.parameters(), *model.buffers(), model.blocks[0].future]
        self.known = {each.untyped_storage().data_ptr() for each in fixed}
        self.kept, self.maker = [], {}

    def pack(self, tensor):
        place = tensor.untyped_storage().data_ptr()
        if place not in self.known:
            self.known.add(place)
            self.kept.append(tensor.untyped_storage())  # so that its place is nobody else's
            unit = self.maker.get(place, self.unit)
            self.bytes[unit] = self.bytes.get(unit, 0) + tensor.untyped_storage().nbytes()
        return tensor

    def made(self, tensor, unit):
        self.maker[tensor.untyped_storage().data_ptr()] = unit
        return tensor


def by_pytorch(size, precision):
    torch.manual_seed(0)
    args = types.SimpleNamespace(**size, fused_linears=False, rope="complex", norm="own")
    model = LanguageModel(args)
    model.blocks = torch.nn.ModuleList(EagerBlock(args) for _ in range(args.layers))
    future = torch.ones(args.context, args.context, dtype=torch.bool).triu(1)
    for block in model.blocks:
        block.future = future
    ids = torch.randint(args.vocab, (2, args.batch, args.context))
    saved = Saved(model)
    saved.known |= {each.untyped_storage().data_ptr() for each in (ids, future)}
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda tensor: tensor), \
            torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16_mixed"):
        saved.unit = "token_embeddings"
        x = saved.made(F.embedding(ids[0], model.embedding), saved.unit)
        for number, block in enumerate(model.blocks):
            saved.unit = f"layers.{number}"
            x = saved.made(block(x, (model.rope0,)), saved.unit)
        saved.unit = "head"
        logits = model.head(model.norm(x))
        F.cross_entropy(logits.float().flatten(0, 1), ids[1].flatten())
    return saved.bytes


def by_ddprun(program, size, precision):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "saved.yaml"
        file.write_text(FILE.format(precision=precision, output=folder + "/results", **size))
        subprocess.run([program, "run", str(file), "--quiet"], check=True, stdout=subprocess.DEVNULL)
        record = json.loads(next(pathlib.Path(folder).rglob("profile/01/memory.json")).read_text())
    found = {}
    for block in record["blocks"]:
        if block["category"] == "saved for backward":
            found[block["unit"]] = found.get(block["unit"], 0) + block["bytes"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--most", type=float, default=2.0, help="percent that a unit may differ by")
    options = parser.parse_args()
    size = dict(vocab=3000, context=96, d_model=256, d_ff=704, layers=4, heads=4, batch=6)
    worst = 0.0
    print("| precision | unit | ddprun bytes | PyTorch bytes | difference |\n|---|---|---|---|---|")
    for precision in ("fp32", "bf16_mixed"):
        ours, theirs = by_ddprun(options.program, size, precision), by_pytorch(size, precision)
        for unit in dict.fromkeys([*theirs, *ours]):
            mine, yours = ours.get(unit, 0), theirs.get(unit, 0)
            off = 100 * (mine / yours - 1) if yours else 100.0
            worst = max(worst, abs(off))
            print(f"| {precision} | {unit} | {mine:,} | {yours:,} | {off:+.2f} % |")
    return 1 if worst > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
