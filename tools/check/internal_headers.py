#!/usr/bin/env python3
"""Each header of lib/ compiles by itself, and all of them in one file: internal_headers.py ROOT CC

By itself: a source may include headers in any order. Together with every public header, in both
precisions: no name is two things.
"""
import os
import subprocess
import sys
import tempfile

import source_tree


def fault_of(root, cc, folder, headers, flags):
    source = os.path.join(folder, "headers.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write("".join(f'#include "{header}"\n' for header in headers))
    command = cc + ["-std=c11", "-D_GNU_SOURCE", "-Werror", "-fsyntax-only", *flags,
                    "-I", os.path.join(root, "include"), "-I", os.path.join(root, "lib"), source]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    lines = [line for line in done.stderr.splitlines() if "error" in line]
    return (lines or ["did not compile"])[0] if done.returncode else None


def main():
    root, cc = sys.argv[1], sys.argv[2].split()
    headers = [path[len("lib/"):] for path in source_tree.files(root)
               if path.startswith("lib/") and path.endswith(".h")]
    faults, public = [], ["lockstep/lockstep.h", "lockstep/parts.h"]
    with tempfile.TemporaryDirectory() as folder:
        for header in headers:
            fault = fault_of(root, cc, folder, [header], [])
            if fault:
                faults.append(f"{header} by itself: {fault}")
        for flags in ([], ["-DLS_REAL_IS_F64"]):
            fault = fault_of(root, cc, folder, public + headers, flags)
            if fault and not faults:
                faults.append(f"all headers together: {fault}")
    source_tree.finish("internal_headers", faults, len(headers))


if __name__ == "__main__":
    main()
