#!/usr/bin/env python3
"""The checks of the tree must be able to fail: test_checks.py ROOT CC

Each case puts one fault into a small copy of a sound tree and runs the check on it: the sound tree
passes, the faulty one fails and the message names the fault.
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT, CC = sys.argv[1], sys.argv[2]
CHECKS = os.path.join(ROOT, "tools", "check")


def header(guard, text=""):
    return f"#ifndef {guard}\n#define {guard}\n{text}\n#endif\n"


SOUND = {
    "include/lockstep/lockstep.h": header("LS_LOCKSTEP_H", '#include "lockstep/base/low.h"'),
    "include/lockstep/parts.h": header("LS_PARTS_H", '#include "lockstep/base/low.h"\n'
                                       '#include "lockstep/comm/high.h"'),
    "include/lockstep/base/low.h": header("LS_BASE_LOW_H", "int ls_low(void);"),
    "include/lockstep/comm/high.h": header("LS_COMM_HIGH_H", '#include "lockstep/base/low.h"'),
    "lib/README.md": "See [base](base/low.c).\n",
    "lib/base/README.md": "# base\n",
    "lib/base/low.c": '#include "lockstep/base/low.h"\nint ls_low(void) { return 1; }\n',
    "lib/comm/README.md": "# comm\n",
    "lib/comm/high.c": '#include "lockstep/comm/high.h"\n#include "comm/inner.h"\n',
    "lib/comm/inner.h": "",
    "lib/serial/README.md": "# serial\n",
    "lib/serial/model.c": '#include "lockstep/base/low.h"\n',
    "lib/train/README.md": "# train\n",
    "lib/train/run.h": "",
    "include/README.md": "", "apps/README.md": "", "test/README.md": "", "tools/README.md": "",
    "apps/01_one.c": '#include <lockstep/lockstep.h>\n',
    "tools/lockstep/README.md": "",
    "tools/lockstep/program.c": '#include "lockstep/parts.h"\n#include "train/run.h"\n',
}

# check, what is changed (None: removed; "+": appended), what the message must contain
CASES = [
    ("arrows", {"lib/serial/model.c": '+#include "lockstep/comm/high.h"\n'},
     "serial does not know comm"),
    ("arrows", {"lib/serial/model.c": '+#  include "comm/inner.h"\n'}, "serial does not know comm"),
    ("arrows", {"lib/base/low.c": '+#include <lockstep/comm/high.h>\n'}, "base does not know comm"),
    ("arrows", {"include/lockstep/comm/high.h": '+#include "comm/inner.h"\n'},
     "public header includes an internal"),
    ("arrows", {"include/lockstep/base/low.h": '+#include "lockstep/comm/high.h"\n'},
     "base does not know comm"),
    ("arrows", {"apps/01_one.c": '+#include "comm/inner.h"\n'}, "public headers only"),
    ("arrows", {"tools/lockstep/program.c": '+#include "comm/inner.h"\n'},
     "does not see into comm"),
    ("arrows", {"lib/comm/high.c": '+#include "../base/low.c"\n'}, "goes up"),
    ("arrows", {"lib/comm/high.c": '+#include "lockstep/base/none.h"\n'}, "no such public header"),
    ("arrows", {"lib/misc/thing.c": "int x;\n"}, "misc is not a room"),
    ("arrows", {"lib/base/low.c": '+#include "lockstep/lockstep.h"\n'}, "include all"),
    ("public_headers", {"include/lockstep/base/low.h": header(
        "LS_BASE_LOW_H", "size_t ls_low(void);")}, "low.h as c11"),
    ("public_headers", {"include/lockstep/base/low.h": header(
        "LS_BASE_LOW_H", "int ls_low(int class);")}, "low.h as c++17"),
    ("public_headers", {"include/lockstep/base/low.h": "int ls_low(void);\n"}, "no include guard"),
    ("public_headers", {"include/lockstep/base/low.h": header(
        "LS_BASE_LOW_H", "#define LS_API\nLS_API int ls_low(void);")}, "C++ linkage"),
    ("public_headers", {"include/lockstep/base/new.h": header("LS_BASE_NEW_H")}, "does not bring"),
    ("internal_headers", {"lib/comm/inner.h": "size_t ls_inner(void);\n"}, "inner.h by itself"),
    ("internal_headers", {"lib/comm/inner.h": "typedef int ls_post;\n",
                          "lib/train/run.h": "typedef long ls_post;\n"}, "all headers together"),
    ("tree_rules", {"lib/serial/low.c": ""}, "taken by lib/base/low.c"),
    ("tree_rules", {"lib/comm/README.md": None}, "lib/comm: has no README.md"),
    ("tree_rules", {"lib/base/low.c": "\n" * 451}, "451 lines"),
    ("tree_rules", {"lib/base/low.c": "/* " + "x" * 100 + " */\n"}, "106 columns"),
    ("tree_rules", {"lib/base/low.c": "struct size_t { int x; };\n"}, "size_t ends in _t"),
    ("tree_rules", {"lib/base/low.c": "typedef struct { int x; } thing_t;\n"}, "thing_t ends"),
    ("tree_rules", {"lib/README.md": "+see /home/somebody/notes\n"}, "path of one machine"),
    ("tree_rules", {"lib/base/low.c": "/* made in /tmp/wt/here */\n"}, "path of one machine"),
    ("tree_rules", {"lib/base/low.c": "/* as PLAN.md says */\n"}, "PLAN.md does not exist"),
    ("tree_rules", {"lib/README.md": "+[gone](base/gone.c)\n"}, "leads nowhere"),
    ("tree_rules", {"lib/README.md": "+[out](../../elsewhere/x.txt)\n"}, "leads nowhere"),
]


def make(folder, changes):
    for path, text in SOUND.items():
        write(folder, path, text)
    for path, text in changes.items():
        if text is None:
            os.remove(os.path.join(folder, path))
        elif text.startswith("+"):
            write(folder, path, SOUND[path] + text[1:])
        else:
            write(folder, path, text)


def write(folder, path, text):
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def run(check, arguments):
    return subprocess.run([sys.executable, os.path.join(CHECKS, check + ".py")] + arguments,
                          capture_output=True, text=True, check=False)


def check_tree(check, folder):
    arguments = [folder]
    if check == "internal_headers":
        arguments += [CC]
    if check == "public_headers":
        arguments += [CC, next(filter(shutil.which, ("c++", "g++", "clang++")), "")]
    return run(check, arguments)


def tree_cases():
    for check in ("arrows", "public_headers", "internal_headers", "tree_rules"):
        with tempfile.TemporaryDirectory() as folder:
            make(folder, {})
            done = check_tree(check, folder)
            if done.returncode != 0:
                yield f"{check}: the sound tree fails:\n{done.stdout}{done.stderr}"
        with tempfile.TemporaryDirectory() as folder:
            for top in ("lib", "include", "apps", "test", "tools"):
                os.mkdir(os.path.join(folder, top))
            if check == "arrows" and check_tree(check, folder).returncode == 0:
                yield f"{check}: an empty tree passes"
    for check, changes, message in CASES:
        if "c++17" in message and not (shutil.which("c++") or shutil.which("g++")):
            continue
        with tempfile.TemporaryDirectory() as folder:
            make(folder, changes)
            done = check_tree(check, folder)
            if done.returncode != 1 or message not in done.stdout:
                yield (f"{check}: {list(changes)[0]}: expected status 1 and \"{message}\", "
                       f"found {done.returncode}:\n{done.stdout}{done.stderr}")


def symbol_cases():
    nm = shutil.which("nm") or shutil.which("llvm-nm")
    for name, text, status in (
            ("libx.so", "int ls_one(void) { return 1; }", 0),
            ("libx.so", "int ls_one(void) { return 1; } int other = 2;", 1),
            ("libx.so", "int ls_one(void) { return 1; } int ls_fault_chosen;", 1),
            ("liblockstep.so", "int ls_job_create(void) { return 1; }", 1)):
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "x.c", text)
            library = os.path.join(folder, name)
            subprocess.run(CC.split() + ["-shared", "-fPIC", os.path.join(folder, "x.c"), "-o",
                                         library], check=True)
            done = run("symbols", [nm, library])
            if done.returncode != status:
                yield f"symbols: status {done.returncode} for: {text}\n{done.stdout}{done.stderr}"


def count_cases():
    ok, bad, skip = ('{"name": "a", "result": "%s"}\n' % r for r in ("OK", "TIMEOUT", "SKIP"))
    cases = '{"name": "b", "result": "OK", "stdout": "skipped: x: y\\nskipped: z: y\\n"}\n'
    for log, meson_status, status, last in (
            (ok + ok, 0, 0, "2 passed, 0 failed"),
            (ok + skip, 0, 0, "1 passed, 0 failed, 1 skipped"),
            (ok + skip.replace('"}', '", "stdout": "skipped: why\\n"}'), 0, 0,
             "1 passed, 0 failed, 1 skipped"),
            (ok + cases, 0, 0, "2 passed, 0 failed, 2 skipped"),
            (ok + bad, 1, 1, "1 passed, 1 failed"), (ok, 2, 1, "1 passed, 1 failed"),
            ("", 0, 1, "0 passed, 0 failed"), (None, 0, 1, "0 passed, 1 failed"),
            (ok + '{"name', 0, 1, "1 passed, 1 failed")):
        with tempfile.TemporaryDirectory() as folder:
            if log is not None:
                write(folder, "log", log)
            done = run("count", [os.path.join(folder, "log"), str(meson_status)])
            found = done.stdout.splitlines()[-1]
            if done.returncode != status or found != last:
                yield f"count: expected {status} \"{last}\", found {done.returncode} \"{found}\""


def main():
    faults = [*tree_cases(), *symbol_cases(), *count_cases()]
    for fault in faults:
        print(fault)
    print(f"{len(CASES)} seeded faults, {len(faults)} not handled")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
