"""Tests of what `make bench` computes; run by `make bench` itself: cd tests/benchmarks && python3 -m unittest bench_test"""
import argparse
import re
import unittest
from pathlib import Path
from unittest import mock

import bench
import bench_attention
import bench_collectives
import bench_parts
import bench_report as report
import bench_roofline as roofline
import bench_sides as sides
from bench_parts import peer_medians, program_medians, repetitions
from peer.sizes import SIZES, size_of


def run_of(*ranks):
    """A run whose ranks took these steps, in milliseconds; the first of each is a warm-up."""
    return {"ranks": [{"samples": [{"step_ms": ms, "forward_ms": ms / 4, "backward_ms": ms / 2, "synchronize_ms": ms / 10, "optimizer_ms": 1.0,
                                    "warmup": index == 0} for index, ms in enumerate(steps)],
                       "peak_resident_bytes": (7 + rank) * 1e6, "shared_resident_bytes": 3e6, "first_step_done_s": 1.0 + rank}
                      for rank, steps in enumerate(ranks)]}


CASE = {"model": "tiny", "precision": "fp32", "ranks": 2, "variant": "as run"}


class Samples(unittest.TestCase):
    run_of_two = run_of([99, 10, 40], [98, 20, 30])

    def test_a_step_is_as_slow_as_its_slowest_rank_and_warm_up_does_not_count(self):
        self.assertEqual(report.step_values(self.run_of_two), [20, 40])

    def test_exposed_communication_is_of_the_rank_that_waits_least_and_skew_what_the_mean_waits_longer(self):
        self.assertEqual(report.QUANTITIES["exposed communication"][1](self.run_of_two), [1.0, 3.0])
        self.assertEqual(report.QUANTITIES["skew"][1](self.run_of_two), [0.5, 0.5])

    def test_start_up_is_that_of_the_worst_rank(self):
        self.assertEqual(report.QUANTITIES["launch to first step"][1](self.run_of_two), [2.0])

    def test_memory_is_that_of_all_ranks_and_what_they_share_counts_once(self):
        self.assertEqual(report.QUANTITIES["peak memory of all ranks"][1](self.run_of_two), [(7 - 3) + (8 - 3)])


class Collectives(unittest.TestCase):
    def test_of_gloos_table_the_median_is_read_in_microseconds(self):
        out = """====
Device:      tcp, pci=, iface=lo, speed=-1, addr=[127.0.0.1]
Options:     processes=2, inputs=1, threads=1, verify=false

   size (B)   elements   min (ns)   p50 (ns)   p99 (ns)   max (ns)   bandwidth (GB/s)   iterations
       4096       1024      30100      41250      99000     200000              0.093        24000
"""
        self.assertEqual(bench_collectives.gloo_median(out), 41.25)

    def test_each_rank_has_its_share_of_the_cores(self):
        with mock.patch("os.sched_getaffinity", return_value={0, 1, 2, 3}):
            self.assertEqual([bench_collectives.cores_of(rank, 2) for rank in range(2)], ["0,1", "2,3"])
        with mock.patch("os.sched_getaffinity", return_value={4, 6}):
            self.assertEqual([bench_collectives.cores_of(rank, 4) for rank in range(4)], ["4", "6", "4", "6"])

    def test_ratios_are_of_the_sides_of_one_round(self):
        figures = {"ddprun gloo": {4096: [10, 40, 30]}, "gloo's program": {4096: [10, 20, 60]}}
        self.assertEqual(bench_collectives.table(2, figures)[2], "| 2 | 4096 | 30 | 20 | 1.00 (0.50–2.00) |")


