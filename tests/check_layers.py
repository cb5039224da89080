#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Checks the rules of docs/architecture.md that a compiler can't: include directions, a core
without GLib, and the sizes of files."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = {
    "base": set(),
    "cuda": {"base"},
    "memory": {"base", "cuda"},
    "download": {"base", "cuda", "memory"},
    "decode": {"base", "cuda", "memory"},
    "convert": {"base", "cuda", "memory"},
    "demux": {"base"},
}
FOREIGN = re.compile(r'^\s*#\s*include\s*[<"](glib|gst/|gobject|gio/|gmodule|elements/|cudaframe/)')
INCLUDE = re.compile(r'^\s*#\s*include\s*"([a-z]+)/')
MAX_CORE_LINES = 400
MAX_ELEMENT_LINES = 700

problems = []


def sources(folder):
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in {".h", ".cpp", ".cu", ".cuh"}:
            yield path, path.read_text(encoding="utf-8").splitlines()


for path, lines in sources("src"):
    layer = path.relative_to(ROOT / "src").parts[0]
    name = path.relative_to(ROOT)
    if len(lines) > MAX_CORE_LINES:
        problems.append(f"{name}: {len(lines)} lines, at most {MAX_CORE_LINES}")
    for number, line in enumerate(lines, 1):
        if FOREIGN.match(line):
            problems.append(f"{name}:{number}: the core includes no GLib, no GStreamer: {line.strip()}")
        found = INCLUDE.match(line)
        if found and found.group(1) not in ALLOWED[layer] | {layer}:
            problems.append(f"{name}:{number}: {layer} must not include {found.group(1)}")

for path, lines in sources("gst"):
    if len(lines) > MAX_ELEMENT_LINES:
        problems.append(f"{path.relative_to(ROOT)}: {len(lines)} lines, at most {MAX_ELEMENT_LINES}")

for folder in ("src", "gst", "tests", "docs"):
    for path, lines in sources(folder):
        if not any("SPDX-License-Identifier: LGPL-2.1-or-later" in line for line in lines[:2]):
            problems.append(f"{path.relative_to(ROOT)}: no SPDX line at the top")

for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
