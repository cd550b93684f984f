"""A run that begins here and goes on in PyTorch, and the other way round. Arguments: the command ddprun, the folder of PyTorch's
virtual environment, the folder of the safetensors library. Exit status 77: skipped, with the reason."""
import json
import subprocess
import sys
import unittest
from pathlib import Path

from helpers import fetched, own_folder, torch_or_skip

PROGRAM, SITE = sys.argv[1], sys.argv[3]
torch = torch_or_skip(sys.argv[2])
load_file = fetched("safetensors.torch", SITE).load_file
from course_model import Transformer  # noqa: E402

TEXT = "".join(f"word {i * i} of {i}, " for i in range(2000)).encode()
CONTEXT, BATCH, BEFORE, STEPS = 16, 4, 6, 20
SIZES = {"width": 32, "inner": 64, "layers": 2, "heads": 2}
EXPERIMENT = f"""
name: mine
model: {{vocab_size: 256, context_length: {CONTEXT}, d_model: 32, d_ff: 64, layers: 2, heads: 2}}
data: {{source: text, path: [text.txt], order: sequential}}
world: {{size: 2}}
attention: eager
precision: fp32
optimizer: {{name: adamw, lr: 0.003, betas: [0.9, 0.95], eps: 1.0e-8, weight_decay: 0.1}}
"""
BOUND = 2e-5  # relative; steps add up rounding


def batch(step):
    """Windows of the text, one after another (docs/model_and_data.md)."""
    begins = [(step * BATCH + sample) * CONTEXT for sample in range(BATCH)]
    windows = torch.tensor([list(TEXT[begin : begin + CONTEXT + 1]) for begin in begins])
    return windows[:, :-1], windows[:, 1:]


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), lr=0.003, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)


def train(model, optimizer, steps):
    losses = []
    for step in steps:
        optimizer.zero_grad()
        loss = model.loss(*batch(step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class TrainingGoesOn(unittest.TestCase):
    def setUp(self):
        self.folder = own_folder(self)
        (self.folder / "e.yaml").write_text(EXPERIMENT)
        (self.folder / "text.txt").write_bytes(TEXT)
        torch.manual_seed(3)

    def losses(self, strategy, *sets):
        words = [word for each in (f"strategy={strategy}", *sets) for word in ("--set", each)]
        done = subprocess.run([PROGRAM, "e.yaml", "--quiet", *words], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        ranks = json.loads((self.folder / "results/mine/latest/result.json").read_text())["rows"][0]["ranks"]
        return [sum(at) / len(at) for at in zip(*(rank["samples"]["loss"] for rank in ranks))]

    def assert_near(self, ours, theirs):
        self.assertEqual(len(ours), len(theirs))
        for step, (a, b) in enumerate(zip(ours, theirs)):
            self.assertLess(abs(a - b), BOUND * abs(b), f"step {step}: {a} and {b}")

    def test_from_here_to_python(self):
        for strategy in ("bucketed", "zero2", "fsdp"):
            with self.subTest(strategy=strategy):
                saved = f"train.checkpoint={{every: {BEFORE}, keep: 0, path: {strategy}}}"
                ours = self.losses(strategy, f"train={{global_batch: {BATCH}, warmup_steps: 0, steps: {BEFORE + STEPS}}}", saved)
                folder = self.folder / strategy / f"step-{BEFORE:08}"
                model = Transformer(256, **SIZES)
                model.load_state_dict(load_file(folder / "model.safetensors"))
                optimizer, moments = optimizer_of(model), load_file(folder / "optimizer.safetensors")
                for name, parameter in model.named_parameters():
                    state = {key: moments[f"{name}.{key}"] for key in ("exp_avg", "exp_avg_sq")}
                    optimizer.state[parameter] = {"step": torch.tensor(float(BEFORE)), **state}
                self.assert_near(ours[BEFORE:], train(model, optimizer, range(BEFORE, BEFORE + STEPS)))

    def test_from_python_to_here(self):
        model = Transformer(256, **SIZES)
        before = optimizer_of(model)
        train(model, before, range(100, 100 + BEFORE))
        torch.save(model.state_dict(), self.folder / "weights.pt")
        # As the course's save_checkpoint does, of a model that is compiled and wrapped.
        wrapped = {f"_orig_mod.module.{name}": value for name, value in model.state_dict().items()}
        torch.save({"model": wrapped, "optimizer": before.state_dict(), "iteration": BEFORE}, self.folder / "loop.pt")
        torch.save(model.half().state_dict(), self.folder / "half.pt")
        model.float().load_state_dict(torch.load(self.folder / "weights.pt"))
        theirs = train(model, optimizer_of(model), range(STEPS))
        length = f"train={{global_batch: {BATCH}, warmup_steps: 0, steps: {STEPS}}}"
        for file in ("weights.pt", "loop.pt"):
            with self.subTest(file=file):
                self.assert_near(self.losses("bucketed", length, f"model.init_from={file}"), theirs)
        self.assertLess(abs(self.losses("bucketed", length, "model.init_from=half.pt")[0] - theirs[0]), 1e-3)

    def test_what_torch_save_writes_of_something_else(self):
        def refusal(value, **options):
            torch.save(value, self.folder / "other.pt", **options)
            words = ("--set", "model.init_from=other.pt", "--set", "strategy=flat", "--set", "train={batch_per_rank: 2, steps: 2}")
            done = subprocess.run([PROGRAM, "validate", "e.yaml", *words], cwd=self.folder, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            return done.stderr
        self.assertIn("an object that is no dict", refusal(torch.ones(3)))
        self.assertIn("a dict without tensors", refusal({"epoch": 3}))
        self.assertIn("is not there", refusal({"w": torch.ones(3)}))
        self.assertIn("expected: a dict of tensors", refusal(Transformer(256, **SIZES)))
        self.assertIn("not a whole file", refusal({"w": torch.ones(3)}, _use_new_zipfile_serialization=False))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