class AllReduce(unittest.TestCase):
    def test_a_call_of_the_peer_is_as_slow_as_its_slowest_rank(self):
        run = {"ranks": [{"10": [1, 5, 3]}, {"10": [2, 4, 9]}]}
        self.assertEqual(peer_medians(run), {"10": {"PyTorch's gloo": 5}})

    def test_lines_of_the_programs_say_their_sizes(self):
        out = ('a word\n{"bytes": 1000000, "sides": {"gloo": {"median_ms": 1.5}}}\n'
               '{"bytes": 10000000, "sides": {"gloo": {"median_ms": 9}}}\n')
        self.assertEqual(program_medians(out), {"1": {"gloo": 1.5}, "10": {"gloo": 9}})

    def test_the_sides_are_in_its_program(self):
        source = (sides.REPO / "tests/benchmarks/copy_limit_benchmark.cpp").read_text()
        for side in bench_parts.COPY_SIDES:
            self.assertIn(f'{{"{side}", ', source)

    def test_rows_of_ddprun_say_backend_memory_and_size(self):
        row = {"status": "ok", "label": "", "reason": "", "work": {"bytes": 10_000_000, "count": 2_500_000},
               "config": {"world": {"backend": "shm"}, "collectives": {"memory": "group"}},
               "statistics": {"time_us": {"median": 1500.0}}}
        self.assertEqual(sides.collective_medians({"rows": [row]}), {("shm", "group", 10): 1.5})

    def test_a_row_that_was_not_proved_is_no_figure(self):
        row = {"status": "proof failed", "label": "collectives.bytes=8", "reason": "data_after_timing: 1 of 2"}
        for figures_of in (sides.collective_medians, bench_attention.own_times):
            with self.assertRaisesRegex(sides.RunFailed, "collectives.bytes=8: proof failed: data_after_timing"):
                figures_of({"rows": [row]})


class Attention(unittest.TestCase):
    def test_warm_up_does_not_count_and_forward_is_a_part_of_the_time(self):
        row = {"status": "ok", "config": {"attention_call": {"length": 64}},
               "ranks": [{"samples": {"warmup": [True, False], "forward_ms": [9.0, 1.0], "time_ms": [9.0, 3.0]}}]}
        times = bench_attention.own_times({"rows": [row]})
        self.assertEqual(times, {64: {"attention, forward": [1.0], "attention, forward + backward": [3.0]}})

    def test_both_sides_compute_the_same_sizes_on_one_thread(self):
        ours = bench_attention.Ours("bf16", (64, 128), bench_attention.REPEAT).experiment
        words = bench_attention.Theirs("compiled", "bf16", (64, 128), bench_attention.REPEAT).words
        self.assertEqual(ours["sweep"], {"attention_call.length": [64, 128]})
        self.assertEqual((ours["attention_call"]["dtype"], ours["world"]["threads_per_rank"]), ("bfloat16", 1))
        self.assertEqual(words[:6], ["--lengths", "64,128", "--batch", "8", "--head-dim", "64"])
        self.assertIn("--bf16", words)

    def test_each_way_of_pytorch_has_a_row_a_length_and_pass(self):
        def times(ms):
            return [{64: {what: [ms] for what in bench_attention.QUANTITIES}}]
        rows = bench_attention.rows_of({"ddprun": times(1.0), "operators": times(4.0), "compiled": times(2.0)},
                                       {"ddprun": "flash", "operators": "three", "compiled": "one"}, "fp32")
        self.assertEqual([(row["what"], row["variant"], row["ratio"]["median"]) for row in rows],
                         [(what, *ratio) for what in bench_attention.QUANTITIES for ratio in (("operators", 0.25), ("compiled", 0.5))])

    def test_attention_that_does_not_compile_is_a_row_and_the_others_go_on(self):
        broken = mock.Mock(run=mock.Mock(side_effect=sides.RunFailed("no compiler")))
        works = mock.Mock(label="", run=mock.Mock(return_value=({64: {what: [1.0] for what in bench_attention.QUANTITIES}}, {})))
        args = argparse.Namespace(cells=[("tiny", "fp32", 1), ("tiny", "fp32", 2)], rounds=2)
        with mock.patch.object(bench_attention, "sides_of", return_value={"ddprun": works, "compiled": broken, "sdpa": works}), \
                mock.patch.object(bench, "say"):
            rows = bench.attention_rows(args, [])
        self.assertEqual([(row["variant"], row.get("failed")) for row in rows], [("compiled", "no compiler"), ("sdpa", None), ("sdpa", None)])


