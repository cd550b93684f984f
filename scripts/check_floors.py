#!/usr/bin/env python3
"""Holds the includes of core, runner and plugins against the table of floors in docs/architecture.md."""

import pathlib
import re
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parent.parent
TABLE = "docs/architecture.md"
# A row of the table: | `core/ddprun/comm/` | what it holds | base, device | `process_group.h` |
ROW = re.compile(r"^\| `([^`]+)/` \|[^|]*\|([^|]*)\|[^|]*\|$")
INCLUDE = re.compile(r'^#include "([^"]+)"')
# What the system, or torch, loads, and nobody includes.
ENTRIES = {"runner/main.cpp", "core/ddprun/python/flash_attention_op.cpp"}
FAMILY = re.compile(r"^// Family: (.+)$", re.MULTILINE)

problems = []


def short(folder):
    """How the table's third column and the include lines call a folder."""
    return folder.removeprefix("core/ddprun/")


def read_table():
    """Folder -> the folders that it may include; in the table's order, from the ground up."""
    floors = {}
    for line in (REPO / TABLE).read_text().splitlines():
        row = ROW.match(line)
        if not row:
            continue
        below = [name.strip().strip("`") for name in row[2].split(",") if name.strip() not in ("", "–")]
        for name in below:
            if name not in map(short, floors):
                problems.append(f"{TABLE}: `{row[1]}` includes `{name}`, which is no floor below it")
        floors[row[1]] = set(below)
    if not floors:
        problems.append(f"{TABLE}: no table of floors was found")
    return floors


def sources():
    listed = subprocess.run(["git", "ls-files", "core", "runner", "plugins", "docs/examples/plugins"],
                            cwd=REPO, check=True, capture_output=True, text=True).stdout.split()
    return [name for name in listed if name.endswith((".h", ".cpp", ".cu", ".cuh")) and (REPO / name).exists()]


def target_of(include):
    """The file that an include line of ours names, from the repository's root; None: not ours."""
    if include.startswith("ddprun/"):
        return "core/" + include
    return include if include.startswith("runner/") else None


def check_includes(files, floors):
    used = {folder: set() for folder in floors}
    for name in files:
        folder = str(pathlib.Path(name).parent)
        owner = next((f for f in (folder, folder.split("/")[0]) if f in floors), None)
        if name.startswith("docs/"):
            owner = "plugins"  # the plugins that are built out of tree stand for everybody's
        if owner is None:
            problems.append(f"{name}: its folder is not in the table of {TABLE}")
            continue
        for number, line in enumerate((REPO / name).read_text().splitlines(), 1):
            include = INCLUDE.match(line)
            target = target_of(include[1]) if include else None
            if include and target is None and owner == "plugins":
                problems.append(f"{name}:{number}: a plugin includes its own source and the SDK only: {include[1]}")
            if target is None:
                continue
            if not (REPO / target).exists():
                problems.append(f"{name}:{number}: there is no {target}")
            there = short(str(pathlib.Path(target).parent))
            if there == short(owner):
                continue
            used[owner].add(there)
            if there not in floors[owner]:
                problems.append(f"{name}:{number}: {short(owner)} may not include {there} ({TABLE}, the table of floors)")
    for folder, allowed in floors.items():
        for there in sorted(allowed - used[folder]):
            problems.append(f"{TABLE}: `{folder}` no longer includes `{there}`: take it out of the table")


def check_headers(files):
    """Each .cpp has a header of its name, or stands in the family that a header of its folder lists."""
    listed = set()
    for name in files:
        if name.endswith(".h"):
            for family in FAMILY.findall((REPO / name).read_text()):
                listed.update(str(pathlib.Path(name).parent / member) for member in family.split())
    for name in sorted(listed - set(files)):
        problems.append(f"{name}: a `// Family:` line names it, and it is not there")
    for name in files:
        if not name.startswith(("core/", "runner/")) or not name.endswith(".cpp") or name in ENTRIES:
            continue
        if str(pathlib.Path(name).with_suffix(".h")) not in files and name not in listed:
            problems.append(f"{name}: no header of its name, and no header lists it in a `// Family:` line")


def main():
    floors = read_table()
    files = sources()
    check_includes(files, floors)
    check_headers(files)
    for problem in problems:
        print(f"lint: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
