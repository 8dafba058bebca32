#!/usr/bin/env python3
"""The same bits from every compiler, optimisation level and instruction set that is here.

    portability.py ROOT [--all]

Compiles the sources of lib/base and lib/numerics that compute, and portability_bits.c, with each
compiler found (cc, gcc, clang, musl-gcc, the AArch64 cross compiler when qemu-aarch64 can run its
programs, and the AVX-512 sources through SIMDe when that is there), runs the program once per
instruction set, and compares the SHA-256 of what it prints. One level per compiler, -O0 for the
first and -O3 for the others; with --all each at -O0, -O1, -O2, -Os and -O3. Status 1 when two
differ.
"""
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-D_DARWIN_C_SOURCE", "-w", "-ffp-contract=off",
         "-fno-math-errno", "-fno-trapping-math", "-pthread", "-Wno-psabi"]
PRECISIONS = {"f32": [], "f64": ["-DLS_REAL_IS_F64"]}
AVX2 = ["-mavx2", "-mfma"]
AVX512 = AVX2 + ["-mavx512f", "-mavx512dq", "-mavx512vl"]
# These hash or read JSON, and need libraries that a cross compiler may not have.
LEFT_OUT = {"digest.c", "contract.c", "json_text.c"}


def listed(room, variable):
    """The sources that a room's meson.build adds to `variable`."""
    text = (room / "meson.build").read_text()
    names = []
    for files in re.findall(r"^%s \+?= files\(([^)]*)\)" % variable, text, re.M):
        names += re.findall(r"'([^']+)'", files)
    return [room / name for name in names if name not in LEFT_OUT]


class Target:
    """One compiler, and how to run what it makes."""

    def __init__(self, compiler, runner, sets, flags=(), only=None):
        self.compiler, self.runner, self.sets = compiler, runner, sets
        self.flags = list(flags)
        self.only = only or list(sets)  # the sets to run


def machine(compiler):
    answer = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True)
    return answer.stdout.split("-")[0] if answer.returncode == 0 else ""


def has_header(compiler, header):
    text = "#include <%s>\n" % header
    command = [compiler, "-fsyntax-only", "-w", "-xc", "-"] + AVX2
    return subprocess.run(command, input=text, text=True, capture_output=True).returncode == 0


def sets_of(cpu):
    if cpu in ("x86_64", "amd64"):
        return {"scalar": [], "avx2": AVX2, "avx512": AVX512}
    if cpu in ("aarch64", "arm64"):
        return {"scalar": [], "neon": []}
    return {"scalar": []}


def targets():
    found, seen = [], set()
    for name in ("cc", "gcc", "clang", "musl-gcc"):
        path = shutil.which(name)
        if path is None or os.path.realpath(path) in seen:
            continue
        seen.add(os.path.realpath(path))
        found.append(Target(name, [], sets_of(machine(name))))
    cross, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
    if cross and emulator and machine("cc") != "aarch64":
        found.append(Target("aarch64-linux-gnu-gcc", [emulator], sets_of("aarch64")))
    if found and "avx512" in found[0].sets and has_header(found[0].compiler, "simde/x86/avx512.h"):
        # The AVX-512 sources on a CPU without it.
        emulated = {"scalar": [], "avx2": AVX2, "avx512": AVX2 + ["-DLS_SIMDE"]}
        found.append(Target(found[0].compiler, [], emulated, ["-DLS_SIMDE"], ["avx512"]))
    return found


def build(root, target, level, folder, pool):
    """Compiles everything with one compiler at one level; the programs by precision."""
    have = ["-DLS_HAVE_" + name.upper() for name in target.sets if name != "scalar"]
    base = ([target.compiler, level] + FLAGS + target.flags + have +
            ["-I", root / "include", "-I", root / "lib"])
    rooms = [root / "lib" / "base", root / "lib" / "numerics"]
    jobs, objects = [], []

    def compile_one(source, tag, extra):
        out = folder / ("%s_%s.o" % (source.stem, tag))
        objects.append(out)
        command = base + extra + ["-c", source, "-o", out]
        jobs.append(pool.submit(subprocess.run, command, check=True))

    for room in rooms:
        for source in listed(room, "plain"):
            compile_one(source, "plain", [])
        for precision, flag in PRECISIONS.items():
            for source in listed(room, "typed"):
                compile_one(source, precision, flag)
    for precision, flag in PRECISIONS.items():
        for name, flags in target.sets.items():
            for source in listed(rooms[1], "isa_sources"):
                compile_one(source, name + "_" + precision,
                            flags + flag + ["-DLS_BUILD_" + name.upper()])
    for job in jobs:
        job.result()
    programs = {}
    static = ["-static"] if target.runner else []
    for precision, flag in PRECISIONS.items():
        programs[precision] = folder / ("bits_" + precision)
        main = root / "tools" / "portability" / "portability_bits.c"
        subprocess.run(base + flag + static + [main] + objects + ["-o", programs[precision], "-lm"],
                       check=True)
    return programs


def run_sets(target, level, programs, reference):
    """Runs the programs once per instruction set; (runs, faults)."""
    runs, faults = 0, 0
    for name in target.only:
        for precision, program in programs.items():
            what = " ".join([target.compiler, level, name] + target.flags + [precision])
            run = subprocess.run(target.runner + [program], capture_output=True,
                                 env=dict(os.environ, LOCKSTEP_ISA=name))
            if run.returncode == 2 and b"LOCKSTEP_ISA" in run.stderr:
                print("%s: compiled; this CPU cannot run it" % what)
                continue
            runs += 1
            if run.returncode != 0 or not run.stdout:
                print("%s: status %d %s" % (what, run.returncode, run.stderr))
                faults += 1
                continue
            digest = hashlib.sha256(run.stdout).hexdigest()
            same = reference.setdefault(precision, digest) == digest
            faults += not same
            print("%s: %s%s" % (what, digest[:16], "" if same else " DIFFERENT"), flush=True)
    return runs, faults


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    everything = "--all" in sys.argv[2:]
    reference, runs, faults = {}, 0, 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for place, target in enumerate(targets()):
            levels = ["-O0"] if place == 0 else ["-O3"]
            if everything:
                levels = ["-O0", "-O1", "-O2", "-Os", "-O3"]
            for level in levels:
                with tempfile.TemporaryDirectory() as folder:
                    programs = build(root, target, level, pathlib.Path(folder), pool)
                    more_runs, more_faults = run_sets(target, level, programs, reference)
                    runs, faults = runs + more_runs, faults + more_faults
    print("portability: %d runs, %d faults" % (runs, faults))
    return 1 if faults or runs == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
