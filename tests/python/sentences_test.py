"""The numbers in the sentences below a table of training, computed again from the samples by the formulas of docs/measurement.md, without
the code that made them. Arguments: the command ddprun, the folder of the plugin `slow`, the class of tests."""
import csv
import json
import math
import re
import subprocess
import sys
import unittest
from pathlib import Path
from statistics import mean, median, variance

from helpers import own_folder

PROGRAM, SLOW, CLASS = sys.argv[1:]
STEPS, WARMUP = 12, 2
BASE = """
model: {vocab_size: 2000, context_length: 32, d_model: 64, d_ff: 128, layers: 2, heads: 2}
data: {source: random}
world: {size: 2, backend: gloo, threads_per_rank: 1}
precision: fp32
attention: sdpa
"""
TRAIN = f"warmup_steps: {WARMUP}, steps: {STEPS}"
EXPERIMENTS = {
    "strategies": f"train: {{batch_per_rank: 2, {TRAIN}}}\nprofile: {{steps: {STEPS}}}\nreport: {{repeats: 3}}\n"
                  "sweep: {strategy: [naive, overlap, flat]}\n",
    # What sleeps in backward makes steps longer, whatever else the machine does.
    "longer": f"strategy: slow\ntrain: {{batch_per_rank: 2, {TRAIN}}}\nsweep: {{strategy.sleep_ms: [0, 1, 100]}}\n",
    "buckets": f"strategy: bucketed\ntrain: {{batch_per_rank: 2, {TRAIN}}}\nsweep: {{strategy.bucket_mb: [0.1, 0.4, 1.5]}}\n",
    "scaled": f"strategy: flat\ntrain: {{global_batch: 4, {TRAIN}}}\nreport: {{repeats: 3}}\nsweep: {{world.size: [1, 2]}}\n",
    # More than a busy machine takes from a rank.
    "slow": f"strategy: {{name: slow, sleep_ms: 200, rank: 1, first: 14}}\ntrain: {{batch_per_rank: 2, warmup_steps: {WARMUP}, steps: 24}}\n",
}
# A number of a sentence is rounded to its last digit.
NUMBER = r"(\d+(?:\.\d+)?(?:e-?\d+)?)"


def half_a_digit(text):
    """How far a number may be off that was written so."""
    mantissa = text.split("e")[0]
    digits = len(mantissa.split(".")[1]) if "." in mantissa else 0
    return 0.5 * 10 ** -digits * 10 ** int(text.split("e")[1] if "e" in text else 0)


def paired_p(own, base):
    """Two-sided, of the logarithms of the rounds' ratios: Student's t, by the trapezoidal rule over its density."""
    logs = [math.log(a / b) for a, b in zip(own, base)]
    t, freedom = abs(mean(logs)) / math.sqrt(variance(logs) / len(logs)), len(logs) - 1
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    steps = 10_000
    density = [scale * (1 + (t * i / steps) ** 2 / freedom) ** (-(freedom + 1) / 2) for i in range(steps + 1)]
    return 1 - 2 * t / steps * (sum(density) - (density[0] + density[-1]) / 2)


def ratio_of(own, base):
    return math.exp(mean(math.log(a / b) for a, b in zip(own, base)))


def holm(values):
    """Each p among all of them (Holm 1979)."""
    out, least = [0.0] * len(values), 0.0
    for rank, i in enumerate(sorted(range(len(values)), key=lambda i: values[i])):
        least = max(least, values[i] * (len(values) - rank))
        out[i] = min(1.0, least)
    return out


def waited_on_link(calls, link):
    """Milliseconds that a thread waits for calls (asked, wait begins, wait ends, bytes) of a link that takes latency + bytes / bandwidth
    for each, in the order of asking, if it computes between its waits as long as it did."""
    events = sorted([(call[0], 0, i) for i, call in enumerate(calls)] + [(call[1], 1, i) for i, call in enumerate(calls)])
    saved = free = waited = 0
    ends = {}
    for at, waits, i in events:
        if waits:
            wait = max(0, ends[i] - (at - saved))
            saved += calls[i][2] - calls[i][1] - wait
            waited += wait
        else:
            free = ends[i] = max(free, at - saved) + link["latency_us"] * 1e3 + calls[i][3] / link["gb_per_s"]
    return waited * 1e-6


