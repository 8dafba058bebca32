#!/usr/bin/env python3
"""What `meson install` gives is enough to use the library: test_install.py BUILD SOURCE CC [CXX]

Installs into an empty folder, then compiles a program against it through pkg-config alone, linked
with the shared and with the static library, and runs both.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from program import Checks

PROGRAM = r"""
#include <lockstep/parts.h>
#include <stdio.h>
static ls_status hello(ls_rank *rank, void *sum)
{
    ls_status status = LS_OK;
    int32_t own = ls_rank_index(rank) + 1, all = 0;
    LS_TRY(ls_all_reduce(ls_rank_world_group(rank), &all, &own, 1, LS_I32, LS_REDUCE_SUM));
    if (own == 1) *(int32_t *)sum = all;
exit:
    return status;
}
int main(void)
{
    int32_t sum = 0;
    if (ls_world_run(3, NULL, hello, &sum) != LS_OK) return 1;
    printf("%d %s\n", (int)sum, ls_contract_name());
    return sum == 6 ? 0 : 1;
}
"""


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def flags(pkg_config, folder, prefix, *options):
    """pkg-config's answer, as a list, for an installation that was put under another root."""
    places = [place for place, _, names in os.walk(folder) if "lockstep.pc" in names]
    env = {**os.environ, "PKG_CONFIG_PATH": os.pathsep.join(
        places + [os.environ.get("PKG_CONFIG_PATH", "")])}
    done = run([pkg_config, f"--define-variable=prefix={folder}{prefix}", *options, "lockstep"],
               env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def static_flags(pkg_config, folder, prefix, archive):
    """The archive itself, so that the linker has no choice, and what it needs: these as shared
    libraries, because a distribution's static OpenBLAS wants a Fortran compiler beside it."""
    more = [word for word in flags(pkg_config, folder, prefix, "--static", "--libs")
            if word != "-llockstep" and not word.startswith("-L" + folder)]
    return flags(pkg_config, folder, prefix, "--cflags") + [archive] + more


def manual(files, checks):
    """The man page and the completion say what --help says."""
    page = next((p for n, p in files.items() if n.endswith("/man1/lockstep.1")), None)
    words = next((p for n, p in files.items() if n.endswith("/completions/lockstep.bash")), None)
    program = next((p for n, p in files.items() if n.endswith("/bin/lockstep")), None)
    if not (page and words and program):
        checks.that(False, f"no man page or no completion: {sorted(files)[:5]}")
        return
    with open(page, encoding="utf-8") as file:
        text = file.read().replace("\\-", "-")
    for command in ("train", "verify", "dump", "check", "replay", "plan", "images", "gallery", "bench"):
        done = run([program, command, "--help"])
        options = re.findall(r"^  --([a-z0-9-]+)", done.stdout, re.MULTILINE)
        part = text.split(f".SH LOCKSTEP {command.upper()}\n")[1].split("\n.SH ")[0]
        checks.that(len(options) > 2 and all(f".BR --{name}" in part for name in options),
                    f"the man page lacks options of {command}")
        checks.that("Examples" in part and f"lockstep {command}" in part, f"examples of {command}")
        if shutil.which("bash"):
            for typed, expected in ((["--"], options), (["--gemm", "o"], ["openblas"]),
                                    (["--model", "re"], ["resnet-nano"])):
                if "--" not in typed and command != "train":
                    continue
                script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); ' \
                    '_lockstep; echo "${COMPREPLY[@]}"'
                done = run(["bash", "-c", script, "bash", words, "lockstep", command, *typed])
                checks.that(set(expected) <= {word.lstrip("-") for word in done.stdout.split()},
                            f"completion of {command} {typed}: {done.stdout}{done.stderr}")


