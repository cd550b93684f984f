#!/usr/bin/env python3
"""Faults at random times: signals to ranks and to the parent while a batch runs, and what must hold afterwards.

    python3 tests/faults/fault_driver.py --faults 500 --seed 1        what `make test-faults` does
    python3 tests/faults/fault_driver.py --seed 1 --only 37           one fault again

A batch of three rows runs on two ranks, local or as a joined launch, over gloo or shm. One fault hits it at a time drawn from the
seed, from the first instant to after the last row: a signal, or a strategy that hangs in its own work. Then:

  ended      the launch ended within its deadline
  orphans    no process of it is left
  files      every result file is whole, and nothing half-written lies about
  rows       every row that was said to be done is on disk, as done
  lies       a row that says ok has the parameters of an undisturbed run; exit status 0 says that all rows are ok
  sentence   what went wrong is a sentence: it names the rank that was hit, and nothing died of an uncaught exception
  resume     --resume then takes over the rows that were done and runs the rest

Exit status: 0 if all held for every fault, 1 if not.
"""
import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
RANKS = 2
ROWS = 3
TIMEOUT_S = 4  # world.timeout_s
GRACE_S = 5  # what a launch may take on top of it, by design
EXPERIMENT = """
name: faults
model: {{vocab_size: 64, context_length: 16, d_model: 32, layers: 1, heads: 2, d_ff: 64}}
data: {{source: random}}
world: {{size: {ranks}, timeout_s: {timeout}, backend: {backend}, threads_per_rank: 1}}
precision: fp32
strategy: flat
attention: eager
optimizer: {{name: adamw, lr: 0.001}}
train: {{batch_per_rank: 2, warmup_steps: 1, steps: {steps}}}
sweep: {{train.seed: [1, 2, 3]}}
"""
STEPS = 60
HANG = 0  # instead of a signal's number: the rank's strategy hangs, in every row
PROGRESS_S = 2  # world.progress_timeout_s of a launch that hangs
MARK = "DDPRUN_FAULT_MARK"  # in the environment of every process of a launch
UNCAUGHT = ("terminate called", "what():", "core dumped", "Sanitizer", "Traceback")


def signal_name(number):
    return "hang" if number == HANG else signal.Signals(number).name


# ---------------------------------------------------------------- processes


def marked(mark):
    """The processes of a launch that live: pid -> parent's pid."""
    found = {}
    needle = f"{MARK}={mark}".encode()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if needle not in Path(entry.path, "environ").read_bytes().split(b"\0"):
                continue
            stat = Path(entry.path, "stat").read_text()
        except OSError:
            continue
        state, parent = stat[stat.rindex(")") + 2:].split()[:2]
        if state != "Z":
            found[int(entry.name)] = int(parent)
    return found


def ranks_of(parent, mark):
    """The ranks that a parent has at this moment."""
    return sorted(pid for pid, its_parent in marked(mark).items() if its_parent == parent)


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def end_all(mark):
    for pid in marked(mark):
        send(pid, signal.SIGKILL)


# ---------------------------------------------------------------- faults


@dataclass
class Fault:
    index: int
    backend: str
    joined: bool
    target: str  # "parent" (local launches), "rank 0", "rank 1"
    number: int  # of the signal, or HANG
    moment: float  # in [0, 1] of an undisturbed run's duration

    def words(self):
        """What the command is told, so that the fault happens by itself."""
        if self.number != HANG:
            return []
        strategy = f"{{name: planted, fault: hang, rank: {self.target.split()[1]}, first: {int(self.moment * STEPS * 0.9)}}}"
        return ["--plugin-path", str(REPO / "build/release/tests/plugins/planted"), "--set", f"strategy={strategy}",
                "--set", f"world.progress_timeout_s={PROGRESS_S}"]

    def __str__(self):
        launch = "joined" if self.joined else "local"
        return f"fault {self.index}: {signal_name(self.number)} to {self.target} at {self.moment:.3f}, {launch}, {self.backend}"


def draw(index, seed):
    """Fault `index` of a seed; it depends on nothing else, so that one fault can be repeated."""
    generator = random.Random(f"{seed}/{index}")
    joined = generator.random() < 0.35
    targets = [f"rank {rank}" for rank in range(RANKS)] + ([] if joined else ["parent"])
    target = generator.choice(targets)
    if target == "parent":
        numbers = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT]
    else:
        numbers = [signal.SIGKILL, signal.SIGSTOP, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, HANG]
    return Fault(index, generator.choice(["gloo", "shm"]), joined, target, int(generator.choice(numbers)),
                 generator.random() * 1.05)