class Arguments(unittest.TestCase):
    def peers_of(self, *words):
        with mock.patch("sys.argv", ["bench.py", *words]), mock.patch.object(sides, "built_torch", return_value="2.15.0"):
            return bench.read_arguments().peers

    def test_compile_is_a_peer_like_another_version(self):
        self.assertEqual(self.peers_of("attention,step", "--compile"), ["compiled"])
        self.assertEqual(self.peers_of("--compile", "--peer-torch", "2.11.0,compiled,2.15.0"), ["2.11.0", "compiled"])
        self.assertEqual(self.peers_of(), [])


class Statistics(unittest.TestCase):
    def test_figure_is_the_median_of_all_with_the_extreme_rounds(self):
        figure = report.figure([[1, 2, 9], [4, 4, 4]])
        self.assertEqual((figure["median"], figure["low"], figure["high"]), (4, 2, 4))

    def test_ratio_pairs_rounds_so_that_a_slow_spell_of_the_machine_cancels(self):
        ratio = report.ratio(report.figure([[1], [10], [1]]), report.figure([[2], [20], [2]]))
        self.assertEqual(ratio, {"median": 0.5, "low": 0.5, "high": 0.5})

    def test_ratio_to_nothing_is_none(self):
        self.assertIsNone(report.ratio(report.figure([[1]]), report.figure([[0]])))

    def test_best_is_the_lowest_median_not_the_luckiest_step(self):
        self.assertEqual(report.best({"lucky": [[1, 9, 9]], "steady": [[5, 5, 5]]}), "steady")

    def test_search_goes_on_with_the_faster_third_and_the_fastest_that_overlaps(self):
        times = {"flat": [[1]], "naive": [[2]], "bucketed 5": [[3]], "overlap": [[4]], "zero1": [[5]]}
        self.assertEqual(report.survivors(times), ["flat", "naive", "bucketed 5"])
        self.assertEqual(report.survivors({"bucketed 1": [[1]], "bucketed 5": [[2]], "flat": [[3]]}), ["bucketed 1"])


class Floor(unittest.TestCase):
    model = {"vocab_size": 100, "context_length": 8, "d_model": 4, "d_ff": 16, "layers": 2, "parameters": 1000}
    core = {"linears_ms": 2.0, "peak_gflops": 1e-3, "streams_gb_s": 1e-3, "copy_gb_s": 4e-3}

    def run_on(self, *cores):
        return {"model": self.model, "batch": 3, "cores": list(cores)}

    def test_operations_are_six_a_token_and_weight_and_half_of_attention(self):
        matrices = 2 * (4 * 16 + 3 * 64) + 400
        self.assertEqual(roofline.flops(self.model, 3), (6 * matrices * 24, 6 * 2 * 4 * 8 * 24))

    def test_parts_at_the_rate_of_the_own_shapes_and_at_peak(self):
        linear, attention = roofline.flops(self.model, 3)
        own = roofline.floor(self.run_on(), self.core, 2, at_peak=False)
        self.assertAlmostEqual(own["products"], 2.0 * (linear + attention) / linear)
        self.assertAlmostEqual(own["AdamW"], 28.0)  # 28,000 bytes at 1 MB/s
        self.assertAlmostEqual(own["all-reduce"], 2.0)  # 4,000 bytes read and as many written at 4 MB/s
        peak = roofline.floor(self.run_on(), {**self.core, "peak_gflops": 2 * own["rate"]}, 2, at_peak=True)
        self.assertAlmostEqual(peak["products"], own["products"] / 2)

    def test_one_rank_exchanges_nothing_and_the_slowest_core_counts(self):
        self.assertEqual(roofline.floor(self.run_on(), self.core, 1, at_peak=False)["all-reduce"], 0)
        slow = {**self.core, "streams_gb_s": 0.5e-3}
        self.assertAlmostEqual(roofline.slowest(self.run_on(self.core, slow), 2, False)["AdamW"], 56.0)

    def test_each_rounds_steps_are_held_against_its_own_floor(self):
        fast, slow = self.core, {key: value * (0.5 if key != "linears_ms" else 2) for key, value in self.core.items()}
        floors = [roofline.total(roofline.slowest(self.run_on(core), 2, False)) for core in (fast, slow)]
        runs = [run_of([0, 3 * floors[0]]), run_of([0, 3 * floors[1]])]
        rows = roofline.roofline_rows(CASE, runs, runs, [self.run_on(fast), self.run_on(slow)])
        self.assertEqual([row["variant"] for row in rows], ["own shapes", "large matrices"])
        for end in ("low", "high"):
            self.assertAlmostEqual(rows[0]["ddprun"][end], 3.0)
        self.assertIn("AdamW 56.0, all-reduce 4.0", rows[0]["ddprun_choice"])