class Result:
    """A result folder, read as its files stand."""

    def __init__(self, folder):
        self.data = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        self.sentences = (folder / "summary.md").read_text(encoding="utf-8")
        with open(folder / "collectives.csv", encoding="utf-8") as file:
            self.collectives = list(csv.DictReader(file))
        with open(folder / "summary.csv", encoding="utf-8") as file:
            self.summary = list(csv.DictReader(file))
        self.samples = {}  # by line and key, of the measured steps: of each run and step the ranks' values
        with open(folder / "steps.csv", encoding="utf-8") as file:
            for sample in csv.DictReader(file):
                if sample["warmup"] == "0":
                    runs = self.samples.setdefault(int(sample["row"]), {})
                    runs.setdefault(int(sample["run"]), {}).setdefault(int(sample["step"]), []).append(sample)
        # Rows of the files are runs: those of a line of the table have one label.
        self.lines = [range(line["first_row"], line["first_row"] + line["runs"]) for line in self.data["table"]]
        self.names = [line["name"] for line in self.data["table"]]

    def finding(self, what):
        return [each for each in self.data["findings"] if each["finding"] == what]

    def line_of(self, name):
        return next(i for i, own in enumerate(self.names) if name in (own, f"world.size={own}") or name.endswith(f"={own}"))

    def steps(self, row):
        """The steps of a run: each has its ranks' samples."""
        return [step for run in self.samples[row].values() for step in run.values()]

    def figures(self, line, key, over_ranks=mean, over_steps=median):
        """One of each run of the line."""
        return [over_steps([over_ranks([float(rank[key]) for rank in step]) for step in self.steps(row)]) for row in self.lines[line]]

    def step_ms(self, line):
        return self.figures(line, "step_ms", max)

    def by_round(self, line, figures):
        """Those of the runs of a line, of each round their mean."""
        rounds = {}
        for row, figure in zip(self.lines[line], figures):
            rounds.setdefault(self.data["rows"][row - 1]["round"], []).append(figure)
        return [mean(rounds[each]) for each in sorted(rounds)]

    def steps_by_round(self, line):
        return self.by_round(line, self.step_ms(line))


class Findings(unittest.TestCase):
    """Of the experiments of the class."""
    names = []

    @classmethod
    def setUpClass(cls):
        folder = own_folder(cls)
        cls.results = {}
        for name in cls.names:
            text = EXPERIMENTS[name]
            file = folder / f"{name}.yaml"
            file.write_text(BASE + text, encoding="utf-8")
            subprocess.run([PROGRAM, file, "--output", folder, "--plugin-path", SLOW, "--quiet"], check=True,
                           stdout=subprocess.DEVNULL)
            cls.results[name] = Result(folder / name / "latest")

    def says(self, text, expected, slack=0.0):
        """`text` is `expected`, rounded."""
        self.assertLessEqual(abs(float(text) - expected), half_a_digit(text) * 1.001 + slack, f"{text} is not {expected}")

    def only(self, name, what):
        result = self.results[name]
        found = result.finding(what)
        self.assertEqual(len(found), 1, f"{what} of {name}: {found}\n{result.sentences}")
        self.assertIn(found[0]["text"], result.sentences.replace("\\", ""))
        return result, found[0]

