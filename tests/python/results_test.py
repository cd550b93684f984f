"""ddprun.load on what an experiment of each kind leaves. Arguments: the folder of the package ddprun, the command ddprun."""
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from helpers import own_folder

FOLDER, PROGRAM = sys.argv[1:3]
sys.path.insert(0, FOLDER)
import ddprun  # noqa: E402

EXPERIMENTS = {
    "training": "model: {preset: tiny, vocab_size: 256, context_length: 16, layers: 1}\nworld: {size: 2}\nprecision: fp32\nattention: sdpa\n"
                "train: {global_batch: 2, warmup_steps: 1, steps: 3}\nreport: {repeats: 2}\n"
                "sweep: {strategy: [flat, {name: bucketed, bucket_mb: 5}]}\n",
    "collectives": "experiment: collectives\nworld: {size: 2, backend: gloo}\ncollectives: {collective: all_reduce}\n"
                   "repeat: {warmup: 1, count: 4}\nsweep: {collectives.bytes: [1000, 2000]}\n",
    "attention": "experiment: attention\nattention_call: {length: 32, head_dim: 16}\nrepeat: {warmup: 1, count: 3}\n"
                 "sweep: {attention: [sdpa, flash]}\n",
    "precision": "experiment: precision\ndemonstration: {name: accumulation}\nsweep: {demonstration.sum: [float32, float16]}\n",
    "arithmetic": "experiment: arithmetic\narithmetic: {d_model: 8, d_ff: 32, layers: 2, tflops: 1, link_gb_per_s: 1}\n"
                  "sweep: {arithmetic.data_ranks: [1, 2]}\n",
}
# A figure, the swept key's values, and how many samples there are: rows x runs x ranks x (warm-up and measured) steps.
EXPECTED = {
    "training": ("step_ms", "strategy.name", ["flat", "bucketed"], 2 * 2 * 2 * 4),
    "collectives": ("time_us", "collectives.bytes", [1000, 2000], 2 * 2 * 5),
    "attention": ("time_ms", "attention.name", ["sdpa", "flash"], 2 * 4),
    "precision": ("sum", "demonstration.sum", ["float32", "float16"], 2),
    "arithmetic": ("state_gb", "arithmetic.data_ranks", [1, 2], 2),
}


class Results(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = own_folder(cls)
        cls.results = cls.folder / "results"
        for kind, text in EXPERIMENTS.items():
            file = cls.folder / f"{kind}.yaml"
            file.write_text(text, encoding="utf-8")
            subprocess.run([PROGRAM, file, "--output", cls.results, "--quiet"], check=True, stdout=subprocess.DEVNULL)

    def test_rows_and_samples_of_every_kind(self):
        for kind, (figure, key, values, samples) in EXPECTED.items():
            with self.subTest(kind=kind):
                result = ddprun.load(self.results / kind)
                self.assertEqual([row[key] for row in result.rows], values)
                for row in result.rows:
                    self.assertEqual((row["kind"], row["status"], row["proof"]), (kind, "ok", "passed"))
                    self.assertIsInstance(row[figure], float)
                self.assertEqual(len(result.samples), samples)
                self.assertEqual({sample["label"] for sample in result.samples}, {row["label"] for row in result.rows})

    def test_a_row_is_made_of_its_samples(self):
        result = ddprun.load(self.results / "training")
        runs = {}
        for sample in result.samples:
            if sample["row"] == 1 and not sample["warmup"]:
                runs.setdefault(sample["run"], {}).setdefault(sample["step"], []).append(sample["step_ms"])
        medians = [sorted(max(ranks) for ranks in steps.values())[1] for steps in runs.values()]
        self.assertEqual(result.rows[1]["runs"], 2)
        self.assertAlmostEqual(result.rows[1]["step_ms"], sum(medians) / 2)
        self.assertIn("step_ms_std", result.rows[1])

    def test_a_folder_a_time_and_a_file_are_the_same(self):
        latest = self.results / "collectives/latest"
        for path in (latest, latest.resolve(), latest / "result.json", str(latest)):
            self.assertEqual(ddprun.load(path).data, ddprun.load(self.results / "collectives").data)

    def test_a_later_verification_is_no_result(self):
        experiment = self.results.parent / "training.yaml"
        measured = ddprun.load(self.results / "training").data
        subprocess.run([PROGRAM, "verify", experiment, "--output", self.results], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(ddprun.load(self.results / "training/latest").data, measured)

    def test_where_latest_led_to_may_be_gone(self):
        measured = self.results / "training/latest"
        kept = self.results / "kept"
        kept.mkdir()
        shutil.copytree(measured, kept / "T1")
        (kept / "latest").symlink_to("T2")
        self.assertEqual(ddprun.load(kept).data, ddprun.load(measured).data)

    def test_what_is_no_result_is_refused_in_a_sentence(self):
        with self.assertRaisesRegex(FileNotFoundError, "no result.json in .*nowhere"):
            ddprun.load(self.results / "nowhere")
        other = self.results / "other.json"
        other.write_text('{"schema_version": 1}', encoding="utf-8")
        with self.assertRaisesRegex(ValueError, "schema 1, and this ddprun reads schema"):
            ddprun.load(other)

    def test_a_row_that_did_not_run_says_why(self):
        file = self.folder / "without_mpi.yaml"
        file.write_text(EXPERIMENTS["collectives"].replace("collectives.bytes: [1000, 2000]", "world.backend: [mpi, gloo]"), encoding="utf-8")
        subprocess.run([PROGRAM, file, "--output", self.results, "--quiet"], check=False, capture_output=True)
        rows = ddprun.load(self.results / "without_mpi").rows
        self.assertEqual([(row["status"], row["proof"]) for row in rows], [("not here", None), ("ok", "passed")])
        self.assertRegex(rows[0]["reason"], "(?i)mpi")
        self.assertEqual([row["time_us"] is None for row in rows], [True, False])

    def test_frames_where_pandas_is(self):
        result = ddprun.load(self.results / "attention")
        try:
            import pandas  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pip install pandas"):
                result.frame()
            return
        self.assertEqual(list(result.frame()["attention.name"]), ["sdpa", "flash"])
        self.assertEqual(len(result.frame("samples")), len(result.samples))

    def test_neither_torch_nor_pandas_is_imported_for_it(self):
        program = "import sys, ddprun; ddprun.load(sys.argv[1]); print({'torch', 'pandas'} & set(sys.modules))"
        done = subprocess.run([sys.executable, "-c", program, self.results / "precision"], env={"PYTHONPATH": FOLDER},
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "set()\n")
        with self.assertRaisesRegex(AttributeError, "no attribute 'flash_atention'"):
            ddprun.flash_atention


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