class Rows(unittest.TestCase):
    def test_goal_met_and_missed(self):
        self.assertTrue(report.make_row("step", CASE, "ms", [[70]], [[100]])["met"])
        self.assertFalse(report.make_row("step", CASE, "ms", [[71]], [[100]])["met"])

    def test_compiled_pytorch_is_held_against_the_same_goal(self):
        self.assertEqual(report.make_row("step", {**CASE, "variant": "compiled"}, "ms", [[70]], [[100]])["goal"], 0.70)

    def test_without_a_goal_nothing_is_met(self):
        self.assertIsNone(report.make_row("optimizer", CASE, "ms", [[1]], [[2]])["met"])

    def test_table_has_one_line_a_row_and_equally_many_cells(self):
        rows = [report.make_row("step", CASE, "ms", [[71.25]], [[100]], ("flat", "bucketed 5")),
                {"what": "step", **CASE, "failed": "exit status 1:\nno | memory"}]
        lines = report.table(rows).splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual({line.count("|") for line in lines}, {14})
        self.assertIn("0.71 (0.71–0.71)", lines[2])
        self.assertIn("**no**", lines[2])
        self.assertIn("failed: exit status 1: no / memory", lines[3])

    def test_every_goal_is_of_a_quantity_or_part_that_exists(self):
        parts = Path(bench_parts.__file__).read_text()
        named = set(report.QUANTITIES) | set(re.findall('"(all-reduce, [^"]*|AdamW pass)"', parts))
        named.add("step over its floor")
        variants = {"as run", "tuned", "compiled", "fastest", "large matrices", *(variant for variant, *_ in bench_parts.ADAMW_ROWS),
                    *(f"{ours} / {theirs}" for _, ours, theirs in bench.SHARDED)}
        for cpu_class in ("AVX-512", *report.CLASS_GOALS):
            goals = report.goals_of(cpu_class)
            self.assertLessEqual({what for what, *_ in goals}, named)
            self.assertLessEqual({variant for *_, variant in goals}, variants)

    def test_the_goal_of_the_floor_is_ours_alone(self):
        floor = {**CASE, "precision": "fp32", "ranks": 2, "variant": "large matrices"}
        with mock.patch.object(report, "GOALS_HERE", report.goals_of("AMX")):
            self.assertTrue(report.make_row("step over its floor", floor, "times", [[1.05]], [[1.0]])["met"])
            self.assertFalse(report.make_row("step over its floor", floor, "times", [[1.2]], [[2.0]])["met"])

    def test_a_cpu_has_one_class(self):
        self.assertEqual(report.class_of(["amx_bf16", "avx512_bf16", "avx512f"]), "AMX")
        self.assertEqual(report.class_of(["avx512_bf16", "avx512f"]), "AVX-512 with bf16")
        self.assertEqual(report.class_of(["avx2"]), "AVX2")


