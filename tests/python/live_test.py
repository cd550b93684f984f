"""Live outputs as those read them who are meant to: jq's lines, TensorBoard, node_exporter, mlperf-logging, experiment trackers.

Arguments: the command ddprun, the folder of the package ddprun, the folder of the Python that benchmarks use, the folder where set-up puts
TensorBoard and mlperf-logging. What these two read is skipped where they are not there."""
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

from helpers import own_folder

PROGRAM, PACKAGE, BENCH, SITE = sys.argv[1:5]
PYTHON = Path(BENCH) / "bin/python" if (Path(BENCH) / "bin/python").exists() else Path(sys.executable)
TO_WANDB = Path(__file__).parents[2] / "docs/examples/to_wandb.py"
EXPERIMENT = """
name: live
model: {vocab_size: 256, context_length: 16, d_model: 32, d_ff: 64, layers: 1, heads: 2}
data: {source: random}
world: {size: 2}
precision: fp32
attention: eager
optimizer: {name: adamw, lr: 0.01, clip_norm: 1, schedule: {name: cosine, warmup_steps: 2, min_lr: 0.001}}
train: {global_batch: 4, warmup_steps: 1, steps: 3, eval: {every: 2, batches: 1}}
"""
SWEEP = "sweep: {strategy: [flat, naive]}\nreport: {repeats: 2}\n"
ALL = "output: {jsonl: true, tensorboard: true, mllog: true, prometheus: ddprun.prom}\n"
TENSORBOARD = """
import json, sys
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
events = [event for event in LegacyEventFileLoader(sys.argv[1]).Load()]
print(json.dumps([events[0].file_version] + [[event.step, event.wall_time, {value.tag: value.simple_value for value in event.summary.value}]
                                             for event in events[1:]]))
"""
# The checker takes the benchmarks of MLCommons alone, and ends where it looks for the rules of this one: other complaints there must be none.
CHECKER = """
import json, sys
from mlperf_logging.compliance_checker import mlp_compliance
checker = mlp_compliance.make_checker("training", sys.argv[2], quiet=False, werror=False)
try:
    checker.check_file(sys.argv[1], f"training_{sys.argv[2]}/common.yaml")
except FileNotFoundError as rules:
    assert "open_ddprun live" in str(rules), rules
print(json.dumps([*checker.not_overwritable, *checker.overwritable.values()]))
"""
STUB = """
import json
def _call(name):
    def call(*arguments, **named):
        with open("calls.jsonl", "a") as file:
            file.write(json.dumps([name, arguments, named]) + "\\n")
        return _Run()
    return call
class _Run:
    def __enter__(self):
        return self
    def __exit__(self, *_):
        _call("end_run")()
"""


def run(folder, text, *more):
    (folder / "live.yaml").write_text(text, encoding="utf-8")
    return subprocess.run([PROGRAM, "live.yaml", "--quiet", *more], cwd=folder, capture_output=True, text=True, check=False)


