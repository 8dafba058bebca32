#!/usr/bin/env python3
"""Rules for the files themselves: tree_rules.py ROOT

- file names are unique in the tree, but for README.md, meson.build and golden directories;
- the top folders, every room of lib/ and every folder of tools/ have a README.md;
- no source is longer than 450 lines, no line outside tests than 100 columns;
- what a file names exists: Markdown files, relative links; nothing names a path of one machine;
- no name that POSIX keeps for itself (..._t).
"""
import os
import re
import sys

import source_tree

MAX_LINES = 450
MAX_COLUMNS = 100
REPEATED = {"README.md", "meson.build"}
GOLDEN = "test/golden/"  # directories whose files have the names that the format gives them
SOURCES = (".c", ".h", ".inc", ".py", ".sh")
# The first folder of an absolute path that exists on somebody's machine only.
MACHINE_PATH = re.compile(r"(?<![\w.)}\]/*:-])/(?:home|Users|root|work|mnt|opt|srv|data)/[\w.-]+")
TEMPORARY_PATH = re.compile(r"(?<![\w.)}\]/*:-])/(?:var/)?tmp/[a-z][\w-]*/")
MARKDOWN_NAME = re.compile(r"(?<![\w/.*-])([\w./-]*\w\.md)\b")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
TYPE_NAME = re.compile(r"\b(?:struct|enum|union)\s+(\w+_t)\b|}\s*(\w+_t)\s*;")


def named_files(root, path, text):
    """Faults of what a text refers to."""
    faults = []
    folder = os.path.dirname(path)
    for line_number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{line_number}"
        for pattern in (MACHINE_PATH, TEMPORARY_PATH):
            for found in pattern.findall(line):
                faults.append(f"{where}: {found} is a path of one machine")
        for name in MARKDOWN_NAME.findall(line):
            if name == "README.md":
                continue  # said of any of them
            places = [os.path.join(root, name), os.path.join(root, folder, name)]
            if not any(os.path.isfile(place) for place in places):
                faults.append(f"{where}: {name} does not exist")
        if path.endswith(".md"):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target) or target.endswith(".md"):
                    continue
                target_path = os.path.normpath(os.path.join(folder, target))
                if target_path.startswith("..") or not os.path.exists(
                        os.path.join(root, target_path)):
                    faults.append(f"{where}: the link {target} leads nowhere")
    return faults


def main():
    root = sys.argv[1]
    paths = source_tree.files(root)
    faults, seen = [], {}
    for path in paths:
        name = os.path.basename(path)
        if name not in REPEATED and not path.startswith((".", GOLDEN)):
            if name in seen:
                faults.append(f"{path}: the name is taken by {seen[name]}")
            seen[name] = path
        text = source_tree.read(root, path)
        lines = text.splitlines()
        if path.endswith(SOURCES):
            if len(lines) > MAX_LINES:
                faults.append(f"{path}: {len(lines)} lines, at most {MAX_LINES}")
            # Tables of expected values in tests may be as wide as they are.
            for number, line in enumerate(lines, 1):
                if len(line) > MAX_COLUMNS and not path.startswith("test/"):
                    faults.append(f"{path}:{number}: {len(line)} columns, at most {MAX_COLUMNS}")
        if path.endswith((".c", ".h")):
            for found in TYPE_NAME.findall(text):
                faults.append(f"{path}: {found[0] or found[1]} ends in _t")
        # The check and its own test speak of faulty names.
        if name not in ("tree_rules.py", "test_checks.py") and not path.endswith(".safetensors"):
            faults += named_files(root, path, text)
    folders = {"/".join(path.split("/")[:2]) for path in paths
               if path.startswith(("lib/", "tools/")) and path.count("/") >= 2}
    folders |= {top for top in ("lib", "include", "apps", "test", "tools")}
    for folder in sorted(folders):
        sources = [p for p in paths if p.startswith(folder + "/") and p.endswith(SOURCES)]
        if sources and not os.path.isfile(os.path.join(root, folder, "README.md")):
            faults.append(f"{folder}: has no README.md")
    source_tree.finish("tree_rules", faults, len(paths))


if __name__ == "__main__":
    main()
