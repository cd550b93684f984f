"""Tests of what `make bench-gpu` computes, with made-up results; run by it: cd tests/benchmarks && python3 -m unittest bench_gpu_test"""
import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import bench_gpu as bench
import bench_gpu_report as report
import bench_gpu_sides as gpu_sides
import bench_sides as sides
from bench_gpu_sides import Cell, GpuDdprun, GpuPeer
from peer.sizes import SIZES

CASE = {"model": "small", "context": 512, "precision": "bf16", "ranks": 1, "variant": "compiled"}
ROW_OF = {"variant": "", **{key: CASE[key] for key in ("model", "context", "precision", "ranks")}}


def run_of(*steps, busy=None, **of_rank):
    """A run of one rank whose steps took these milliseconds; the first is a warm-up."""
    rank = {"samples": [{"step_ms": ms, "warmup": index == 0} for index, ms in enumerate(steps)], **of_rank}
    if busy:
        rank["busy_ms"] = busy
    return {"ranks": [rank]}


def arguments(*words):
    args = bench.read_arguments(list(words))
    args.python, args.peak = "python3", 1000.0
    return args


class Fake:
    """A side with known runs, one after another; a text is a failure."""

    def __init__(self, label, *runs):
        self.label, self.runs, self.calls = label, list(runs), []

    def run(self, warmup, steps):
        self.calls.append((warmup, steps))
        run = self.runs.pop(0)
        if isinstance(run, str):
            raise sides.RunFailed(run)
        return run


class Utilization(unittest.TestCase):
    def test_it_is_six_a_token_and_weight_and_half_of_attention_over_the_peak(self):
        size = dict(vocab=100, context=8, d_model=4, d_ff=16, layers=2)
        matrices = 2 * (4 * 16 + 3 * 64) + 400
        operations = 6 * matrices * 24 + 6 * 2 * 4 * 8 * 24
        # 3 sequences in 2 ms at a peak of as many operations in 1 ms.
        self.assertAlmostEqual(report.mfu_percent(size, 3, 2.0, operations * 1e-9), 50.0)

    def test_the_longest_name_counts_and_an_unknown_device_has_no_peak(self):
        self.assertEqual(report.peak_tflops("NVIDIA H100 80GB HBM3"), 989.4)
        self.assertEqual(report.peak_tflops("NVIDIA H100 PCIe"), 756.5)
        self.assertEqual(report.peak_tflops("NVIDIA H200"), 989.4)
        self.assertIsNone(report.peak_tflops("GeForce 256"))


class Goals(unittest.TestCase):
    def row(self, what, ours, theirs, **case):
        return report.make_row(what, {**CASE, **case}, "", [[ours]], [[theirs]], ("", ""))

    def test_a_step_is_held_against_the_compiled_one_in_bf16_alone(self):
        self.assertTrue(self.row("step", 95, 100)["met"])
        self.assertFalse(self.row("step", 96, 100)["met"])
        for other in ({"variant": "eager"}, {"precision": "fp32"}, {"model": "tiny"}):
            self.assertIsNone(self.row("step", 1, 100, **other)["goal"])

    def test_utilization_is_held_against_itself_and_not_against_the_other_side(self):
        for ours, met in ((50, True), (49, False)):
            self.assertEqual(self.row("MFU", ours, 60, model="xl-2025", variant="")["met"], met)
        self.assertIsNone(self.row("MFU", 1, 60, variant="")["met"])

    def test_overhead_must_be_half_and_as_a_graph_a_quarter(self):
        for variant, goal in (("eager", 0.5), ("cuda_graph", 0.25)):
            self.assertTrue(self.row("host overhead", goal, 1, model="tiny", variant=variant)["met"])
            self.assertFalse(self.row("host overhead", goal + 0.01, 1, model="tiny", variant=variant)["met"])

    def test_adamw_must_come_near_the_copy_at_a_gigabyte(self):
        self.assertTrue(self.row("AdamW against copy", 85, 100, model="1000 MB", variant="")["met"])
        self.assertFalse(self.row("AdamW against copy", 84, 100, model="1000 MB", variant="")["met"])
        self.assertIsNone(self.row("AdamW against copy", 1, 100, model="100 MB", variant="")["met"])

    def test_goals_say_which_way_they_are(self):
        self.assertEqual([str(report.Goal("ratio", False, 0.95)), str(report.Goal("ddprun", True, 50))], ["≤ 0.95", "ddprun ≥ 50"])