def lines_of(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = own_folder(cls)
        done = run(cls.folder, EXPERIMENT + ALL + SWEEP)
        assert done.returncode == 0, done.stderr
        cls.result = cls.folder / "results/live/latest"
        cls.rows = json.loads((cls.result / "result.json").read_text(encoding="utf-8"))["rows"]

    def read_by(self, program, *arguments):
        done = subprocess.run([PYTHON, "-c", program, *arguments], env=dict(os.environ, PYTHONPATH=SITE), capture_output=True, text=True,
                              check=False)
        if "ModuleNotFoundError" in done.stderr:
            self.skipTest(done.stderr.strip().splitlines()[-1] + "; scripts/setup.sh --with-tests fetches it")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def samples_of(self, number):
        return self.rows[number - 1]["ranks"][0]["samples"]

    def test_runs_and_rows_do_not_mix(self):
        self.assertEqual(sorted(path.name for path in (self.result / "live").iterdir()), ["01", "02", "03", "04"])
        for number, row in enumerate(self.rows, 1):
            *steps, end = lines_of(self.result / f"live/{number:02}/steps.jsonl")
            samples = self.samples_of(number)
            for key in ("step", "warmup", "loss", "step_ms", "gradient_norm"):
                self.assertEqual([line[key] for line in steps], samples[key], key)
            self.assertEqual([line.get("validation_loss") for line in steps], samples["validation_loss"])
            self.assertEqual(len({line["lr"] for line in steps}), 4, "the schedule changes it")
            for line in (*steps, end):
                self.assertEqual((line["row"], line["run"]), (row["label"], f"{number:02}"))
                self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
                self.assertLess(abs(line["time_s"] - time.time()), 3600)
            self.assertEqual((end["status"], end["steps_done"], end["steps"]), ("ok", 4, 4))
            self.assertAlmostEqual(steps[2]["tokens_per_s"], 4 * 16 / steps[2]["step_ms"] * 1e3, delta=1)

    def test_tensorboard_reads_the_events(self):
        (file,) = (self.result / "live/02").glob("events.out.tfevents.*")
        version, *events = self.read_by(TENSORBOARD, file)
        self.assertEqual(version, "brain.Event:2")
        samples = self.samples_of(2)
        self.assertEqual([step for step, _, _ in events], samples["step"])
        for index, (_, wall_time, values) in enumerate(events):
            self.assertLess(abs(wall_time - time.time()), 3600)
            self.assertAlmostEqual(values["train/loss"], samples["loss"][index], places=5)
            self.assertAlmostEqual(values["train/step_ms"] / samples["step_ms"][index], 1, places=5)
        self.assertAlmostEqual(events[1][2]["validation/loss"], samples["validation_loss"][1], places=5)
        self.assertNotIn("validation/loss", events[0][2])

    def test_the_checker_of_mlperf_refuses_the_benchmark_alone(self):
        file = self.result / "live/01/mllog.txt"
        self.assertIn("Not an MLPerf result", file.read_text(encoding="utf-8").splitlines()[0])
        for rules in ("5.1.0", "6.1.0"):
            complaints = self.read_by(CHECKER, file, rules)
            refused = [each for each in complaints if each.startswith("CHECK for 'submission_benchmark' failed")]
            no_rules = [each for each in complaints if each.startswith("Could not find config file")]
            self.assertEqual((len(refused), len(no_rules), len(complaints)), (1, 1, 2), (rules, complaints))

    def test_mlperf_is_told_what_the_experiment_says(self):
        lines = (self.result / "live/01/mllog.txt").read_text(encoding="utf-8").splitlines()[1:]
        told = {line["key"]: line["value"] for line in (json.loads(each.removeprefix(":::MLLOG ")) for each in lines)}
        for key, value in {"micro_batch_size": 2, "gradient_accumulation_steps": 1, "max_steps": 4, "tensor_parallelism": 1,
                           "lowest_numerical_precision_in_linear": "fp32", "lowest_numerical_precision_in_attn": "fp32",
                           "lowest_numerical_precision_in_comm": "fp32", "opt_learning_rate_decay_schedule": "cosine with linear warmup",
                           "opt_learning_rate_decay_steps": 2}.items():
            self.assertEqual(told[key], value, key)
        self.assertTrue((self.result / told["config_filename"]).exists())

    def test_prometheus_takes_the_file(self):
        text = (self.folder / "ddprun.prom").read_text(encoding="utf-8")
        if promtool := shutil.which("promtool"):
            subprocess.run([promtool, "check", "metrics"], input=text, text=True, check=True)
        values = {}
        lines = text.splitlines()
        self.assertTrue(text.endswith("\n"))
        for about, kind, sample in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
            name = re.match(r"# HELP (\w+) \S.*$", about)[1]
            self.assertRegex(kind, rf"^# TYPE {name} (gauge|counter)$")
            self.assertEqual(kind.endswith("counter"), name.endswith("_total"))
            values[name] = float(re.match(rf'{name}\{{row="strategy=naive",run="04"\}} (\S+)$', sample)[1])
        self.assertEqual((values["ddprun_step"], values["ddprun_running"], values["ddprun_tokens_total"]), (4, 0, 4 * 4 * 16))
        self.assertEqual(values["ddprun_loss"], self.samples_of(4)["loss"][-1])

    def test_it_is_there_while_the_run_trains_and_may_fail(self):
        folder = own_folder(self)
        (folder / "metrics").mkdir()
        text = EXPERIMENT.replace("steps: 3", "steps: 1000000") + "strategy: flat\n" + ALL.replace("ddprun.prom", "metrics/a.prom")
        (folder / "live.yaml").write_text(text, encoding="utf-8")
        with subprocess.Popen([PROGRAM, "live.yaml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            self.wait_for(lambda: list(folder.glob("results/live/2*/live/01/steps.jsonl")))
            (file,) = folder.glob("results/live/2*/live/01/steps.jsonl")
            self.wait_for(lambda: file.stat().st_size > 0 and (folder / "metrics/a.prom").exists())
            self.assertIsNone(process.poll())
            shutil.rmtree(folder / "metrics")
            time.sleep(2.5)  # the file is written once a second
            before = file.stat().st_size
            self.wait_for(lambda: file.stat().st_size > before)
            process.terminate()
            said = process.communicate()[1]
        self.assertEqual(said.count("output.prometheus is off"), 1, said)
        for line in file.read_text(encoding="utf-8").splitlines():
            json.loads(line)

    def wait_for(self, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_a_run_whose_ranks_fail_says_so(self):
        folder = own_folder(self)
        done = run(folder, EXPERIMENT + "strategy: flat\noutput: {jsonl: true}\n", "--set", "optimizer={name: sgd, lr: 1e30}")
        self.assertEqual(done.returncode, 1)
        (file,) = folder.glob("results/live/2*/live/01/steps.jsonl")
        self.assertEqual(lines_of(file)[-1]["status"], "diverged")

    def test_prometheus_alone_leaves_the_result_as_it_is(self):
        folder = own_folder(self)
        done = run(folder, EXPERIMENT + "strategy: flat\noutput: {prometheus: a.prom}\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('ddprun_step{row="live",run="01"} 4\n', (folder / "a.prom").read_text(encoding="utf-8"))
        (result,) = folder.glob("results/live/2*")
        self.assertFalse((result / "live").exists())
        with_it = json.loads((result / "result.json").read_text(encoding="utf-8"))["rows"][0]
        self.assertEqual(run(folder, EXPERIMENT + "strategy: flat\n", "--output", "plain").returncode, 0)
        without = json.loads((folder / "plain/live/latest/result.json").read_text(encoding="utf-8"))["rows"][0]
        self.assertEqual(with_it["fingerprint"], without["fingerprint"], "the same experiment")

    def test_bad_input(self):
        folder = own_folder(self)
        collectives = "experiment: collectives\nworld: {size: 2}\n"
        for text, words in ((EXPERIMENT + "strategy: flat\noutput: {tensorboard: 3}\n", "'tensorboard' in output has the wrong type"),
                            (EXPERIMENT + "strategy: flat\noutput: {prometheus: .}\n", "output.prometheus cannot be written"),
                            (EXPERIMENT + "strategy: flat\noutput: {prometheus: no/a.prom}\n", "No such file or directory"),
                            (collectives + "collectives: {collective: all_reduce}\noutput: {jsonl: true}\n", "output.jsonl")):
            done = run(folder, text)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertIn("live.yaml:", done.stderr)
        self.assertEqual([path.name for path in folder.iterdir()], ["live.yaml"])

    def test_trackers_get_each_run(self):
        for module, begin, log in (("wandb", "init", "log"), ("trackio", "init", "log"), ("mlflow", "start_run", "log_metrics")):
            with self.subTest(module):
                folder = own_folder(self)
                functions = "init log finish" if module != "mlflow" else "set_experiment start_run log_params log_metrics"
                (folder / f"{module}.py").write_text(STUB + "".join(f"{each} = _call('{each}')\n" for each in functions.split()))
                done = self.copy(folder, module)
                self.assertEqual(done.returncode, 0, done.stderr)
                calls = lines_of(folder / "calls.jsonl")
                begins = [named for name, _, named in calls if name == begin]
                self.assertEqual([named.get("name") or named.get("run_name") for named in begins],
                                 ["flat #1", "flat #2", "naive #1", "naive #2"])
                logged = [(arguments[0], named["step"]) for name, arguments, named in calls if name == log]
                self.assertEqual([step for _, step in logged], [0, 1, 2, 3] * 4)
                self.assertEqual([metrics["loss"] for metrics, _ in logged[:4]], self.samples_of(1)["loss"])

    def test_a_tracker_that_is_not_there_is_said(self):
        folder = own_folder(self)
        (folder / "wandb.py").write_text("raise ImportError('broken')")
        done = self.copy(folder, "wandb")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--to wandb needs the package wandb (pip install wandb): broken", done.stderr)

    def copy(self, folder, module):
        return subprocess.run([sys.executable, TO_WANDB, self.result, "--to", module], cwd=folder, capture_output=True, text=True, check=False,
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join((str(folder), PACKAGE))))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
