#!/usr/bin/env python3
"""Checks the pages of Markdown: links lead to a file and a heading, prose stays within 120 columns."""
import os
import re
import subprocess
import sys

WIDEST = 120


def prose_lines(page):
    """Number and text of each line outside of fenced code."""
    code = False
    with open(page, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.lstrip().startswith("```"):
                code = not code
            elif not code:
                yield number, line.rstrip("\n")


def anchors(page):
    """What a link may name in this page: its headings as GitHub spells them, and ids."""
    found = set()
    for _, line in prose_lines(page):
        found.update(re.findall(r'<a id="([^"]+)"', line))
        if heading := re.match(r"#+ (.*)", line):
            found.add(re.sub(r"[^\w -]", "", heading[1].lower()).replace(" ", "-"))
    return found


def problem_of_link(page, link):
    """Why the link is dead, or an empty text."""
    file, _, anchor = link.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(page), file)) if file else page
    if not os.path.exists(target):
        return "no such file"
    return "no such heading" if anchor and anchor not in anchors(target) else ""


def problems(page):
    for number, line in prose_lines(page):
        if len(line) > WIDEST and not line.lstrip().startswith("|"):
            yield f"{page}:{number}: {len(line)} columns; {WIDEST} are the limit of prose"
        for link in re.findall(r"\]\(([^)\s]+)\)", line):
            if not re.match(r"\w+:", link) and (why := problem_of_link(page, link)):
                yield f"{page}:{number}: {link}: {why}"


pages = subprocess.run(["git", "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout.split()
found = [problem for page in pages for problem in problems(page)]
print("\n".join(found), end="\n" if found else "")
sys.exit(1 if found else 0)
