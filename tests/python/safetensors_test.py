"""Checkpoints beside Hugging Face's safetensors: it reads ours, and we read what it writes.

Arguments: the command ddprun, the folder where set-up puts the library (without it: exit status 77, as skipped)."""
import json
import subprocess
import sys
import unittest
from pathlib import Path

from helpers import fetched, own_folder

PROGRAM, SITE = sys.argv[1:3]
safetensors = fetched("safetensors", SITE)

EXPERIMENT = """
name: mine
model: {vocab_size: 256, context_length: 16, d_model: 32, d_ff: 64, layers: 2, heads: 2}
data: {source: random}
world: {size: 2}
attention: eager
optimizer: {name: adamw, lr: 0.01}
"""
NAMES = {"F32": "float32", "BF16": "bfloat16", "I64": "int64", "F16": "float16"}


class Safetensors(unittest.TestCase):
    def setUp(self):
        self.folder = own_folder(self)
        (self.folder / "e.yaml").write_text(EXPERIMENT)

    def run_row(self, *sets):
        words = [word for each in sets for word in ("--set", each)]
        done = subprocess.run([PROGRAM, "e.yaml", "--quiet", *words], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.folder / "results/mine/latest/result.json").read_text())["rows"][0]

    def save(self, strategy, precision):
        return self.run_row(f"strategy={strategy}", f"precision={precision}", "model.kernels=reference",
                            "train={batch_per_rank: 2, warmup_steps: 1, steps: 3, checkpoint: {every: 4, path: saved}}")

    def test_the_library_reads_each_file_of_ours(self):
        for strategy, precision in (("zero2", "fp32"), ("{name: local_sgd, every: 2}", "bf16_pure"), ("powersgd", "fp32")):
            with self.subTest(strategy=strategy):
                self.save(strategy, precision)
                folder = self.folder / "saved/step-00000004"
                files = sorted(folder.glob("*.safetensors"))
                hashes = json.loads((folder / "state.json").read_text())["files"]
                self.assertEqual({file.name for file in files}, set(hashes))
                for file in files:
                    tensors = dict(safetensors.deserialize(file.read_bytes()))
                    self.assertEqual(set(tensors), set(hashes[file.name]["tensors"]))
                subprocess.run(["rm", "-rf", self.folder / "saved"], check=True)

    def test_what_the_library_writes_begins_the_same_run(self):
        self.save("flat", "fp32")
        file = self.folder / "saved/step-00000004/model.safetensors"
        tensors = dict(safetensors.deserialize(file.read_bytes()))
        rewritten = {name: {"dtype": NAMES[tensor["dtype"]], "shape": tensor["shape"], "data": bytes(tensor["data"])}
                     for name, tensor in tensors.items()}
        safetensors.serialize_file(rewritten, str(self.folder / "theirs.safetensors"), {"by": "Python"})
        self.assertNotEqual(file.read_bytes(), (self.folder / "theirs.safetensors").read_bytes(), "another order and header")
        train = "train={batch_per_rank: 2, warmup_steps: 0, steps: 2}"
        rows = [self.run_row("strategy=flat", "precision=fp32", train, f"model.init_from={path}")
                for path in (file, self.folder / "theirs.safetensors")]
        self.assertEqual(rows[0]["ranks"][0]["parameter_hash"], rows[1]["ranks"][0]["parameter_hash"])
        self.assertEqual(rows[0]["ranks"][0]["samples"]["loss"], rows[1]["ranks"][0]["samples"]["loss"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