class Table(unittest.TestCase):
    def test_one_line_a_row_and_equally_many_cells(self):
        rows = [report.make_row("step", CASE, "ms", [[9.5]], [[10]], ("eager", "compiled")),
                report.make_row("step", CASE, "ms", [[9.5]], "out of memory", ("eager", "compiled")),
                {"what": "step", **ROW_OF, "failed": "no\nsuch | thing"}]
        lines = report.table(rows).splitlines()
        self.assertEqual({line.count("|") for line in lines}, {15})
        self.assertIn("| ≤ 0.95 | yes |", lines[2])
        self.assertIn("| out of memory | – | ≤ 0.95 | – |", lines[3])
        self.assertIn("failed: no such / thing", lines[4])

    def test_a_lack_of_memory_is_said_in_three_words(self):
        self.assertEqual(report.why("exit status 1: ...: torch.OutOfMemoryError: CUDA out of memory. Tried"), "out of memory")
        self.assertEqual(report.why("exit status 1: something else"), "exit status 1: something else")


class Time(unittest.TestCase):
    def budget(self, minutes, *moments):
        return bench.Budget(minutes, mock.Mock(side_effect=moments))

    def test_what_would_take_longer_is_not_begun(self):
        budget = self.budget(1, 0, 0, 0, 50, 50)
        self.assertTrue(budget.allows(60))
        self.assertFalse(budget.allows(11))

    def test_without_a_limit_all_is_begun(self):
        self.assertTrue(self.budget(0, 0, 1e6, 1e6).allows(1e6))

    def test_guesses_that_were_too_low_make_the_next_higher(self):
        budget = self.budget(10, 0, 0, 0, 300, 300)
        self.assertTrue(budget.allows(120))  # and took 300: twice as long with a minute on both
        self.assertFalse(budget.allows(151))

    def test_the_plans_are_as_long_as_they_say(self):
        for words, minutes, models in (((), 9.5, report.STEP_MODELS), (("--quick",), 4, ("small", "xl-2025"))):
            args = arguments(*words)
            seconds, covered = 0, []
            for what, guess, case, _ in bench.planned(args):
                if seconds + guess <= minutes * 60:
                    seconds += guess
                    covered.append(case["model"])
            self.assertLessEqual(set(models), set(covered))
            self.assertEqual(args.minutes, minutes)


class Plans(unittest.TestCase):
    def test_models_and_contexts_make_a_grid(self):
        args = arguments("step", "--models", "small,large", "--contexts", "128,1024", "--ranks", "2")
        self.assertEqual(args.cells, [Cell(model, context, "bf16", 2) for model in ("small", "large") for context in (128, 1024)])

    def test_contexts_alone_are_of_all_models(self):
        self.assertEqual(len(arguments("--contexts", "128").cells), len({model for model, _ in bench.CELLS}))

    def test_every_model_has_steps_guesses_and_a_size(self):
        models = {model for model, _ in bench.CELLS} | {"tiny"}
        self.assertLessEqual(models, set(bench.STEPS) & set(bench.ROUND_S) & set(bench.COMPILE_S) & set(SIZES))

    def test_every_part_is_planned(self):
        for part, rows in (("memory", 1), ("overhead", 2), ("step", len(bench.CELLS))):
            self.assertEqual(len(list(bench.planned(arguments(part)))), rows)

    def test_what_is_not_known_is_refused(self):
        for words in (["speed"], ["--models", "huge"], ["--contexts", "128,x"], ["--contexts", "0"]):
            with self.assertRaises(SystemExit) as refused, contextlib.redirect_stderr(io.StringIO()):
                bench.read_arguments(words)
            self.assertEqual(refused.exception.code, 2)

    def test_dry_run_lists_all(self):
        self.assertEqual(len(bench.describe_plan(arguments()).splitlines()), 3 + len(bench.CELLS))