# ---------------------------------------------------------------- launches


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Launch:
    """A batch, as one process that starts its ranks, or as one process a rank."""

    def __init__(self, program, folder, fault_backend, joined, more=()):
        self.mark = uuid.uuid4().hex
        self.joined = joined
        self.folder = Path(folder)
        experiment = self.folder / "faults.yaml"
        experiment.write_text(EXPERIMENT.format(ranks=RANKS, timeout=TIMEOUT_S, backend=fault_backend, steps=STEPS))
        command = [str(program), str(experiment), "--output", str(self.folder / "results"), "-v", *more]
        self.begin = time.monotonic()
        port = free_port()
        self.processes, self.files = [], []
        for rank in range(RANKS if joined else 1):
            environment = {**os.environ, MARK: self.mark}
            if joined:
                environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS),
                                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            files = [open(self.folder / f"{name}.{rank}", "w+", encoding="utf-8") for name in ("out", "err")]
            self.files.append(files)
            # pylint: disable=consider-using-with
            self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=files[0], stderr=files[1], env=environment,
                                                   start_new_session=True))

    def pid_of(self, target):
        """The process of a fault's target, or None if it is not there now."""
        if target == "parent":
            return self.processes[0].pid
        rank = int(target.split()[1])
        if self.joined:
            return self.processes[rank].pid
        ranks = ranks_of(self.processes[0].pid, self.mark)
        return ranks[rank] if len(ranks) == RANKS else None

    def wait(self, seconds):
        """The exit statuses; None for a process that did not end in time."""
        deadline = time.monotonic() + seconds
        statuses = []
        for process in self.processes:
            try:
                statuses.append(process.wait(max(0.0, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                statuses.append(None)
        return statuses

    def text(self):
        return "\n".join((self.folder / f"{name}.{rank}").read_text(errors="replace")
                         for rank in range(len(self.processes)) for name in ("out", "err"))

    def close(self):
        end_all(self.mark)
        for process in self.processes:
            process.wait()
        for files in self.files:
            for file in files:
                file.close()


# ---------------------------------------------------------------- what is on disk


def results_in(folder):
    """The result folders, oldest first."""
    return sorted(path for path in Path(folder).glob("results/faults/*") if path.is_dir() and not path.is_symlink())


def rows_of(folder):
    """The rows of a result folder by number: those of result.json, or of a batch that was cut short."""
    whole = folder / "result.json"
    if whole.exists():
        return dict(enumerate(json.loads(whole.read_text())["rows"], 1))
    return {int(path.stem): json.loads(path.read_text())["rows"][0] for path in folder.glob("rows/[!.]*.json")}


def hashes(row):
    return {rank["parameter_hash"] for rank in row["ranks"]}


def said_done(text):
    """The rows that the program said were done, by number: '[2/3] 2: 1.5 ms/step, loss 4.2 (0.9 s)'."""
    return {int(number) for number in re.findall(r"^\[(\d)/\d\] \S+: [\d.,]+ ms/step, loss [^\n]*\([\d.]+ s\)$", text, re.MULTILINE)}


# ---------------------------------------------------------------- one fault


@dataclass
class Verdict:
    fault: Fault
    broken: list = field(default_factory=list)  # (what must hold, words)
    text: str = ""
    hit: bool = False

    def demand(self, holds, what, words):
        if not holds:
            self.broken.append((what, words))


def check_rows(verdict, folder, reference, done):
    """The rows on disk against an undisturbed run's. Returns how many are ok."""
    try:
        rows = rows_of(folder)
    except (OSError, ValueError, KeyError) as error:
        verdict.demand(False, "files", f"a result is not whole: {error!r}")
        return 0
    for number in done:
        status = rows[number]["status"] if number in rows else "not there"
        verdict.demand(status == "ok", "rows", f"row {number} was said to be done and is {status}")
    for number, row in rows.items():
        if row["status"] == "ok":
            verdict.demand(hashes(row) == {reference[number]}, "lies", f"row {number} is ok with parameters {hashes(row)}")
        else:
            verdict.demand(bool(row["reason"]), "sentence", f"row {number} is {row['status']} without a reason")
    return sum(row["status"] == "ok" for row in rows.values())


def check_end(verdict, launch, statuses, reference):
    fault, text = verdict.fault, launch.text()
    verdict.text = text
    for words in UNCAUGHT:
        verdict.demand(words not in text, "sentence", f"'{words}' in what it said")
    left = {}
    for _ in range(50):  # a rank may need a moment to die with its parent
        left = marked(launch.mark)
        if not left:
            break
        time.sleep(0.1)
    verdict.demand(not left, "orphans", f"processes {sorted(left)} are left")
    debris = [str(path) for path in launch.folder.glob("results/**/*") if path.name.startswith(".") and path.is_file()]
    # Who writes may be ended at once: rank 0 of a joined launch by every fault, a parent, which hears the others, by SIGKILL alone.
    killed_writer = fault.target == "rank 0" if fault.joined else fault.target == "parent" and fault.number == signal.SIGKILL
    verdict.demand(not debris or killed_writer, "files", f"half-written: {debris}")
    done, found = said_done(text), results_in(launch.folder)
    verdict.demand(bool(found) or not done, "rows", f"rows {sorted(done)} were said to be done and there is no result")
    ok = sum(check_rows(verdict, path, reference, done) for path in found)
    if all(status == 0 for status in statuses):
        verdict.demand(ok == ROWS, "lies", f"exit status 0 with {ok} rows ok")
    elif verdict.hit and fault.target != "parent" and ok < ROWS:
        verdict.demand(fault.target in text, "sentence", f"nothing names {fault.target}")
    return ok


def check_resume(verdict, program, folder, ok, reference):
    """--resume in the same folder: what was done stays done, the rest runs."""
    launch = Launch(program, folder, verdict.fault.backend, False, ["--resume"])
    try:
        statuses = launch.wait(60)
        text = launch.text()
        verdict.demand(statuses == [0], "resume", f"--resume ended with {statuses}: {text[-600:]}")
        if statuses == [0]:
            rows = rows_of(results_in(folder)[-1])
            verdict.demand({number: hashes(row) for number, row in rows.items()} == {number: {value} for number, value in reference.items()},
                           "resume", "other parameters after --resume")
            taken = text.count("taken over from")
            verdict.demand(taken >= ok, "resume", f"{ok} rows were done, {taken} were taken over")
    finally:
        launch.close()


def run_fault(fault, program, references):
    duration, reference = references[fault.backend, fault.joined]
    verdict = Verdict(fault)
    with tempfile.TemporaryDirectory(prefix="ddprun-fault-") as folder:
        launch = Launch(program, folder, fault.backend, fault.joined, fault.words())
        try:
            if fault.number == HANG:
                verdict.hit = True
            else:
                time.sleep(max(0.0, launch.begin + fault.moment * duration - time.monotonic()))
                pid = launch.pid_of(fault.target)
                verdict.hit = pid is not None and launch.processes[0].poll() is None and send(pid, fault.number)
            if fault.number == signal.SIGSTOP and fault.joined:  # nobody is its parent; whoever launched it ends it
                statuses = launch.wait(duration + ROWS * (TIMEOUT_S + GRACE_S) + GRACE_S)
                rank = int(fault.target.split()[1])
                others = [status for index, status in enumerate(statuses) if index != rank]
                verdict.demand(None not in others, "ended", f"the other rank did not end: {statuses}")
                send(launch.processes[rank].pid, signal.SIGKILL)
                statuses = launch.wait(10)
            else:
                statuses = launch.wait(3 * duration + ROWS * (TIMEOUT_S + GRACE_S) + GRACE_S)
                verdict.demand(None not in statuses, "ended", f"no end in time: {statuses}")
            ok = check_end(verdict, launch, statuses, reference)
        finally:
            launch.close()
        if not verdict.broken and not fault.joined and results_in(folder) and fault.index % 4 == 0:
            check_resume(verdict, program, folder, ok, reference)
    return verdict


def undisturbed(program, backend, joined):
    """How long the batch takes, and its rows' parameters."""
    with tempfile.TemporaryDirectory(prefix="ddprun-fault-") as folder:
        launch = Launch(program, folder, backend, joined)
        try:
            statuses = launch.wait(120)
            duration = time.monotonic() - launch.begin
            if any(status != 0 for status in statuses):
                sys.exit(f"fault_driver: the undisturbed run ended with {statuses}:\n{launch.text()}")
            rows = rows_of(results_in(folder)[0])
            if len(said_done(launch.text())) != ROWS:
                sys.exit(f"fault_driver: it did not say its {ROWS} rows as this program expects:\n{launch.text()}")
            return duration, {number: hashes(row).pop() for number, row in rows.items()}
        finally:
            launch.close()


# ---------------------------------------------------------------- the whole


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this fault alone")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time; many disturb deadlines")
    parser.add_argument("--minutes", type=float, default=0, help="begin none after so long (0: no limit)")
    parser.add_argument("--program", default=str(REPO / "build/release/bin/ddprun"))
    return parser.parse_args()


def report(verdict):
    for what, words in verdict.broken:
        print(f"BROKEN {what}: {verdict.fault}: {words}", flush=True)
    if verdict.broken:
        print("  " + "\n  ".join(verdict.text.strip().splitlines()[-25:]), flush=True)


def main():
    args = read_arguments()
    begin = time.monotonic()
    references = {(backend, joined): undisturbed(args.program, backend, joined) for backend in ("gloo", "shm") for joined in (False, True)}
    indices = [args.only] if args.only is not None else range(args.faults)
    counts = {"faults": 0, "hit": 0, "broken": 0}
    lock = threading.Lock()

    def one(index):
        if args.minutes and time.monotonic() - begin > args.minutes * 60:
            return
        verdict = run_fault(draw(index, args.seed), args.program, references)
        with lock:
            counts["faults"] += 1
            counts["hit"] += verdict.hit
            counts["broken"] += bool(verdict.broken)
            report(verdict)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(one, indices))
    print(f"fault_driver: seed {args.seed}: {counts['faults']} faults, {counts['hit']} of them hit a process that lived, "
          f"{counts['broken']} broke a promise; {time.monotonic() - begin:.0f} s")
    return 1 if counts["broken"] or not counts["hit"] else 0


if __name__ == "__main__":
    sys.exit(main())