class Sentences(Findings):
    names = ["strategies", "longer", "buckets", "scaled"]

    def says_ratio(self, words, ratio):
        for pattern, value in ((rf"is {NUMBER} % faster than", (1 - ratio) * 100), (rf"is {NUMBER} times as fast as", 1 / ratio),
                               (rf"takes {NUMBER} % longer than", (ratio - 1) * 100), (rf"takes {NUMBER} times as long as", ratio)):
            match = re.search(pattern, words)
            if match:
                return self.says(match[1], value)
        self.assertIn("is as fast as", words)
        return self.assertLess(abs(ratio - 1), 0.0006)

    def says_p(self, words, p):
        self.assertEqual("within noise" in words, p >= 0.05, f"{words}: {p}")
        if p < 0.0009:
            return self.assertIn("p < 0.001", words)
        match = re.search(rf"p = {NUMBER}", words)
        return self.says(match[1], p, 1e-4) if match else self.assertLess(p, 0.0011)

    def hidden(self, result):
        """The finding of what overlap hides, both rows' rounds, and of how many candidates it was chosen."""
        finding = self.only("strategies", "hidden_communication")[1]
        row, base = result.line_of(finding["row"]), result.line_of(finding["base"])
        exposed = [result.by_round(line, result.figures(line, "exposed_ms")) for line in (row, base)]
        overlapped = [mean(result.figures(line, "overlapped_ms", over_steps=mean)) for line in range(3)]
        whole = [mean(result.figures(line, "communication_ms", over_steps=mean)) for line in range(3)]
        candidates = [line for line in range(3) if overlapped[line] >= 0.01 * whole[line]]
        self.assertIn(row, candidates)
        self.assertNotIn(base, candidates)
        return finding, exposed, len(candidates)

    def test_1_speed_ratio_2_its_p_and_3_hidden_communication(self):
        result, finding = self.only("strategies", "fastest")
        order = sorted(range(3), key=lambda line: mean(result.step_ms(line)))
        steps = [result.steps_by_round(line) for line in range(3)]
        row, base = result.line_of(finding["row"]), result.line_of(finding["base"])
        self.assertEqual(base, 0)  # the sweep's first value
        self.assertEqual(row, order[0] if order[0] != 0 else order[1])
        self.assertIn("the shortest of 3", finding["text"])
        words = finding["text"].split("; it ")
        pairs = [(steps[row], steps[base], 2), (steps[order[0]], steps[order[1]], 3)][:len(words)]  # the next one: all pairs
        hides, exposed, candidates = self.hidden(result)
        tests = [min(1, paired_p(own, other) * chosen) for own, other, chosen in (*pairs, (*exposed, candidates))]
        tests = holm(tests)
        for text, (own, other, _), p in zip(words, pairs, tests):
            self.says_ratio(text, ratio_of(own, other))
            self.says_p(text, p)
        match = re.search(rf"hides {NUMBER} % of the communication", hides["text"])
        ratio = ratio_of(*exposed)
        if match:
            self.says(match[1], (1 - ratio) * 100)
        else:
            self.assertGreaterEqual(ratio, 1)
        self.says_p(hides["text"], tests[-1])

    def test_14_chance(self):
        result, finding = self.only("strategies", "calibration")
        figures = result.step_ms(0)
        first, second = figures[::2], figures[1::2]
        self.assertEqual(len(first), 3)
        first[1], second[1] = second[1], first[1]  # they change places from round to round
        match = re.match(rf"naive, which ran twice in each of 3 rounds, (.+) itself(.*): of tables of such chance alone {NUMBER} %",
                         finding["text"])
        self.assertTrue(match, finding["text"])
        self.says_ratio(match[1], ratio_of(first, second))
        self.says_p(match[2], paired_p(first, second))

    def exposed_of(self, ranks, step):
        """By the records of a step: what the rank that waits least waits for each collective, and for all else."""
        waits = [[each["wait_end_ns"] - each["wait_begin_ns"] for each in rank["timeline"][step]["collectives"]] for rank in ranks]
        rest = [rank["samples"]["synchronize_ms"][WARMUP + step] - sum(own) * 1e-6 for rank, own in zip(ranks, waits)]
        return sum(min(each) for each in zip(*waits)) * 1e-6 + min(rest)

    def on_link(self, rank, step, early=False, latency=True):
        timeline = rank["timeline"][step]
        begins = [phase["begin_ns"] for phase in timeline["phases"] if phase["name"] in ("forward", "backward", "optimizer")]
        link = dict(rank["link"][0])
        if not latency:
            link["latency_us"] = 0
        calls = [(max(begin for begin in begins if begin <= each["enqueue_ns"]) if early else each["enqueue_ns"], each["wait_begin_ns"],
                  each["wait_end_ns"], each["bytes"]) for each in timeline["collectives"]]
        first = timeline["begin_ns"]
        return waited_on_link([(asked - first, begin - first, end - first, size) for asked, begin, end, size in calls], link)

    def test_4_exposed_5_its_parts_and_6_latency(self):
        result = self.results["strategies"]
        found = [each for each in result.finding("limit") if each["text"]]
        self.assertIn("naive", [each["row"] for each in found])
        for finding in found:
            figures = []  # of each run: exposed, bound, earliest, latency
            for row in result.lines[result.line_of(finding["row"])]:
                ranks = result.data["rows"][row - 1]["ranks"]
                steps = []
                for step in range(STEPS):
                    bound = [self.on_link(rank, step) for rank in ranks]
                    early = [min(own, self.on_link(rank, step, early=True)) for own, rank in zip(bound, ranks)]
                    latency = [max(0, own - self.on_link(rank, step, latency=False)) for own, rank in zip(bound, ranks)]
                    steps.append((self.exposed_of(ranks, step), mean(bound), mean(early), mean(latency)))
                figures.append([median(values) for values in zip(*steps)])
            exposed, bound, early, latency = (mean(values) for values in zip(*figures))
            bound = min(exposed, bound)
            early = min(bound, early)
            match = re.fullmatch(rf"of {NUMBER} ms that (.+) exposes, (.+) \(link: {NUMBER} GB/s and {NUMBER} µs a call"
                                 rf"(?:, {NUMBER} ms are latency)?\)", finding["text"])
            self.assertTrue(match, finding["text"])
            self.says(match[1], exposed, 0.002)
            parts = {"more than the link carries": early, "are asked for when backward is over|come too late": bound - early,
                     "beyond what the link takes": exposed - bound}
            for words, ms in parts.items():
                said = re.search(rf"{NUMBER} [a-z ]*(?:{words})", match[3])
                if said:
                    self.says(said[1], ms, 0.01)
                else:
                    self.assertLess(ms, 0.051 * exposed, words)
            link = result.data["rows"][result.lines[result.line_of(finding["row"])][0] - 1]["ranks"][0]["link"][0]
            self.says(match[4], link["gb_per_s"])
            self.says(match[5], link["latency_us"])
            latency = min(exposed, latency)
            if match[6]:
                self.says(match[6], latency, 0.01)
            else:
                self.assertLess(latency, 0.051 * exposed)

    def test_7_trend(self):
        result = self.results["longer"]
        step = [mean(result.step_ms(line)) for line in range(3)]
        share = [mean(result.figures(line, "exposed_ms")) / ms for line, ms in enumerate(step)]
        if share not in (sorted(share), sorted(share, reverse=True)) or abs(share[2] - share[0]) < 0.05:
            return self.assertEqual(result.finding("trend"), [])  # on a busy machine
        finding = self.only("longer", "trend")[1]
        match = re.search(rf"(?:falls|rises) from {NUMBER} to {NUMBER} %: strategy.sleep_ms 0 to 100, {NUMBER} times the bytes, {NUMBER} times the step",
                          finding["text"])
        self.assertTrue(match, finding["text"])
        sent = [mean(result.figures(line, "bytes", over_steps=mean)) for line in (0, 2)]
        for text, expected in zip(match.groups(), (100 * share[0], 100 * share[2], sent[1] / sent[0], step[2] / step[0])):
            self.says(text, expected)
        return None

    def test_8_best_bucket(self):
        result = self.results["buckets"]
        best = min(range(3), key=lambda line: mean(result.step_ms(line)))
        row = result.data["rows"][best]
        link = next(each for each in row["ranks"][0]["link"] if each["kind"] == "all_reduce")
        if link["latency_us"] <= 0:
            return self.assertEqual(result.finding("best_bucket"), [])  # on a busy machine
        finding = self.only("buckets", "best_bucket")[1]
        match = re.search(rf"the shortest of 3 steps has {NUMBER} MB; sqrt\(s o w\) is {NUMBER} MB, of {NUMBER} MB of gradients, {NUMBER} µs "
                          rf"a call and {NUMBER} GB/s", finding["text"])
        self.assertTrue(match, finding["text"])
        size = mean(result.figures(best, "bytes", over_steps=mean))
        self.says(match[1], row["config"]["strategy"]["bucket_mb"])
        closed = math.sqrt(size * link["latency_us"] * 1e-6 * link["gb_per_s"] * 1e9) * 1e-6
        self.says(match[2], closed)
        for text, expected in zip(match.groups()[2:], (size * 1e-6, link["latency_us"], link["gb_per_s"])):
            self.says(text, expected)
        return None

    def test_9_scaling_and_10_what_repeats(self):
        result, finding = self.only("scaled", "strong_scaling")
        one, two = (result.steps_by_round(line) for line in (0, 1))
        match = re.search(rf"have {NUMBER} % of the efficiency of one", finding["text"])
        self.says(match[1], 100 * ratio_of(one, two) / 2)
        p = holm([paired_p(two, one), paired_p(one, [2 * each for each in two])])
        self.says_p(self.only("scaled", "fastest")[1]["text"], p[0])
        self.says_p(finding["text"], p[1])
        differs = [(max(runs) - min(runs)) / mean(runs) for runs in (result.step_ms(line) for line in (0, 1))]
        match = re.search(rf"runs of one row differ by up to {NUMBER} % in their step", self.only("scaled", "between_runs")[1]["text"])
        self.says(match[1], 100 * max(differs))

    def test_12_figures_of_the_table(self):
        result = self.results["strategies"]
        for line, rows in enumerate(result.lines):
            label = next(each["label"] for each in result.summary if each["row"] == str(rows[0]))
            said = {each["quantity"]: float(each["figure"]) for each in result.summary if each["label"] == label and each["run"] == "all"}
            step = mean(result.step_ms(line))
            exposed, communication = (mean(result.figures(line, key)) for key in ("exposed_ms", "communication_ms"))
            shares = [own / ms for own, ms in zip(result.figures(line, "exposed_ms"), result.step_ms(line))]
            tokens = [2 * 2 * 32 / ms * 1e3 for ms in result.step_ms(line)]
            expected = {"step_ms": step, "exposed_ms": exposed, "communication_ms": communication, "exposed_share": mean(shares),
                        "tokens_per_s": mean(tokens), "bytes": mean(result.figures(line, "bytes", over_steps=mean)),
                        "speed_up": mean(result.step_ms(0)) / step}
            for key, value in expected.items():
                self.assertAlmostEqual(said[key] / value, 1, 4, f"{label}: {key}")

    def test_13_what_limits_a_collective(self):
        result = self.results["strategies"]
        for line in result.collectives:
            ranks = result.data["rows"][int(line["row"]) - 1]["ranks"]
            last = [rank["timeline"][-1] for rank in ranks]
            own = [next(each for each in step["collectives"] if each["label"] == line["of"]) for step in last]
            waits = [(each["wait_end_ns"] - each["wait_begin_ns"]) * 1e-6 for each in own]
            took = min(each["end_ns"] - each["start_ns"] for each in own) * 1e-6
            link = ranks[0]["link"][0]
            alone = link["latency_us"] * 1e-3 + own[0]["bytes"] / link["gb_per_s"] * 1e-6
            backward_end = max(phase["end_ns"] for phase in last[0]["phases"] if phase["name"] == "backward")
            expected = ("hidden" if mean(waits) <= 0.05 * took else "slow_rank" if min(waits) < mean(waits) / 2
                        else "contention" if took > 1.5 * alone else "latency" if 2 * link["latency_us"] * 1e-3 > alone
                        else "late" if (backward_end - own[0]["enqueue_ns"]) * 1e-6 < alone else "link")
            self.assertEqual(line["limit"], expected, line)
            for key, value in (("waited_ms", mean(waits)), ("exposed_ms", min(waits)), ("time_ms", took), ("link_ms", alone)):
                self.says(line[key], value)


class SlowRank(Findings):
    names = ["slow"]

    def test_11_slow_rank(self):
        result, finding = self.only("slow", "slow_rank")
        work = [[sum(float(rank[key]) for key in ("forward_ms", "backward_ms", "optimizer_ms")) for rank in step] for step in result.steps(1)]
        usual = median([max(step) for step in work])
        behind = [step[1] - step[0] for step in work]
        slow = [each for each in behind if each > 0.05 * usual]
        match = re.fullmatch(rf"rank 1 of .+ was slow in {NUMBER} of 24 steps \(since measured step 13\), most of it in backward: the others "
                             rf"wait for it, {NUMBER} ms a step.*", finding["text"])
        self.assertTrue(match, finding["text"])
        self.assertEqual(int(match[1]), len(slow))
        self.says(match[2], sum(slow) / 24)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], CLASS], verbosity=2)