class BothSides(unittest.TestCase):
    """The same model, batch and optimizer."""

    def test_the_experiment_is_the_cells(self):
        experiment = GpuDdprun(Cell("xl-2025", 1024, "bf16", 2), "cuda_graph").experiment
        self.assertEqual(experiment["model"], {"preset": "xl-2025", "context_length": 1024, "kernels": "fused"})
        by_operators = GpuDdprun(Cell("tiny", 128, "bf16", 1), "cuda_graph reference").experiment
        self.assertEqual((by_operators["model"]["kernels"], by_operators["execution"]), ("reference", {"mode": "cuda_graph"}))
        self.assertEqual((experiment["world"]["device"], experiment["world"]["backend"], experiment["world"]["size"]), ("cuda", "nccl", 2))
        self.assertEqual(experiment["execution"], {"mode": "cuda_graph"})
        self.assertEqual((experiment["precision"], experiment["strategy"]["name"]), ("bf16_mixed", "bucketed"))
        self.assertNotIn("execution", GpuDdprun(Cell("tiny", 128, "fp32", 1), "eager").experiment)

    def test_the_peers_command_is_the_cells(self):
        side = GpuPeer(Cell("small", 512, "bf16", 1), "python3", "compiled", sides.PEER_COMPILED)
        out = '{"ranks": []}\n'
        with mock.patch.object(sides, "execute", return_value=(out, 0.0)) as execute:
            side.run(3, 7)
        words = " ".join(execute.call_args[0][0][2:])
        self.assertEqual(words, "train --device cuda --size small --context 512 --batch 4 --world 1 --warmup 3 --steps 7 "
                                "--strategy single --compile --rope pairs --bf16")

    def test_only_the_benchs_own_python_takes_the_toolkits_libraries(self):
        with mock.patch.object(sides, "CUDA_LIBRARIES", sides.REPO):
            self.assertEqual(sides.environment_of("python3"), {})
            self.assertIn(str(sides.REPO), sides.environment_of(str(sides.peer_python()))["LD_LIBRARY_PATH"])