class GoogleBenchmark(unittest.TestCase):
    def test_repetitions_of_one_case_in_milliseconds(self):
        def case(name, kind, time):
            return {"run_name": name, "run_type": kind, "real_time": time, "time_unit": "us"}
        cases = [case("adamw/huge_pages:0", "iteration", 9000), case("adamw/huge_pages:1", "iteration", 2000),
                 case("adamw/huge_pages:1", "iteration", 3000), case("adamw/huge_pages:1", "aggregate", 1),
                 case("adamw_aten/huge_pages:1", "iteration", 4000)]
        self.assertEqual(repetitions({"benchmarks": cases}, "adamw/huge_pages:1"), [2.0, 3.0])
        self.assertEqual(repetitions({"benchmarks": cases}, "adamw_aten/huge_pages:1"), [4.0])

    def test_the_cases_of_adamw_are_in_its_program(self):
        source = (sides.REPO / "tests/benchmarks/adamw_benchmark.cpp").read_text()
        for case in bench_parts.ADAMW_CASES:
            self.assertRegex(source, rf"\b(BENCHMARK|DDPRUN_PAGES)\({case.split('/')[0]}\)")


class Failures(unittest.TestCase):
    """A part that fails, by its program's fault or by ours, takes no other's figures with it."""

    def guarded(self, measure):
        rows = [{"what": "step"}]
        with mock.patch.object(bench, "say"), mock.patch("traceback.print_exception"):
            passed = bench.guarded(rows, "all_reduce", {"model": ""}, measure)
        return passed, rows

    def test_a_run_that_fails_is_a_row_with_its_reason(self):
        passed, rows = self.guarded(mock.Mock(side_effect=sides.RunFailed("no memory")))
        self.assertFalse(passed)
        self.assertEqual(rows, [{"what": "step"}, {"what": "all_reduce", "model": "", "failed": "no memory"}])

    def test_a_defect_of_bench_is_such_a_row_too(self):
        passed, rows = self.guarded(mock.Mock(side_effect=KeyError("copy_halves")))
        self.assertFalse(passed)
        self.assertEqual(rows[0], {"what": "step"})
        self.assertIn("KeyError('copy_halves')", rows[1]["failed"])


class ForwardAlone(unittest.TestCase):
    def test_each_side_ends_its_steps_after_the_forward_and_the_other_runs_stay_as_they_were(self):
        ours, theirs = sides.Ddprun(("tiny", "fp32", 1), "none"), sides.Peer(("tiny", "fp32", 1), ["--strategy", "single"])
        self.assertEqual(ours.forward_alone().experiment["train"]["measure"], "forward")
        self.assertEqual(theirs.forward_alone().words, ["--strategy", "single", "--passes", "forward"])
        self.assertNotIn("measure", ours.experiment["train"])
        self.assertNotIn("--passes", theirs.words)


class Machine(unittest.TestCase):
    def test_a_program_that_is_not_there_is_said(self):
        self.assertEqual(bench.first_line(["/no/such/program"]), "not there")


class TablesOfRunsMadeApart(unittest.TestCase):
    def test_rows_of_all_in_one_table_and_each_machine_once(self):
        def report_of(what):
            return {"machine": {"cpu": "a CPU", "cpu_class": "AVX2", "cores": 2, "torch": "2.15.0", "commit": "c0ffee"}, "date": "2026-11-21", "notes": [f"note of {what}"],
                    "rows": [report.make_row(what, CASE, "ms", [[1]], [[2]])]}
        text = bench.report_text([report_of("step"), report_of("optimizer")])
        self.assertEqual(text.count("a CPU (AVX2), 2 cores; PyTorch 2.15.0; 2026-11-21; commit c0ffee"), 1)
        self.assertEqual(sum(line.startswith("| ") and "| 0.50 (" in line for line in text.splitlines()), 2)
        self.assertIn("note of step", text)
        self.assertIn("note of optimizer", text)


