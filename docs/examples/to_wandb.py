#!/usr/bin/env python3
"""Copies a result of ddprun to Weights & Biases, MLflow or trackio.

    to_wandb.py results/quickstart --to wandb --project mine

Each run of each row becomes a run there: the steps of rank 0 as metrics, and the keys in which rows differ as its settings.
The package `ddprun` must be found: with its wheel it is, else PYTHONPATH names lib/ddprun/python of a build or an installation.
"""
import argparse
import importlib
import sys
from typing import Any, Iterator

try:
    import ddprun
except ImportError as error:
    sys.exit(f"the package ddprun is not found (pip install its wheel, or PYTHONPATH=build/release/lib/ddprun/python): {error}")

Record = dict[str, Any]
PLACES = {"row", "label", "run", "rank", "step", "warmup"}


def numbers(record: Record) -> Record:
    """What of it is a number; result.json has the texts "nan" and "inf" where JSON has no number."""
    out = {}
    for key, value in record.items():
        if value in ("nan", "inf", "-inf"):
            value = float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            out[key] = value
    return out


def runs(result: ddprun.Result) -> Iterator[tuple[str, Record, list[Record]]]:
    """Name, settings and steps of each run."""
    for place, row in enumerate(result.rows):
        settings = {key: value for key, value in row.items() if "." in key}
        settings |= {key: row[key] for key in ("kind", "status", "proof")}
        own = [sample for sample in result.samples if sample["row"] == place and sample["rank"] == 0]
        for run in sorted({sample["run"] for sample in own}):
            name = row["label"] if row["runs"] == 1 else f"{row['label']} #{run}"
            yield name, settings, [sample for sample in own if sample["run"] == run]


def metrics(sample: Record) -> Record:
    return numbers({key: value for key, value in sample.items() if key not in PLACES})


def copy_to_wandb(module: Any, result: ddprun.Result, project: str) -> int:
    """trackio has the same functions."""
    count = 0
    for name, settings, samples in runs(result):
        module.init(project=project, name=name, config=settings)
        for sample in samples:
            module.log(metrics(sample), step=sample["step"])
        module.finish()
        count += 1
    return count


def copy_to_mlflow(module: Any, result: ddprun.Result, project: str) -> int:
    count = 0
    module.set_experiment(project)
    for name, settings, samples in runs(result):
        with module.start_run(run_name=name):
            module.log_params(settings)
            for sample in samples:
                module.log_metrics(metrics(sample), step=sample["step"])
        count += 1
    return count


COPIES = {"wandb": copy_to_wandb, "trackio": copy_to_wandb, "mlflow": copy_to_mlflow}


def main() -> int:
    parser = argparse.ArgumentParser(description="Copies a result of ddprun to an experiment tracker.")
    parser.add_argument("result", help="results/NAME, a result folder, or a result.json")
    parser.add_argument("--to", required=True, choices=sorted(COPIES))
    parser.add_argument("--project", default="ddprun")
    arguments = parser.parse_args()
    try:
        module = importlib.import_module(arguments.to)
    except ImportError as error:
        print(f"--to {arguments.to} needs the package {arguments.to} (pip install {arguments.to}): {error}", file=sys.stderr)
        return 1
    try:
        result = ddprun.load(arguments.result)
    except (OSError, ValueError) as error:
        print(f"not a result that can be read: {error}", file=sys.stderr)
        return 1
    count = COPIES[arguments.to](module, result, arguments.project)
    print(f"{count} runs of {result.file} are in project {arguments.project} of {arguments.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
