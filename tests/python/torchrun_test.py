"""Joins a launch of torchrun, of each version of PyTorch that set-up has brought: its store speaks a protocol that is private to
PyTorch. Arguments: the program ddprun, the folder .deps. Exit status 77: skipped, with the reason."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

DDPRUN, DEPS = Path(sys.argv[1]), Path(sys.argv[2])
PYTHONS = sorted(path.parent / "bin/python" for path in DEPS.glob("python-*/ready"))
EXPERIMENT = {
    "name": "joined", "precision": "fp32", "attention": "eager", "strategy": "naive",
    "model": {"vocab_size": 64, "context_length": 16, "d_model": 16, "layers": 1, "heads": 2, "d_ff": 32},
    "data": {"source": "random"}, "train": {"global_batch": 2, "warmup_steps": 0, "steps": 2},
    "world": {"size": 2, "timeout_s": 60},
}


SECRET = {"DDPRUN_SECRET": "correct horse battery staple"}
RANK_0_SERVES = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


class Torchrun(unittest.TestCase):
    def launch(self, python, folder, variables):
        (Path(folder) / "joined.yaml").write_text(json.dumps(EXPERIMENT))
        command = [python, "-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node", "2",
                   DDPRUN, "joined.yaml", "--output", folder]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "LD_LIBRARY_PATH": "/usr/local/cuda/lib64", **variables}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)

    def test_every_version_is_joined(self):
        for python in PYTHONS:
            for variables in ({}, SECRET | RANK_0_SERVES):
                with self.subTest(python.parents[1].name, variables=variables), tempfile.TemporaryDirectory() as folder:
                    done = self.launch(python, folder, variables)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    row = json.loads((Path(folder) / "joined/latest/result.json").read_text())["rows"][0]
                    self.assertEqual((row["conditions"]["launch"]["launcher"], row["status"]), ("torchrun", "ok"))
                    self.assertTrue(row["proof"])
                    self.assertEqual("as torchrun trusts it" in done.stderr, not variables)

    def test_a_secret_is_not_ignored_where_torchrun_serves_the_store(self):
        for python in PYTHONS:
            with self.subTest(python.parents[1].name), tempfile.TemporaryDirectory() as folder:
                done = self.launch(python, folder, SECRET)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("torchrun's own store asks for no secret", done.stderr)


if __name__ == "__main__":
    if not PYTHONS:
        print(f"skipped: there is no PyTorch in Python below {DEPS} (scripts/setup.sh --with-bench)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