class Rows(unittest.TestCase):
    """The rows of a cell, with sides that give known runs."""

    def setUp(self):
        patch = mock.patch.object(bench, "say")
        patch.start()
        self.addCleanup(patch.stop)

    def rows(self, measure, cell, own, peers, *words, refused=None):
        args = arguments(*words)
        peers = list(peers)
        with mock.patch.object(bench, "own_sides", return_value=(own, refused or {})), \
                mock.patch.object(bench, "GpuPeer", side_effect=lambda *_, **__: peers.pop(0)):
            return measure(cell, args, [])

    def memory(self, bytes_):
        return {"device_memory": {"peak_allocated_bytes": bytes_}}

    def test_step_mfu_and_memory_of_the_faster_way(self):
        graph = Fake("cuda_graph", run_of(9, 10, 12), run_of(9, 10, 10))
        graph.runs[0]["ranks"][0].update(self.memory(2e6))
        graph.runs[1]["ranks"][0].update(self.memory(2e6))
        eager = Fake("eager", run_of(99, 20, 20))
        peers = [Fake("eager", *2 * [run_of(99, 40, 40, peak_allocated_bytes=3e6)]),
                 Fake("compiled", *2 * [run_of(99, 20, 20, peak_allocated_bytes=4e6)])]
        cell = Cell("small", 512, "bf16", 1)
        rows = {(row["what"], row["variant"]): row for row in
                self.rows(bench.step_rows, cell, {"ddprun eager": eager, "ddprun cuda_graph": graph}, peers)}
        self.assertEqual(len(eager.calls), 1)
        self.assertEqual(graph.calls, 2 * [bench.STEPS["small"]])
        step = rows["step", "compiled"]
        self.assertEqual((step["ddprun_choice"], step["ddprun"]["median"]), ("cuda_graph", 10))
        self.assertAlmostEqual(step["ratio"]["median"], 0.525)
        self.assertAlmostEqual(rows["step", "eager"]["ratio"]["low"], 0.25)
        mfu = rows["MFU", ""]
        self.assertAlmostEqual(mfu["ddprun"]["median"], report.mfu_percent({**SIZES["small"], "context": 512}, 4, 10, 1000.0))
        self.assertEqual(mfu["peer_choice"], "compiled")
        self.assertEqual((rows["peak memory of a GPU", ""]["ddprun"]["median"], rows["peak memory of a GPU", ""]["peer"]["median"]), (2, 4))

    def test_a_peer_without_memory_is_a_cell_and_runs_once(self):
        own = {"ddprun eager": Fake("eager", *2 * [run_of(9, 10, **self.memory(1e6))])}
        small = Fake("compiled", "exit status 1: CUDA out of memory")
        rows = self.rows(bench.step_rows, Cell("xl-2025", 1024, "bf16", 1), own,
                         [Fake("eager", *2 * [run_of(9, 20, peak_allocated_bytes=1e6)]), small])
        self.assertEqual(len(small.calls), 1)
        compiled = next(row for row in rows if row["variant"] == "compiled")
        self.assertEqual((compiled["peer_failed"], compiled["ratio"], compiled["met"]), ("out of memory", None, None))
        self.assertEqual(next(row for row in rows if row["what"] == "MFU")["peer_choice"], "eager")

    def test_all_peers_failing_leaves_our_figures(self):
        own = {"ddprun eager": Fake("eager", *2 * [run_of(9, 10, **self.memory(1e6))])}
        rows = self.rows(bench.step_rows, Cell("small", 512, "bf16", 1), own, [Fake("eager", "broken"), Fake("compiled", "broken")])
        self.assertEqual({(row["ddprun"]["round_medians"] != [], row["peer_failed"]) for row in rows}, {(True, "broken")})

    def test_no_run_of_ours_is_a_failed_cell(self):
        cell = Cell("small", 512, "bf16", 1)
        with self.assertRaisesRegex(sides.RunFailed, "out of memory"):
            self.rows(bench.step_rows, cell, {"ddprun eager": Fake("eager", "out of memory")},
                      [Fake("eager", run_of(1, 1), run_of(1, 1)), Fake("compiled", run_of(1, 1), run_of(1, 1))])
        with self.assertRaisesRegex(sides.RunFailed, "not here"):
            self.rows(bench.step_rows, cell, {}, [], refused={"eager": "not here"})

    def test_overhead_is_what_the_gpu_does_not_need(self):
        own = {"ddprun eager": Fake("eager", run_of(9, 2.0), run_of(9, 2.5)), "ddprun cuda_graph": Fake("cuda_graph", run_of(9, 1.5), run_of(9, 1.5))}
        peer = Fake("eager", run_of(9, 5.0, busy=[1.0, 1.0, 9.0]), run_of(9, 5.0, busy=[1.0]))
        rows = {(row["what"], row["variant"]): row for row in self.rows(bench.overhead_rows, Cell("tiny", 128, "bf16", 1), own, [peer])}
        eager, graph = (rows["host overhead", mode] for mode in bench.MODES)
        self.assertEqual(eager["ddprun"]["round_medians"], [1.0, 1.5])
        self.assertAlmostEqual(eager["ratio"]["median"], 0.3125)
        self.assertAlmostEqual(graph["ratio"]["median"], 0.125)
        self.assertTrue(eager["met"] and graph["met"])
        self.assertAlmostEqual(rows["step, host-bound", "cuda_graph"]["ratio"]["median"], 0.3)

    def test_a_way_that_ddprun_refuses_is_a_row_with_its_reason(self):
        own = {"ddprun eager": Fake("eager", run_of(9, 2.0))}
        rows = self.rows(bench.overhead_rows, Cell("tiny", 128, "bf16", 1), own, [Fake("eager", run_of(9, 5.0, busy=[1.0]))], "--quick",
                         refused={"cuda_graph": "no such section"})
        self.assertEqual([row.get("failed") for row in rows], [None, None, "no such section"])

    def test_bandwidths_of_adamw_and_copy(self):
        found = {"gb_s": {"adamw": [90.0, 80.0, 85.0], "copy": [100.0, 100.0, 100.0]}}
        with mock.patch.object(gpu_sides, "device_memory", return_value=found):
            rows = bench.memory_rows(arguments(), [])
        self.assertEqual([row["model"] for row in rows], ["100 MB", "1000 MB"])
        self.assertAlmostEqual(rows[1]["ratio"]["median"], 0.85)
        self.assertTrue(rows[1]["met"])


