#!/usr/bin/env python3
"""Only names with ls_ leave the library: symbols.py NM SHARED_LIBRARY [STATIC_LIBRARY]

The front door's functions are in the shared one, whatever else changes: STABLE only grows.

The shared library exports them; in the static one every external name counts, because hidden
visibility does not keep two static libraries from clashing. And none of the places where mistakes
can be switched on is in either: ls_fault... belongs to the gallery's own build.
"""
import subprocess
import sys

import source_tree

# What linkers themselves put into a shared library.
OF_THE_LINKER = {"_init", "_fini", "_edata", "_end", "__bss_start", "__bss_start__", "_bss_end__",
                 "__bss_end__", "__end__"}


# Functions that programs linked with an older version call.
STABLE = ["ls_version", "ls_job_create", "ls_job_destroy", "ls_job_set", "ls_job_on_step",
          "ls_job_stop", "ls_job_train", "ls_job_verify", "ls_job_plan", "ls_job_dump",
          "ls_job_check", "ls_job_number", "ls_job_word", "ls_exit_code", "ls_error_text",
          "ls_error_place", "ls_error_clear", "ls_judge_f32", "ls_judge_f64", "ls_judge_print",
          "ls_judge_kind_name", "ls_judge_find", "ls_judge_report_destroy"]


def names(nm, options, library):
    done = subprocess.run([nm] + options + [library], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        source_tree.finish("symbols", [f"{library}: {done.stderr.strip()}"], 1)
    found = []
    for line in done.stdout.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1].upper() != "U":
            name = parts[2]
            if sys.platform == "darwin" and name.startswith("_"):
                name = name[1:]
            found.append(name)
    return found


def main():
    nm, shared = sys.argv[1], sys.argv[2]
    dynamic = [] if sys.platform == "darwin" else ["-D"]
    libraries = [(shared, names(nm, dynamic + ["-g", "--defined-only"], shared))]
    if len(sys.argv) > 3:
        libraries.append((sys.argv[3], names(nm, ["-g", "--defined-only"], sys.argv[3])))
    faults, looked_at = [], 0
    faults += [f"{shared.split('/')[-1]}: {name} of the front door is missing"
               for name in STABLE
               if "liblockstep" in shared and name not in libraries[0][1]]
    for library, found in libraries:
        looked_at += len(found)
        faults += [f"{library.split('/')[-1]}: {name} does not begin with ls_"
                   for name in sorted(set(found))
                   if not name.startswith("ls_") and name not in OF_THE_LINKER]
        faults += [f"{library.split('/')[-1]}: {name} is of the gallery"
                   for name in sorted(set(found)) if name.startswith("ls_fault")]
        if not found:
            faults.append(f"{library}: no symbol at all")
    source_tree.finish("symbols", faults, looked_at)


if __name__ == "__main__":
    main()
