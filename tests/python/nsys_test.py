"""scripts/nsys.sh: refuses in words where Nsight Systems or a GPU is missing; with programs in their places, starts the ranks under
nsys. Arguments: the script, the program ddprun."""
import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from helpers import own_folder

SCRIPT, DDPRUN = (Path(word).resolve() for word in sys.argv[1:3])
TOOLS = ("bash", "cat", "date", "dirname", "env", "grep", "mkdir", "shuf", "tail", "tr")
# Writes down what it is called with. `profile` runs the program behind its options.
NSYS = """#!/usr/bin/env bash
echo "$*" >>"$CALLS"
if [[ $1 == stats ]]; then exit "${STATS_STATUS:-0}"; fi
for word in "${@:2}"; do if [[ $word == --output=* ]]; then echo >"${word#*=}.nsys-rep"; fi; done
shift
while [[ $1 == -* ]]; do shift; done
exec "$@"
"""
NVIDIA_SMI = """#!/usr/bin/env bash
for ((index = 0; index < GPUS; ++index)); do echo "GPU $index: a GPU (UUID: GPU-$index)"; done
"""
EXPERIMENT = {
    "name": "profiled", "precision": "fp32", "attention": "eager", "sweep": {"strategy": ["flat", "naive"]},
    "model": {"vocab_size": 64, "context_length": 16, "d_model": 16, "layers": 1, "heads": 2, "d_ff": 32},
    "data": {"source": "random"}, "train": {"batch_per_rank": 1}, "world": {"size": 2, "timeout_s": 60},
}


class Nsys(unittest.TestCase):
    def setUp(self):
        self.folder = own_folder(self)
        self.bin = self.folder / "bin"
        (self.folder / "scripts").mkdir()
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.script = shutil.copy(SCRIPT, self.folder / "scripts")  # in a tree without a build
        (self.folder / "experiment.yaml").write_text(json.dumps(EXPERIMENT))

    def give(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def give_all(self):
        self.give("nsys", NSYS)
        self.give("nvidia-smi", NVIDIA_SMI)
        (self.bin / "ddprun").symlink_to(DDPRUN)

    def run_script(self, *words, **variables):
        environment = {**os.environ, "PATH": str(self.bin), "CALLS": str(self.folder / "calls"), "OUT": str(self.folder / "out"),
                       "GPUS": "2", "OMP_NUM_THREADS": "1", **variables}
        return subprocess.run([self.script, *words], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=200)

    def calls(self, kind):
        return [line for line in (self.folder / "calls").read_text().splitlines() if line.startswith(kind + " ")]

    def assert_refused(self, done, what, got):
        lines = done.stderr.splitlines()[-5:]
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual([line.split(":")[0].strip() for line in lines], ["error", "where", "got", "expected", "hint"], done.stderr)
        self.assertIn(what, lines[0])
        self.assertIn(got, lines[2])

    def test_without_nsight_systems_it_says_so(self):
        self.assert_refused(self.run_script(), "Nsight Systems is not here", "no program nsys in PATH")
        self.assertFalse((self.folder / "out").exists())

    def test_without_a_driver_or_enough_gpus_it_says_how_many_there_are(self):
        self.give("nsys", NSYS)
        self.assert_refused(self.run_script(), "too few GPUs", "0, by nvidia-smi")
        self.give("nvidia-smi", NVIDIA_SMI)
        self.assert_refused(self.run_script(GPUS="1"), "too few GPUs", "1, by nvidia-smi")
        self.assert_refused(self.run_script(GPUS="3", RANKS="4"), "too few GPUs", "3, by nvidia-smi")

    def test_a_file_that_is_not_there_and_a_tree_that_is_not_built_are_refused(self):
        self.give_all()
        self.assert_refused(self.run_script("none.yaml"), "no such experiment", "none.yaml")
        (self.bin / "ddprun").unlink()
        self.assert_refused(self.run_script("experiment.yaml"), "ddprun is not here", "none in PATH")

    def test_each_rank_of_naive_and_of_overlap_has_a_report_and_tables_of_its_last_step(self):
        self.give_all()
        done = self.run_script("experiment.yaml", "--set", "model.d_ff=48", STEPS="2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        reports = sorted(path.name for path in (self.folder / "out").glob("*.nsys-rep"))
        self.assertEqual(reports, [f"{strategy}_rank{rank}.nsys-rep" for strategy in ("naive", "overlap") for rank in (0, 1)])
        profiles, tables = self.calls("profile"), self.calls("stats")
        self.assertEqual((len(profiles), len(tables)), (4, 4))
        for call in profiles:
            self.assertRegex(call, r"--trace=cuda,nvtx\S* .*--cuda-memory-usage=true")
        for call in tables:
            self.assertRegex(call, r"--report=\S*cuda_gpu_kern_sum\S*nvtx_sum\S* .*--filter-nvtx=step@ddprun/6 ")
        results = [json.loads(path.read_text()) for path in sorted((self.folder / "out/results/profiled").glob("2*/result.json"))]
        self.assertEqual([result["rows"][0]["config"]["strategy"]["name"] for result in results], ["naive", "overlap"])
        for row in (result["rows"][0] for result in results):
            self.assertEqual((row["status"], len(row["ranks"]), row["config"]["model"]["d_ff"]), ("ok", 2, 48))
            self.assertEqual(sum(not warmup for warmup in row["ranks"][1]["samples"]["warmup"]), 2)

    def test_a_rank_that_fails_and_tables_that_fail_end_it(self):
        self.give_all()
        self.assert_refused(self.run_script("experiment.yaml", STRATEGIES="no_such"), "no_such did not run to its end", "")
        self.assert_refused(self.run_script("experiment.yaml", STRATEGIES="none", RANKS="1", STATS_STATUS="3"), "no tables of", "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