class Steps(unittest.TestCase):
    """The rows of a cell, with sides that give known runs."""

    class Fake:
        def __init__(self, label, *steps):
            self.label, self.steps, self.calls, self.words = label, steps, [], []

        def is_compiled(self):
            return False

        def run(self, warmup, steps):
            self.calls.append(steps)
            return {**run_of(*self.steps), "other_cpus": 0.0}

        def preloading(self, _):
            return self

        def forward_alone(self):  # ten times as long, so that it is told from the step's
            return Steps.Fake(f"{self.label} alone", *([10 * ms for ms in steps] for steps in self.steps))

    def rows_of(self, ours, theirs, peers=(), ranks=2, variants=None):
        args = argparse.Namespace(quick=False, rounds=2, pick_rounds=3, steps=bench.STEPS, search=bench.SEARCH, peers=peers,
                                  tcmalloc="", fastest=variants is not None, toy=False, compiled=False)
        with mock.patch.object(bench, "peer_variants", return_value={side.label: side for side in variants or []}), \
                mock.patch.object(bench, "candidates", return_value=({s.label: s for s in ours}, {s.label: s for s in theirs})), \
                mock.patch.object(bench, "left_out", return_value=True), mock.patch.object(bench, "say"):
            return {(row["what"], row["variant"]): row for row in bench.step_rows(("tiny", "fp32", ranks), args, [])}

    def test_exposed_communication_is_of_each_sides_fastest_that_overlaps(self):
        rows = self.rows_of([self.Fake("flat", [0, 10], [0, 11]), self.Fake("bucketed 1", [0, 20], [0, 22])],
                            [self.Fake("bucketed 25", [0, 40], [0, 42]), self.Fake("flat", [0, 50], [0, 50])])
        step, exposed, skew = rows["step", "as run"], rows["exposed communication", "as run"], rows["skew", "as run"]
        self.assertEqual((step["ddprun_choice"], step["peer_choice"]), ("flat", "bucketed 25"))
        self.assertEqual((exposed["ddprun_choice"], exposed["peer_choice"]), ("bucketed 1", "bucketed 25"))
        self.assertAlmostEqual(exposed["ratio"]["median"], 0.5)
        self.assertAlmostEqual(skew["ddprun"]["median"], 0.1)
        self.assertIn(("step", "tuned"), rows)

    def test_forward_with_backward_is_of_the_step_and_a_forward_of_runs_of_its_own(self):
        ours, theirs, compiled = (self.Fake(name, [0, ms]) for name, ms in (("none", 10), ("single", 40), ("compiled", 20)))
        with mock.patch.object(bench, "other_peers", return_value={"compiled": compiled}):
            rows = self.rows_of([ours], [theirs], ("compiled",), ranks=1)
        self.assertEqual(rows["forward + backward", "as run"]["peer"]["median"], 30)
        self.assertEqual(rows["forward + backward", "compiled"]["ratio"]["median"], 0.5)
        self.assertEqual(rows["forward", "as run"]["peer"]["median"], 100)
        self.assertEqual(rows["forward", "compiled"]["ratio"]["median"], 0.5)
        self.assertEqual(rows["forward", "as run"]["ddprun_choice"], "none alone")

    def test_of_several_pytorch_the_fastest_counts(self):
        others = {"2.11.0": self.Fake("older", [0, 30], [0, 31]), "compiled": self.Fake("compiled", [0, 50], [0, 50])}
        with mock.patch.object(bench, "other_peers", return_value=others):
            rows = self.rows_of([self.Fake("flat", [0, 10], [0, 10])], [self.Fake("bucketed 25", [0, 40], [0, 40])], tuple(others))
        ratios = {variant: row["ratio"]["median"] for (what, variant), row in rows.items() if what == "step"}
        self.assertEqual(rows["step", "fastest"]["peer_choice"], "older")
        self.assertEqual(ratios["fastest"], ratios["2.11.0"])
        self.assertAlmostEqual(ratios["compiled"], 0.2)
        self.assertEqual(rows["step", "fastest"]["goal"], report.GOALS_HERE.get(("step", "fp32", 2, "fastest")))

    def test_the_fastest_variant_of_pytorch_competes_and_what_does_not_run_is_none(self):
        broken = self.Fake("compiled + tcmalloc", [0, 1])
        broken.run = mock.Mock(side_effect=sides.RunFailed("no compiler"))
        winner = self.Fake("flat + tcmalloc", [0, 25], [0, 25])
        rows = self.rows_of([self.Fake("flat", [0, 10], [0, 10])], [self.Fake("bucketed 25", [0, 40], [0, 40])],
                            variants=[self.Fake("flat compiled", [0, 30], [0, 30]), winner, broken])
        self.assertEqual((rows["step", "fastest"]["peer_choice"], rows["step", "fastest"]["ratio"]["median"]), ("flat + tcmalloc", 0.4))
        self.assertEqual(winner.calls, [bench.SEARCH["tiny"][1]] + 2 * [bench.STEPS["tiny"][1]])
        self.assertEqual(rows["step", "as run"]["peer_choice"], "bucketed 25")

    def test_variants_are_each_version_compiled_or_not_with_tcmalloc_or_not(self):
        args = argparse.Namespace(toy=False, compiled=True, tcmalloc="/usr/lib/libtcmalloc_minimal.so.4")
        with mock.patch.object(sides, "versions_at_hand", return_value=["2.11.0"]):
            variants = bench.peer_variants(("tiny", "bf16", 2), [["--strategy", "flat"], ["--strategy", "overlap"]], args)
        self.assertEqual(len(variants), 16)
        chosen = variants["flat (PyTorch 2.11.0) compiled + tcmalloc"]
        self.assertEqual((chosen.torch, chosen.is_compiled(), chosen.environment), ("2.11.0", True, {"LD_PRELOAD": args.tcmalloc}))
        self.assertEqual(variants["overlap"].environment, {})

    def test_a_plan_needs_nothing_installed(self):
        with mock.patch.object(sides, "find_tcmalloc", return_value=None), mock.patch("sys.argv", ["bench.py", "step", "--dry-run"]), \
             mock.patch("builtins.print") as printed:
            self.assertIsNone(bench.main())
        self.assertIn("both with tcmalloc", str(printed.mock_calls))

    def test_what_was_slow_at_first_runs_but_once_in_the_search(self):
        slow = self.Fake("zero1", [0, 99], [0, 99])
        ours = [self.Fake("flat", [0, 10], [0, 10]), self.Fake("bucketed 1", [0, 11], [0, 11]), slow]
        self.rows_of(ours, [self.Fake("bucketed 25", [0, 40], [0, 40])])
        self.assertEqual(slow.calls, [bench.SEARCH["tiny"][1]])


