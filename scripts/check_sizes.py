#!/usr/bin/env python3
"""Holds folders, functions and the strategy's door to their sizes."""

import collections
import pathlib
import re
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parent.parent
FILES, PARAMETERS = 36, 7
# What one reads before one can write such a strategy: its source, the headers that it includes, and how it is built.
DOORS = {"plugins/strategies/naive.cpp": 450, "plugins/strategies/zero2.cpp": 800}
BUILT_BY = "cmake/ddprun_add_plugin.cmake"

INCLUDE = re.compile(r'^#include "(ddprun/[^"]+)"', re.MULTILINE)
# Comments, texts and characters, the lines of the preprocessor. A ' between digits is no character.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\''
                     r'|^[ \t]*#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE)
ARGUMENTS = re.compile(r"(?<=[\w\]])<(?:[^<>;{}&]|&(?!&))*>")
# Declarations of functions that others wrote, in C or Fortran.
FOREIGN = re.compile(r'extern ""(?: \{[^{}]*\}|[^{};]*;)')
# A name, or the end of a lambda's captures, and a parenthesis.
LIST = re.compile(r"(operator\(\)|\w+|\])\s*\(")
NO_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype", "alignas", "requires"}
CLOSES = {"(": ")", "[": "]", "{": "}"}
# What may stand between a list of parameters and the body, the initializers or the end.
BEHIND = re.compile(r"\s*(?:const\b|noexcept\b|override\b|final\b|mutable\b|&|->[\w:<>&*, ]+|= *(?:0|default|delete)\b|\s)*[{;:]")
BUILT_IN = {"bool", "char", "int", "unsigned", "float", "double", "auto", "size_t"}
# A type, and a name if the parameter has one.
PARAMETER = re.compile(r"(?:const )?(?:unsigned |typename )?(?P<type>[\w:]+)(?: const)?(?P<mark>[&* .]*)(?P<name>\w*)(?:\[\w*\])*$")
FORWARD = re.compile(r"^\s*(?:class|struct) (\w+);", re.MULTILINE)
DEFINED = re.compile(r"^\s*(?:class|struct) (\w+)[^;{()]*\{", re.MULTILINE)

problems = []


def code_of(text):
    """The text without what is no code; lines stay where they are."""
    return NO_CODE.sub(lambda found: '""' + "\n" * found[0].count("\n") if found[0][0] in "\"'R" else
                       "\n" * found[0].count("\n") or " ", text)


def without_template_arguments(code):
    """From the inside out. Shifts and comparisons stay: an argument stands at its name, and holds no `;` and no `&&`."""
    before = None
    while code != before:
        before, code = code, ARGUMENTS.sub(lambda found: "\n" * found[0].count("\n"), code)
    return code


def list_from(code, begin):
    """What stands between the parenthesis at `begin` and its partner, cut at its commas, and the place behind."""
    parts, open_ones, start = [], [], begin + 1
    for at in range(begin, len(code)):
        character = code[at]
        if character in CLOSES:
            open_ones.append(CLOSES[character])
        elif open_ones and character == open_ones[-1]:
            open_ones.pop()
            if not open_ones:
                return parts + [code[start:at]], at + 1
        elif character == "," and len(open_ones) == 1:
            parts.append(code[start:at])
            start = at + 1
    return [], len(code)


def is_parameter(part):
    part = " ".join(part.split("=")[0].split())
    if "(*" in part or part.startswith("this "):
        return True
    found = PARAMETER.match(part)
    if not found or not found["type"]:
        return False
    alone = not found["mark"].strip() and not found["name"]
    return not alone or part[0].isupper() or part.startswith("std::") or part.endswith("_t") or part in BUILT_IN


def check_parameters(name, text):
    code = FOREIGN.sub(lambda found: "\n" * found[0].count("\n"), without_template_arguments(code_of(text)))
    for found in LIST.finditer(code):
        if found[1] in NO_FUNCTIONS:
            continue
        parts, behind = list_from(code, found.end() - 1)
        if len(parts) > PARAMETERS and BEHIND.match(code, behind) and all(map(is_parameter, parts)):
            line = code.count("\n", 0, found.start()) + 1
            what = "a lambda" if found[1] == "]" else f"{found[1]}()"
            problems.append(f"{name}:{line}: {what} has {len(parts)} parameters; {PARAMETERS} are the limit")


def check_folders(files):
    for folder, count in collections.Counter(str(pathlib.Path(name).parent) for name in files).items():
        if count > FILES:
            problems.append(f"{folder} has {count} files; {FILES} are the limit: give them rooms")


def closure(source):
    """The source and the headers of ours that it includes, also through others: name -> text."""
    texts, waiting = {}, [source]
    while waiting:
        name = waiting.pop()
        if name not in texts:
            texts[name] = (REPO / name).read_text()
            waiting += ["core/" + header for header in INCLUDE.findall(texts[name])]
    return texts


def check_door(source, limit):
    texts = closure(source)
    lines = sum(len(text.splitlines()) for text in [*texts.values(), (REPO / BUILT_BY).read_text()])
    if lines > limit:
        problems.append(f"{source}: it, what it includes and {BUILT_BY} have {lines} lines; {limit} are the limit")
    # A type that is declared and not defined there is one that its reader must look up elsewhere.
    codes = {name: code_of(text) for name, text in texts.items()}
    together = "\n".join(codes.values())
    incomplete = set(FORWARD.findall(together)) - set(DEFINED.findall(together))
    for name, code in codes.items():
        for kind in sorted(incomplete):
            returned = re.search(rf"\b{kind}\b(?:\s*const)?\s*[&*>]*\s+[&*]*(\w+)\(", code)
            if name.endswith(".h") and returned:
                line = code.count("\n", 0, returned.start()) + 1
                problems.append(f"{name}:{line}: {returned[1]}() returns {kind}, which nothing that {source} includes defines")


def main():
    files = subprocess.run(["git", "ls-files", "core", "runner", "plugins"], cwd=REPO, check=True, capture_output=True,
                           text=True).stdout.split()
    files = [name for name in files if (REPO / name).exists()]
    check_folders(files)
    for name in files:
        if name.endswith((".h", ".cpp", ".cu", ".cuh")):
            check_parameters(name, (REPO / name).read_text())
    for source, limit in DOORS.items():
        check_door(source, limit)
    for problem in problems:
        print(f"lint: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
