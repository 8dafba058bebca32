#!/usr/bin/env python3
"""No circle of files: circles.py NM STATIC_LIBRARY

A file calls what another defines, that one calls a third, ...; no such way leads back. Files that
call each other in a circle are one file, cut by length and not by idea.
"""
import re
import subprocess
import sys

import source_tree


def calls(nm, library):
    """{file: {file that defines what it uses: names}}, both precisions as one."""
    done = subprocess.run([nm, "-A", library], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        source_tree.finish("circles", [done.stderr.strip()], 1)
    defined, used = {}, {}
    for line in done.stdout.splitlines():
        place, rest = line.split(".o:", 1) if ".o:" in line else (None, "")
        words = rest.split()
        if not place or len(words) < 2:
            continue
        file = re.split(r"[:\[/]", place)[-1]
        kind, name = words[-2], re.sub(r"_f(32|64)$", "", words[-1])
        if kind == "U":
            used.setdefault(file, set()).add(name)
        elif kind in "TDBRVWC":
            defined.setdefault(name, file)
    graph = {}
    for file, names in used.items():
        for name in names:
            other = defined.get(name)
            if other and other != file:
                graph.setdefault(file, {}).setdefault(other, set()).add(name)
    return graph


def circles(graph):
    """Sets of files of which each leads to each (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in graph.get(file, {}):
            if other not in index:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], index[other])
        if low[file] == index[file]:
            at = stack.index(file)
            if len(stack) - at > 1:
                found.append(stack[at:])
            del stack[at:]

    for file in list(graph):
        if file not in index:
            visit(file)
    return found


def main():
    sys.setrecursionlimit(10000)
    graph = calls(sys.argv[1], sys.argv[2])
    faults = []
    for circle in circles(graph):
        ties = [f"{a} -> {b} ({sorted(graph[a][b])[0]})" for a in circle for b in circle
                if b in graph.get(a, {})]
        faults.append(f"{len(circle)} files call each other: " + ", ".join(sorted(ties)[:8]))
    source_tree.finish("circles", faults, len(graph))


if __name__ == "__main__":
    main()
