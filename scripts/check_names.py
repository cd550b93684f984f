#!/usr/bin/env python3
"""Checks that a class has its name for itself.

Of two classes that have one name in one namespace, the linker takes the destructor or another inline function of either
for both, and says nothing.
"""

import re
import subprocess
import sys

FOLDERS = ["core", "runner", "tests"]  # each plugin is a library of its own
SCOPE = re.compile(r"(?:inline )?namespace ?([\w:]*) ?\{$")
CLASS = re.compile(r"(?:class|struct|enum class|union) (\w+)(?: final)?(?: : .*)? ?\{")

places = {}
patterns = [f"{folder}/*.{ending}" for folder in FOLDERS for ending in ("cpp", "h")]
for path in subprocess.check_output(["git", "ls-files", *patterns], text=True).split():
    with open(path) as file:
        scope = []
        for line in file:
            if opened := SCOPE.match(line):
                scope.append(opened[1])
            elif re.match(r"\}  // namespace", line):
                scope.pop()
            elif (named := CLASS.match(line)) and "" not in scope:  # a namespace without a name is its file's
                places.setdefault("::".join([*scope, named[1]]), set()).add(path)

status = 0
for name, files in sorted(places.items()):
    if len(files) > 1:
        print(f"{' and '.join(sorted(files))}: each has a class {name}")
        status = 1
sys.exit(status)
