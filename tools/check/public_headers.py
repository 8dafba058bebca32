#!/usr/bin/env python3
"""Each public header alone, as C11 and as C++17: public_headers.py ROOT CC [CXX]

Also: each has the include guard of its path, the umbrella brings them all, and in C++ the
declarations have C linkage. Without a C++ compiler that half is left out, and the check says so.
"""
import os
import re
import subprocess
import sys
import tempfile

import source_tree

FRONT_DOOR = "include/lockstep/lockstep.h"
UMBRELLA = "include/lockstep/parts.h"


def compile_alone(root, folder, header, compiler, language):
    source = os.path.join(folder, "alone." + ("c" if language == "c11" else "cc"))
    with open(source, "w", encoding="utf-8") as file:
        file.write(f'#include "{header}"\n#include "{header}"\n'
                   "int alone(void);\nint alone(void) { return 0; }\n")
    command = compiler + [f"-std={language}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                          "-fsyntax-only", "-I", os.path.join(root, "include"), source]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0:
        return []
    lines = [line for line in done.stderr.splitlines() if "error" in line] or ["did not compile"]
    return [f"{header} as {language}: {lines[0]}"]


def main():
    root, cc = sys.argv[1], sys.argv[2].split()
    cxx = sys.argv[3].split() if len(sys.argv) > 3 and sys.argv[3] else None
    faults, looked_at = [], 0
    brought = set(re.findall(r'#include "([^"]+)"', source_tree.read(root, UMBRELLA)))
    with tempfile.TemporaryDirectory() as folder:
        for path in source_tree.files(root):
            if not path.startswith("include/") or not path.endswith(".h"):
                continue
            looked_at += 1
            header = path[len("include/"):]
            text = source_tree.read(root, path)
            guard = re.sub(r"[^A-Z0-9]", "_", header[len("lockstep/"):].upper())
            guard = "LS_" + guard
            if f"#ifndef {guard}\n#define {guard}\n" not in text:
                faults.append(f"{path}: has no include guard {guard}")
            if path not in (UMBRELLA, FRONT_DOOR) and header not in brought:
                faults.append(f"{path}: lockstep/parts.h does not bring it")
            if "LS_API" in text and "LS_BEGIN_DECLS" not in text:
                faults.append(f"{path}: its functions would have C++ linkage in C++")
            faults += compile_alone(root, folder, header, cc, "c11")
            if cxx:
                faults += compile_alone(root, folder, header, cxx, "c++17")
    if not cxx:
        print("public_headers: no C++ compiler, only C11 was tried")
    source_tree.finish("public_headers", faults, looked_at)


if __name__ == "__main__":
    main()