def front_door(source, folder, checks, pkg_config, prefix, cc, cxx):
    """The two example programs, as a user builds them: both end with the same digest."""
    digests = []
    for compiler, standard, name in ((cc, "-std=c11", "00_front_door.c"),
                                     (cxx, "-std=c++17", "00_front_door_in_cpp.cpp")):
        if compiler is None:
            continue
        path = os.path.join(source, "apps", name)
        with open(path, encoding="utf-8") as file:
            checks.that(len(file.readlines()) <= 60, f"{name} is longer than 60 lines")
        out = os.path.join(folder, name + ".out")
        words = flags(pkg_config, folder, prefix, "--cflags", "--libs")
        done = run(compiler + [standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", path, "-o", out]
                   + words)
        if not checks.that(done.returncode == 0, f"{name}: {done.stderr}"):
            continue
        library = next(word[2:] for word in words if word.startswith("-L"))
        done = run([out], cwd=folder, env={**os.environ, "LD_LIBRARY_PATH": library,
                                           "DYLD_LIBRARY_PATH": library})
        checks.that(done.returncode == 0 and done.stdout.endswith("1 of 1 layouts bit-exact\n"),
                    f"{name}: {done.stdout}{done.stderr}")
        digests += re.findall(r"^digest ([0-9a-f]{64})$", done.stdout, re.MULTILINE)
    checks.that(len(digests) == (2 if cxx else 1) and len(set(digests)) == 1, f"{digests}")


def main():
    build, source, cc = sys.argv[1], sys.argv[2], sys.argv[3].split()
    cxx = sys.argv[4].split() if len(sys.argv) > 4 and sys.argv[4] else None
    pkg_config = shutil.which("pkg-config") or shutil.which("pkgconf")
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        done = run([shutil.which("meson"), "install", "-C", build, "--no-rebuild", "--destdir", folder])
        if not checks.that(done.returncode == 0, f"meson install\n{done.stdout}{done.stderr}"):
            checks.finish()
        files = {os.path.join(place, name)[len(folder):]: os.path.join(place, name)
                 for place, _, names in os.walk(folder) for name in names}
        prefix = next((name[:-len("/include/lockstep/lockstep.h")] for name in files
                       if name.endswith("/include/lockstep/lockstep.h")), "")
        checks.that(prefix != "", f"no lockstep.h among {sorted(files)}")
        # All public headers and nothing internal.
        below = os.path.join(source, "include")
        public = {os.path.relpath(os.path.join(place, name), below)
                  for place, _, names in os.walk(below) for name in names if name.endswith(".h")}
        installed = {name[len(prefix + "/include/"):] for name in files if name.endswith(".h")}
        checks.that(installed == public, f"headers: {installed ^ public}")
        program = next((path for name, path in files.items() if name.endswith("/bin/lockstep")), None)
        if checks.that(program is not None, "no bin/lockstep"):
            checks.that(run([program, "--version"]).returncode == 0, "the installed program")
            done = run([program, "gallery", "--list"])
            checks.that(done.returncode == 0 and "bias-per-rank" in done.stdout,
                        f"the installed gallery\n{done.stdout}{done.stderr}")
            installed = [name for name in files if name.endswith("/lockstep-gallery")]
            checks.that(len(installed) == 1 and "/bin/" not in installed[0], f"{installed}")
        libraries = [os.path.dirname(path) for name, path in files.items()
                     if "/liblockstep." in name]
        path = os.path.join(folder, "use.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        # What a user's compiler is told needs no other library's .pc file, and names no other folder.
        place = next(os.path.dirname(p) for n, p in files.items() if n.endswith("/lockstep.pc"))
        done = run([pkg_config, "--cflags", "--libs", "lockstep"],
                   env={**os.environ, "PKG_CONFIG_LIBDIR": place, "PKG_CONFIG_PATH": ""})
        checks.that(done.returncode == 0 and all(
            word.startswith(("-I" + prefix, "-L" + prefix)) or word == "-llockstep"
            for word in done.stdout.split()), f"pkg-config\n{done.stdout}{done.stderr}")
        manual(files, checks)
        front_door(source, folder, checks, pkg_config, prefix, cc, cxx)
        for compiler, language in ((cc, ["-std=c11"]), (cxx, ["-std=c++17", "-x", "c++"])):
            if compiler is None:
                continue
            for static in (False, True):
                if static:
                    archive = next(p for n, p in files.items() if n.endswith("/liblockstep.a"))
                    words = static_flags(pkg_config, folder, prefix, archive)
                else:
                    words = flags(pkg_config, folder, prefix, "--cflags", "--libs")
                out = os.path.join(folder, "use")
                done = run(compiler + language + [path, "-x", "none", "-o", out] + words)
                what = f"{compiler[0]}, {'static' if static else 'shared'}: "
                if not checks.that(done.returncode == 0, f"{what}{done.stderr}"):
                    continue
                where = os.pathsep.join(libraries)
                env = {**os.environ, "LD_LIBRARY_PATH": where, "DYLD_LIBRARY_PATH": where}
                done = run([out], env=None if static else env)
                checks.that(done.returncode == 0 and done.stdout == "6 tree/v1\n",
                            f"{what}{done.stdout}{done.stderr}")
    checks.finish()


if __name__ == "__main__":
    main()
