"""Reads what an experiment of any kind left in its result folder."""
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

SCHEMA_VERSION = 17
Record = dict[str, Any]


@dataclass(frozen=True)
class Result:
    """One result folder. `rows` and `samples` are made of plain dicts; `data` is result.json, whole.

    A row is a line of the table: `label`, `kind` (training, collectives, attention, precision, arithmetic), `status` (ok, or what ended it),
    `reason`, `proof` (None if it did not come so far), `runs`, the keys of the YAML in which rows differ ("strategy.name"), and every figure by its key in
    result.json ("step_ms"), with the standard deviation between runs ("step_ms_std") where the row ran several times. What
    another row has and this one has not, as one that failed, is None.
    A sample is a step of a rank of a run, or one call of it: `row` (its place in `rows`), `label`, `run`, `rank`, and what was
    measured. Its unit is in its name; docs/measurement.md has the formula of each.
    """

    file: Path
    data: Record
    rows: list[Record]
    samples: list[Record]

    def frame(self, what: str = "rows") -> Any:
        """A pandas.DataFrame of "rows" or "samples"."""
        if what not in ("rows", "samples"):
            raise ValueError(f"a frame is of \"rows\" or \"samples\", not of {what!r}")
        try:
            import pandas
        except ImportError:
            raise ImportError(f"a frame needs pandas (pip install pandas); .{what} is a list of dicts") from None
        return pandas.DataFrame(getattr(self, what))


def load(path: str | Path) -> Result:
    """The result in a folder, in the latest one below results/NAME, or in a result.json."""
    file = _find(Path(path))
    data = json.loads(file.read_text(encoding="utf-8"))
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise ValueError(f"{file} is a result of schema {version}, and this ddprun reads schema {SCHEMA_VERSION}")
    runs = list(_runs(data))
    differing = _differing([_flat(group[0].get("config") or {}) for _, group in runs])
    rows = _alike([_row(line, group, keys) for (line, group), keys in zip(runs, differing)])
    samples = [sample for place, (line, group) in enumerate(runs) for sample in _samples(place, line["name"], group)]
    return Result(file, data, rows, samples)


def _find(path: Path) -> Path:
    for file in (path, path / "result.json", path / "latest" / "result.json"):
        if file.is_file():
            return file
    # Where `latest` led to may be gone. Folders are named by time.
    if results := sorted(path.glob("*/result.json")):
        return results[-1]
    running = " (it is still running, or was interrupted)" if (path / "rows").is_dir() else ""
    raise FileNotFoundError(f"no result.json in {path} or {path / 'latest'}{running}")


def _runs(data: Record) -> Iterator[tuple[Record, list[Record]]]:
    """Each line of the table with its runs."""
    begins = [line["first_row"] - 1 for line in data["table"]]
    for line, begin, end in zip(data["table"], begins, [*begins[1:], len(data["rows"])]):
        yield line, data["rows"][begin:end]


def _row(line: Record, group: list[Record], keys: Record) -> Record:
    first = next((run for run in group if run["status"] != "ok"), group[0])
    row = {"label": line["name"], "kind": first["kind"], "status": first["status"], "reason": first["reason"],
           "proof": first.get("proof", {}).get("status"), "runs": line["runs"], **keys, **line["figures"]}
    row.update((f"{key}_std", value) for key, value in line.get("std", {}).items())
    return row


def _alike(rows: list[Record]) -> list[Record]:
    keys = dict.fromkeys(key for row in rows for key in row)
    return [{key: row.get(key) for key in keys} for row in rows]


def _samples(place: int, label: str, group: list[Record]) -> Iterator[Record]:
    for run in group:
        for rank in run["ranks"]:
            columns = rank["samples"]  # a list for each quantity
            for values in zip(*columns.values()):
                yield {"row": place, "label": label, "run": run["repetition"], "rank": rank["rank"], **dict(zip(columns, values))}


def _flat(config: Record, prefix: str = "") -> Record:
    flat: Record = {}
    for key, value in config.items():
        flat.update(_flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return flat


def _differing(configs: list[Record]) -> list[Record]:
    """Of each configuration the keys whose values are not the same in all."""
    keys = dict.fromkeys(key for config in configs for key in config)
    varied = [key for key in keys if any(config.get(key) != configs[0].get(key) for config in configs)]
    return [{key: config.get(key) for key in varied} for config in configs]
