#!/usr/bin/env python3
"""Who may include whom: arrows.py ROOT

A room of lib/ includes its own headers, those of the rooms it knows and of the rooms these know.
A room whose folder holds rooms (parallel) is each of these. apps/ sees the public headers only; the
program in tools/lockstep also the rooms of PROGRAM_SEES; the gallery, which wraps functions of the
library, all.
Tests may see everything.
"""
import os
import re
import sys

import source_tree

KNOWS = {
    "base": [],
    "numerics": ["base"],
    "kernels": ["numerics"],
    "model": ["numerics"],
    "serial": ["kernels", "model"],
    "comm": ["base", "numerics"],
    "partition": ["base"],
    "parallel/layout": ["kernels", "model", "comm", "partition"],
    "parallel/hooks": ["parallel/layout"],
    "parallel/sequence": ["parallel/hooks"],
    "parallel/tensor": ["parallel/sequence"],
    "parallel/transformer": ["parallel/tensor"],
    "parallel/data": ["parallel/hooks"],
    "parallel/spatial": ["parallel/hooks"],
    "pipeline": ["parallel/transformer", "parallel/data", "parallel/spatial"],
    "io": ["base", "model"],
    "step_graph": ["model", "partition", "kernels"],
    "conformance": ["step_graph", "comm"],
    "train": ["pipeline", "serial", "io"],
    "verify": ["train"],
    "golden": ["train", "step_graph"],
    "check": ["golden"],
    "causes": ["check"],
    "report": ["causes", "verify"],
    "job": ["report"],
}
PROGRAM_SEES = ["train", "verify", "golden", "check", "causes", "report", "job"]
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
FRONT_DOOR = "lockstep/lockstep.h"
UMBRELLA = "include/lockstep/parts.h"


def reach(room):
    """The room and all rooms it may include."""
    seen, todo = set(), [room]
    while todo:
        room = todo.pop()
        if room not in seen:
            seen.add(room)
            todo += KNOWS[room]
    return seen


def place(path):
    """(kind, room) of a source: public, internal, app, program or None."""
    parts = path.split("/")
    if parts[:2] == ["include", "lockstep"] and len(parts) >= 4:
        return "public", "/".join(parts[2:-1])
    if parts[0] == "lib" and len(parts) >= 3:
        return "internal", "/".join(parts[1:-1])
    if parts[0] == "apps":
        return "app", None
    if parts[:2] == ["tools", "lockstep"]:
        return "program", None
    if parts[:2] == ["tools", "gallery"]:
        return "gallery", None
    return None, None


def judge(root, path, quote, target):
    """A fault of one include line, or None."""
    kind, room = place(path)
    parts = target.split("/")
    if ".." in parts:
        return "goes up with .."
    if parts[0] == "lockstep":
        if not os.path.isfile(os.path.join(root, "include", target)):
            return "no such public header"
        if target == FRONT_DOOR and room == "job":
            return None
        if len(parts) == 2:  # the front door, or the umbrella
            sees_all = kind in ("app", "program", "gallery")
            return None if sees_all else "only apps and the program include all"
        known = "/".join(parts[1:-1])
        return f"{room} does not know {known}" if room and known not in reach(room) else None
    if quote == "<":
        return None  # the system's or another library's
    if len(parts) == 1:
        own = os.path.join(root, os.path.dirname(path), target)
        # NAME.in: what the build makes it from.
        there = os.path.isfile(own) or os.path.isfile(own + ".in")
        return None if there else "not in its own folder: write room/name.h"
    if kind in ("program", "gallery") and os.path.isfile(os.path.join(root, "tools", target)):
        return None
    if not os.path.isfile(os.path.join(root, "lib", target)):
        return "no such internal header"
    if kind == "public":
        return "a public header includes an internal one"
    if kind == "app":
        return "an app sees public headers only"
    if kind == "program":
        return None if parts[0] in PROGRAM_SEES else f"the program does not see into {parts[0]}"
    if kind == "gallery":  # wraps what any room has
        return None
    known = "/".join(parts[:-1])
    return None if known in reach(room) else f"{room} does not know {known}"


def main():
    root = sys.argv[1]
    faults, looked_at = [], 0
    for path in source_tree.files(root):
        kind, room = place(path)
        if kind is None or not path.endswith((".c", ".h", ".inc")) or path == UMBRELLA:
            continue
        looked_at += 1
        if room and room not in KNOWS:
            faults.append(f"{path}: {room} is not a room")
            continue
        for quote, target in INCLUDE.findall(source_tree.read(root, path)):
            fault = judge(root, path, quote, target)
            if fault:
                faults.append(f"{path}: includes {target}: {fault}")
    source_tree.finish("arrows", faults, looked_at)


if __name__ == "__main__":
    main()