class Whole(unittest.TestCase):
    def test_a_cell_that_fails_is_a_row_and_the_others_go_on(self):
        def failing(*_):
            raise sides.RunFailed("broken")
        rows, notes, saved = [], [], []
        with mock.patch.object(bench, "memory_rows", failing), mock.patch.object(bench, "overhead_rows", return_value=[{"what": "x"}]), \
                mock.patch.object(bench, "say"):
            bench.measure(arguments("memory,overhead"), lambda: saved.append(len(rows)), rows, [], notes)
        self.assertEqual([row["what"] for row in rows], ["AdamW against copy", "x", "x"])
        self.assertEqual((rows[0]["failed"], saved, notes), ("broken", [1, 2, 3], []))
        self.assertIn("failed: broken", report.table(rows[:1]))

    def test_what_the_time_does_not_allow_is_named(self):
        notes = []
        with mock.patch.object(bench, "step_rows", return_value=[]):
            bench.measure(arguments("step", "--minutes", "1.2", "--models", "small,large"), lambda: None, [], [], notes)
        self.assertEqual(notes, ["Left out, as 1.2 minutes are over (--minutes): step large 512 bf16."])

    def test_without_a_gpu_a_sentence_and_status_two(self):
        machine = {"torch": "2.11.0", "gpus": []}
        for found, sentence in (((None, None), "no Python here has PyTorch"), (("python3", machine), "there is no GPU")):
            with mock.patch.object(gpu_sides, "find_peer", return_value=found), mock.patch.object(sides, "BIN", sides.REPO), \
                    mock.patch("pathlib.Path.exists", return_value=True), mock.patch.object(bench, "say") as say, \
                    mock.patch("sys.argv", ["bench_gpu.py"]):
                self.assertEqual(bench.main(), 2)
            self.assertIn(sentence, say.call_args[0][0])

    def test_what_is_cut_off_leaves_the_table_of_the_cells_that_are_done(self):
        def one_cell(args, save, rows, runs, notes):
            rows.append({"what": "step", **ROW_OF, "failed": "broken"})
            save()
            raise KeyboardInterrupt
        machine = {"torch": "2.11.0", "gpus": ["NVIDIA H200"], "cpu": "", "cores": 16, "commit": ""}
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(bench, "measure", one_cell), \
                mock.patch.object(bench, "find_machine", lambda args: setattr(args, "machine", machine)), \
                mock.patch.object(bench, "describe_machine", return_value={}), mock.patch("sys.argv", ["bench_gpu.py", "--output", folder]):
            with self.assertRaises(KeyboardInterrupt):
                bench.main()
            self.assertIn("failed: broken", next(Path(folder).glob("*/bench_gpu.md")).read_text())

    def test_fewer_gpus_than_ranks_are_said(self):
        args = arguments("--ranks", "4")
        with mock.patch.object(gpu_sides, "find_peer", return_value=("python3", {"torch": "", "gpus": ["a", "b"]})), \
                mock.patch("pathlib.Path.exists", return_value=True):
            self.assertIn("4 rank(s) need a GPU each", bench.find_machine(args))


if __name__ == "__main__":
    unittest.main()
