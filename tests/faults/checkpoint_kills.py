#!/usr/bin/env python3
"""SIGKILL at random times to runs that save every two steps, and what must hold afterwards.

    python3 tests/faults/checkpoint_kills.py --kills 1000 --seed 1     what `make test-faults` does a part of
    python3 tests/faults/checkpoint_kills.py --seed 1 --only 37        one run again

A run of a strategy, on two or three ranks, over gloo or shm, is killed once to three times (a rank, the parent, or all of them) at
times drawn from the seed, and goes on each time by the same command. Then:

  whole      after each kill the checkpoint that `latest` names is what was saved, byte for byte; none is there only if none was saved
  kept       a checkpoint that was there before the kill, or a later one, is there
  orphans    no process of it is left
  equal      the run that went on ends with the parameters of one that was not killed, bit for bit, and is proved

Exit status: 0 if all held for every run, 1 if not.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fault_driver import MARK, REPO, end_all, marked, ranks_of, send

STEPS = 40
EXPERIMENT = """
name: kills
model: {vocab_size: 64, context_length: 16, d_model: 32, layers: 2, heads: 2, d_ff: 64}
data: {source: random}
precision: fp32
attention: eager
optimizer: {name: adamw, lr: 0.003, schedule: {name: cosine, warmup_steps: 5}}
"""
STRATEGIES = ("overlap", "zero1", "fsdp", "{name: powersgd, rank: 2}", "{name: local_sgd, every: 3, outer_lr: 0.7, outer_momentum: 0.9}")
END_S = 60  # what any launch may take


@dataclass(frozen=True)
class Setting:
    strategy: str
    ranks: int
    backend: str
    writes_beside: bool  # train.checkpoint.async

    def command(self, program, experiment, folder):
        sets = [f"strategy={self.strategy}", f"world={{size: {self.ranks}, backend: {self.backend}, threads_per_rank: 1, timeout_s: 4}}",
                f"train={{batch_per_rank: 2, warmup_steps: 1, steps: {STEPS - 1}, resume_from: latest, "
                f"checkpoint: {{every: 2, async: {str(self.writes_beside).lower()}, path: {folder}/saved}}}}"]
        return [program, str(experiment), "--output", f"{folder}/results", *(word for each in sets for word in ("--set", each))]


class Launch:
    def __init__(self, command, folder):
        self.mark = uuid.uuid4().hex
        self.begin = time.monotonic()
        self.log = open(Path(folder) / "log", "a+", encoding="utf-8")
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env={**os.environ, MARK: self.mark}, start_new_session=True)

    def kill(self, target, drawn):
        """Returns whether something was hit."""
        if self.process.poll() is not None:
            return False
        ranks = ranks_of(self.process.pid, self.mark)
        if target == "all":
            for pid in [self.process.pid, *ranks]:
                send(pid, signal.SIGKILL)
            return True
        if target == "parent":
            return send(self.process.pid, signal.SIGKILL)
        return bool(ranks) and send(ranks[drawn % len(ranks)], signal.SIGKILL)

    def end(self):
        """The exit status, once no process is left; None: it took too long."""
        try:
            status = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            status = None
        deadline = time.monotonic() + 5
        while marked(self.mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        return status

    def close(self):
        end_all(self.mark)
        self.process.wait()
        self.log.close()


def latest_step(folder):
    latest = Path(folder) / "saved/latest"
    return int(latest.read_text().strip().rsplit("-", 1)[1]) if latest.exists() else 0


def parameters_of(folder):
    """Of the last result, if its row is proved."""
    row = json.loads((Path(folder) / "results/kills/latest/result.json").read_text())["rows"][0]
    failed = [check for rank in row["ranks"] for check in rank["checks"] if check["status"] == "failed"]
    return None if row["status"] != "ok" or failed else sorted(rank["parameter_hash"] for rank in row["ranks"])


class Driver:
    def __init__(self, args):
        self.args, self.lock = args, threading.Lock()
        self.quiet = {}  # by setting: seconds, parameters
        self.counts = {"runs": 0, "kills": 0, "broken": 0}

    def broken(self, what, index, setting, words, folder):
        log = "\n  ".join((Path(folder) / "log").read_text(errors="replace").strip().splitlines()[-20:])
        with self.lock:
            self.counts["broken"] += 1
            print(f"BROKEN {what}: run {index}, {setting}: {words}\n  {log}", flush=True)

    def undisturbed(self, setting):
        with self.lock:
            if setting not in self.quiet:
                with tempfile.TemporaryDirectory(prefix="ddprun-kills-") as folder:
                    launch = Launch(self.command(setting, folder), folder)
                    status, seconds = launch.end(), time.monotonic() - launch.begin
                    launch.close()
                    if status != 0:
                        sys.exit(f"checkpoint_kills: the undisturbed run of {setting}: {(Path(folder) / 'log').read_text()}")
                    self.quiet[setting] = seconds, parameters_of(folder)
            return self.quiet[setting]

    def command(self, setting, folder):
        experiment = Path(folder) / "kills.yaml"
        experiment.write_text(EXPERIMENT)
        return setting.command(self.args.program, experiment, folder)

    def check_latest(self, index, setting, folder, before):
        step = latest_step(folder)
        if step < before:
            self.broken("kept", index, setting, f"step {step} after step {before} was saved", folder)
        if step == 0:
            return
        verified = subprocess.run([self.args.program, "checkpoint", "verify", f"{folder}/saved"], capture_output=True, text=True, check=False)
        if verified.returncode != 0:
            self.broken("whole", index, setting, verified.stderr.strip(), folder)

    def one(self, index):
        with self.lock:
            if self.counts["kills"] >= self.args.kills:
                return
        dice = random.Random(f"{self.args.seed}/{index}")
        setting = Setting(dice.choice(STRATEGIES), dice.choice((2, 3)), dice.choice(("gloo", "shm")), dice.choice((False, True)))
        seconds, expected = self.undisturbed(setting)
        with tempfile.TemporaryDirectory(prefix="ddprun-kills-", ignore_cleanup_errors=True) as folder:
            hits = 0
            for _ in range(dice.randint(1, 3)):
                hits += self.one_kill(index, setting, folder, dice, seconds)
            launch = Launch(self.command(setting, folder), folder)
            status = launch.end()
            launch.close()
            # Killed after its last save, it has nothing left to do and says so.
            done = status == 2 and latest_step(folder) == STEPS
            got = parameters_of(folder) if status == 0 else None
            if not done and got != expected:
                self.broken("equal", index, setting, f"status {status}, parameters {got} instead of {expected}", folder)
        with self.lock:
            self.counts["runs"] += 1
            self.counts["kills"] += hits

    def one_kill(self, index, setting, folder, dice, seconds):
        launch = Launch(self.command(setting, folder), folder)
        try:
            target, moment = dice.choice(("rank", "parent", "all")), dice.random() * seconds
            time.sleep(max(0.0, launch.begin + moment - time.monotonic()))
            before = latest_step(folder)
            hit = launch.kill(target, dice.randrange(64))
            if launch.end() is None:
                self.broken("orphans", index, setting, f"no end after SIGKILL to {target}", folder)
            if marked(launch.mark):
                self.broken("orphans", index, setting, f"processes are left after SIGKILL to {target}", folder)
            self.check_latest(index, setting, folder, before)
            return hit
        finally:
            launch.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this run alone")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--program", default=str(REPO / "build/release/bin/ddprun"))
    args = parser.parse_args()
    args.program = shutil.which(args.program)
    begin = time.monotonic()
    driver = Driver(args)
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(driver.one, [args.only] if args.only is not None else range(args.kills)))
    counts = driver.counts
    print(f"checkpoint_kills: seed {args.seed}: {counts['runs']} runs, {counts['kills']} kills hit a process that lived, "
          f"{counts['broken']} broke a promise; {time.monotonic() - begin:.0f} s")
    return 1 if counts["broken"] or not counts["kills"] else 0


if __name__ == "__main__":
    sys.exit(main())
