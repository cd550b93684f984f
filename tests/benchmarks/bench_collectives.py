#!/usr/bin/env python3
"""All-reduce of `experiment: collectives` beside the programs that libraries measure themselves with, on this machine.

    GLOO_BENCHMARK=/path/to/gloo/build/gloo/benchmark/benchmark INTEL=/path/to/venv tests/benchmarks/bench_collectives.py
    tests/benchmarks/bench_collectives.py --ranks 2 --bytes 4096,1048576 --rounds 3 --json FILE

Backend gloo beside gloo's benchmark (new_allreduce_ring: the algorithm that PyTorch calls), backend mpi beside a loop
around MPI_Allreduce (mpi_all_reduce), and backend shm beside both, and beside that loop with Intel's MPI and oneCCL.
INTEL is a virtual environment with them: `pip install impi-rt==2021.15.0 impi-devel==2021.15.0 intel-cmplr-lib-rt==2025.1.1
intel-sycl-rt==2025.1.1`, then `pip install --no-deps oneccl==2021.15.2 oneccl-devel==2021.15.2`. Float32, sum. The sides run
in turn, A B A B, in fresh processes; each rank of each side on the same core. Prints a table: the median over the rounds of a side's
median, and of the ratio within a round (lowest – highest). A side whose program is not there is left out. On a machine
with other work, `chrt -r 50` before the command (as root) keeps that work from the ranks' cores.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import bench_sides as sides

GLOO_BENCHMARK = os.environ.get("GLOO_BENCHMARK", "")
MPI_PROGRAM = sides.BIN / "mpi_all_reduce"
INTEL = os.environ.get("INTEL", "")
BYTES = (4096, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
SECONDS = 0.4  # of a size on a side
PAIRS = (("ddprun gloo", "gloo's program"), ("ddprun mpi", "MPI's program"),
         *(("ddprun shm", f"{name}'s program") for name in ("gloo", "MPI", "Intel MPI", "oneCCL")))


def cores_of(rank, ranks):
    """The cores that ddprun pins a rank to (pin_to_share), as taskset takes them."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < ranks:
        return str(cores[rank % len(cores)])
    return ",".join(map(str, cores[len(cores) * rank // ranks:len(cores) * (rank + 1) // ranks]))


def pinned(ranks, variable):
    """Before the command of a rank, whose number `variable` is: it runs on its cores."""
    cores = " ".join(cores_of(rank, ranks) for rank in range(ranks))
    return ["bash", "-c", f'cores=({cores}); exec taskset -c "${{cores[${variable}]}}" "$@"', "pin"]


def mpirun(ranks):
    """Starts what follows as so many ranks of MPI, each on its cores."""
    return ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *pinned(ranks, "OMPI_COMM_WORLD_RANK")]


def experiment(backend, ranks, sizes):
    """All sizes over one backend: ordinary memory, as the other programs have, and shm's own."""
    repeat = {"warmup": 5, "count": 2000, "seconds": SECONDS}
    made = sides.collectives("beside", {"size": ranks, "backend": backend}, {"collectives.bytes": list(sizes)}, repeat)
    made["collectives"]["memory"] = "group" if backend == "shm" else "ordinary"
    return made


def ddprun(backend, launcher=lambda ranks: ()):
    """A side that is a backend of ours: (ranks, sizes) -> microseconds of each size."""
    def run(ranks, sizes):
        result, _ = sides.run_experiment(experiment(backend, ranks, sizes), launcher(ranks), sides.MPI_ENVIRONMENT)
        return {row["work"]["bytes"]: row["statistics"]["time_us"]["median"] for row in sides.proved_rows(result)}
    return run


def medians_of(command, sizes, environment):
    out, _ = sides.execute([*command, *map(str, sizes)], environment)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {line["bytes"]: line["sides"]["mpi"]["median_ms"] * 1e3 for line in lines}


def mpi_program(ranks, sizes):
    return medians_of([*mpirun(ranks), str(MPI_PROGRAM)], sizes, sides.MPI_ENVIRONMENT)


def intel_program(*oneccl):
    """A side that is the loop with Intel's MPI or, with what that needs, with oneCCL, built now."""
    there = Path(INTEL)
    lib, program = there / "lib", Path(tempfile.mkdtemp()) / "all_reduce"
    subprocess.run(["c++", "-O2", "-std=c++17", f"-I{there}/include", *oneccl, sides.REPO / "tests/benchmarks/mpi_all_reduce.cpp", "-o", program,
                    *([lib / "libccl.so.1"] if oneccl else []), lib / "libmpi.so.12", f"-Wl,-rpath,{lib},--allow-shlib-undefined"], check=True)
    environment = {"I_MPI_ROOT": INTEL, "FI_PROVIDER_PATH": str(lib), "LD_LIBRARY_PATH": str(lib), "I_MPI_FABRICS": "shm", "I_MPI_PIN": "0",
                   "CCL_ROOT": INTEL, "CCL_ATL_TRANSPORT": "mpi", "CCL_WORKER_OFFLOAD": "0", "CCL_LOG_LEVEL": "error"}

    def run(ranks, sizes):
        launcher = [str(there / "bin/mpiexec.hydra"), "-n", str(ranks), *pinned(ranks, "PMI_RANK")]
        return medians_of([*launcher, str(program)], sizes, environment)
    return run


def gloo_median(out):
    """Microseconds: the column p50 of the one line of figures."""
    header, row = (next(line.split() for line in out.splitlines() if condition(line.split()))
                   for condition in (lambda words: "p50" in words, lambda words: words and words[0].isdigit()))
    names = [word for word in header if not word.startswith("(")]
    return float(row[names.index("p50")]) * 1e-3


def gloo_program(ranks, sizes):
    """Rank 0's p50; between its calls there is no barrier, and the buffers are not written anew."""
    medians = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            command = [GLOO_BENCHMARK, "--size", str(ranks), "--shared-path", folder, "--transport", "tcp", "--tcp-device", "lo",
                       "--elements", str(size // 4), "--iteration-time", f"{SECONDS * 1000:.0f}ms", "--no-verify", "--nanos"]
            processes = [subprocess.Popen(["taskset", "-c", cores_of(rank, ranks), *command, "--rank", str(rank), "new_allreduce_ring"],
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(ranks)]
            outs = [process.communicate(timeout=sides.RUN_LIMIT_S)[0] for process in processes]
        if any(process.returncode for process in processes):
            raise sides.RunFailed(f"gloo's benchmark failed: {' / '.join(outs)}")
        medians[size] = gloo_median(outs[0])
    return medians


def all_sides():
    found = {"ddprun gloo": ddprun("gloo"), "ddprun shm": ddprun("shm")}
    if GLOO_BENCHMARK:
        found["gloo's program"] = gloo_program
    else:
        print("left out: gloo's program; GLOO_BENCHMARK names none", file=sys.stderr)
    if MPI_PROGRAM.exists():
        found.update({"ddprun mpi": ddprun("mpi", mpirun), "MPI's program": mpi_program})
    else:
        print(f"left out: MPI; there is no {MPI_PROGRAM.relative_to(sides.REPO)}", file=sys.stderr)
    if INTEL:
        found.update({"Intel MPI's program": intel_program(), "oneCCL's program": intel_program("-DONECCL")})
    else:
        print("left out: Intel MPI and oneCCL; INTEL names no environment", file=sys.stderr)
    return found


def measure(ranks, sizes, rounds):
    """Side -> size -> one figure a round, in microseconds; and the cores that others took in each round."""
    figures, others, found = {}, [], all_sides()
    for index in range(rounds):
        busy, own, begin = sides.busy_cpu_s(), sides.children_cpu_s(), os.times().elapsed
        for name, run in found.items():
            for size, microseconds in run(ranks, sizes).items():
                figures.setdefault(name, {}).setdefault(size, []).append(microseconds)
        taken = sides.busy_cpu_s() - busy - sides.children_cpu_s() + own
        others.append(round(max(0.0, taken) / (os.times().elapsed - begin), 2))
        print(f"{ranks} ranks: round {index + 1} of {rounds}; others took {others[-1]} cores", file=sys.stderr, flush=True)
    return figures, others


def table(ranks, figures):
    """Lines of Markdown, one a size: each side's median, then each pair's ratio."""
    names, pairs = list(figures), [pair for pair in PAIRS if set(pair) <= set(figures)]
    lines = [" | ".join(["| ranks | bytes", *(f"{name} µs" for name in names), *(f"{a} / {b}" for a, b in pairs)]) + " |",
             "|---" * (2 + len(names) + len(pairs)) + "|"]
    for size in figures[names[0]]:
        cells = [f"{statistics.median(figures[name][size]):.4g}" for name in names]
        for a, b in pairs:
            ratios = [x / y for x, y in zip(figures[a][size], figures[b][size])]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})")
        lines.append(" | ".join([f"| {ranks} | {size}", *cells]) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = {"type": lambda text: [int(word) for word in text.split(",")]}
    parser.add_argument("--ranks", default=[2, 4], **numbers)
    parser.add_argument("--bytes", default=list(BYTES), **numbers)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    everything = []
    for ranks in args.ranks:
        figures, others = measure(ranks, args.bytes, args.rounds)
        print("\n".join(table(ranks, figures)), flush=True)
        everything.append({"ranks": ranks, "microseconds": figures, "other_cpus": others, "load": os.getloadavg()})
    if args.json:
        args.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
