"""docs/cs336_items.md: every file that it names is there, every command is accepted, every column exists, and every experiment of
configs/cs336/ is named; what those files say of a GPU is accepted too. Arguments: the clone, the program ddprun."""
import re
import shlex
import subprocess
import sys
import unittest
from pathlib import Path

REPO, DDPRUN = (Path(word).resolve() for word in sys.argv[1:3])
PAGE = (REPO / "docs/cs336_items.md").read_text()
QUOTED = re.findall(r"`([^`\n]+)`", PAGE)
STATES = {"CPU", "GPU", "paper", "not yet"}
FOLDERS = ("configs", "core", "docs", "plugins", "scripts", "tests")


def rows(text):
    """The cells of each line of its tables, without headings; a | in quoted code is none of the table's."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def column_names():
    """Of every kind of experiment, as its tables show them."""
    found, page = set(), (REPO / "docs/measurement.md").read_text()
    for tables, column in (("samples", 3), ("figures", 0)):
        for table in re.findall(rf"<!-- {tables}.*?<!-- end -->", page, re.DOTALL):
            found.update(row[column] for row in rows(table))
    return found | {"proof"}


def refusal(words):
    """Why ddprun does not accept a command, in its words. Nothing runs."""
    given = words[1:] if words[0] in ("account", "run", "validate", "verify") else words
    done = subprocess.run([DDPRUN, "validate", *given], cwd=REPO, capture_output=True, text=True, timeout=100)
    return done.stderr if done.returncode != 0 else ""


class Items(unittest.TestCase):
    def test_every_file_is_there(self):
        files = {word for quoted in QUOTED for word in shlex.split(quoted) if re.match(rf"({'|'.join(FOLDERS)})/\S", word)}
        self.assertGreater(len(files), 30)
        self.assertEqual([file for file in sorted(files) if not (REPO / file).exists()], [])

    def test_every_experiment_of_the_course_is_named(self):
        there = {f"configs/cs336/{path.name}" for path in (REPO / "configs/cs336").glob("*.yaml")}
        self.assertEqual(sorted(there - set(QUOTED)), [])

    def test_every_command_is_accepted(self):
        commands = {quoted for quoted in QUOTED if quoted.startswith("ddprun ") and ".yaml" in quoted}
        self.assertGreater(len(commands), 10)
        self.assertEqual({command: words for command in sorted(commands) if (words := refusal(shlex.split(command)[1:]))}, {})

    def test_the_comparison_knows_what_make_bench_is_given(self):
        commands = {quoted for quoted in QUOTED if quoted.startswith("make bench ")}
        self.assertGreater(len(commands), 1)
        for command in commands:
            given = dict(word.split("=", 1) for word in shlex.split(command)[2:])
            words = [given["WHAT"], *shlex.split(given["ARGS"]), "--dry-run"]
            done = subprocess.run([sys.executable, REPO / "tests/benchmarks/bench.py", *words], cwd=REPO, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
            self.assertIn("PyTorch compiled" if "step" in words[0] else "attention", done.stdout)

    def test_every_column_exists(self):
        columns = column_names()
        of_bench = {"operators", "compiled", "sdpa", "forward + backward", "step"}
        named = {name for row in rows(PAGE) for cell in row for name in re.findall(r"(?<!\*)\*([^*|]+)\*(?!\*)", cell)}
        self.assertGreater(len(named), 20)
        self.assertEqual(sorted(named - columns - of_bench), [])

    def test_every_row_has_a_state(self):
        items = [row for row in rows(PAGE.split("## Timing")[1].split("## Answers")[0]) if row[-1] != "state"]
        self.assertGreater(len(items), 60)
        for row in items:
            parts = re.split(r"; ", row[-1])
            self.assertTrue(all(any(part.startswith(state) for state in STATES) for part in parts), f"{row[0]}: {row[-1]}")


class OnAGpu(unittest.TestCase):
    def test_what_a_file_says_of_a_gpu_is_accepted(self):
        tried = 0
        for path in sorted((REPO / "configs/cs336").glob("*.yaml")):
            comment = " ".join(line.lstrip("# ") for line in path.read_text().splitlines() if line.startswith("#"))
            for given in re.findall(r"On a GPU: ((?:--set \S+\s*)+)", comment):
                tried += 1
                self.assertEqual(refusal([str(path), *given.rstrip(" .").split()]), "", path.name)
        self.assertGreater(tried, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