class SameModel(unittest.TestCase):
    """Both sides must train the same model: the peer's sizes are compared with the presets in the source."""

    def test_sizes_equal_the_presets(self):
        presets = (sides.REPO / "core/ddprun/model/model_config.cpp").read_text()
        for name, size in SIZES.items():
            preset = re.search(rf'{{"{re.escape(name)}", (\d+), (\d+), (\d+), (\d+), (\d+), (\d+)}}', presets)
            keys = ("vocab", "context", "d_model", "d_ff", "layers", "heads")
            self.assertEqual(tuple(map(int, preset.groups())), tuple(size[key] for key in keys), name)

    def test_a_drawn_size_is_the_same_on_both_sides(self):
        self.assertEqual(size_of("drawn-7"), size_of("drawn-7"))
        self.assertNotEqual(size_of("drawn-7"), size_of("drawn-8"))
        for seed in range(100):
            size = size_of(f"drawn-{seed}")
            self.assertEqual(size["d_model"] % (2 * size["heads"]), 0, "heads take pairs")
            self.assertTrue(256 <= size["batch"] * size["context"] <= 768, size)
        experiment = sides.Ddprun(("drawn-7", "fp32", 1), "none").experiment
        size = size_of("drawn-7")
        self.assertEqual(experiment["train"]["batch_per_rank"], size["batch"])
        self.assertEqual(experiment["model"], {"vocab_size": size["vocab"], "context_length": size["context"],
                                               **{key: size[key] for key in ("d_model", "d_ff", "layers", "heads")}})

    def test_a_size_without_a_seed_is_refused(self):
        for name in ("drawn-", "drawn-x", "huge"):
            with self.assertRaises(ValueError):
                size_of(name)


if __name__ == "__main__":
    unittest.main()
