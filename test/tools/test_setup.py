#!/usr/bin/env python3
"""What tools/run and tools/test do where something is missing or wrong: test_setup.py ROOT

In a place with nothing but a shell's usual tools and one package manager, made up here: without the
right to install they print the exact command and end with 2; with it they run that command. Python
modules that only some tests need are installed where that is easy; nothing fails without them.
Names of tests are compared with the list; what cannot be written is said, and LOCKSTEP_BUILD helps.
A folder that was not made here is refused; no file of a user is removed or written over.
"""
import os
import shutil
import subprocess
import sys
import tempfile

from program import Checks

ROOT = sys.argv[1]
USUAL = ["sh", "dirname", "basename", "sed", "tail", "head", "cat", "tr", "mkdir", "rm", "grep", "date",
         "env", "wc", "sort", "find", "mv", "readlink", "cut"]
MANAGERS = {
    "apt-get": ("apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
                "--no-install-recommends gcc libc6-dev meson ninja-build pkg-config libjansson-dev "
                "libssl-dev libopenblas-dev libpng-dev", " check libmpfr-dev g++ binutils"),
    "dnf": ("dnf install -y gcc glibc-devel meson ninja-build pkgconf-pkg-config jansson-devel "
            "openssl-devel openblas-devel libpng-devel", " check-devel mpfr-devel gcc-c++ binutils"),
    "apk": ("apk add --no-cache gcc musl-dev meson ninja pkgconf jansson-dev openssl-dev openblas-dev "
            "libpng-dev",
            " check-dev mpfr-dev g++ binutils"),
}


def make_place(folder, manager, user):
    tools = os.path.join(folder, "source", "tools")
    shutil.copytree(os.path.join(ROOT, "tools"), tools)
    bin_folder = os.path.join(folder, "bin")
    os.mkdir(bin_folder)
    for name in USUAL:
        os.symlink(shutil.which(name), os.path.join(bin_folder, name))
    fakes = {"id": f"echo {user}"}
    if manager:
        fakes[manager] = f'echo "$0 $@" >>{folder}/called'
    for name, text in fakes.items():
        path = os.path.join(bin_folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
    return tools, bin_folder


# With these everything is found but Python's modules; what they build and test is nothing.
COMPLETE = {"cc": "exit 0", "c++": "exit 0", "nm": "exit 0", "ninja": "exit 0",
            "pkg-config": "exit 0", "python3": "exit 1",
            "meson": "case $1 in --version) echo 1.0.1;; esac"}
# What each manager is asked for, one module after the other.
MODULES = {
    "apt-get": ["apt-get update\napt-get install -y --no-install-recommends python3-" + module + "\n"
                for module in ("numpy", "torch")],
    "dnf": ["dnf install -y python3-numpy\n", "dnf install -y python3-torch\n"],
    "apk": ["apk add --no-cache py3-numpy\n", ""],
    "brew": ["", ""],
    None: ["", ""],
}


def files_of(folder, *places):
    """Every file in these places: path in folder -> text."""
    found = {}
    for place in places:
        for path, _, names in os.walk(os.path.join(folder, place)):
            for name in names:
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    found[os.path.relpath(os.path.join(path, name), folder)] = file.read()
    return found


def run(command, manager, user, more=None, env=None, words=(), prepare=None):
    """(result, what the package manager was called with). more: further programs, name -> text;
    words: of the command line; prepare(source folder): called before, says as which user to run."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        tools, bin_folder = make_place(folder, manager, user)
        for name, text in (more or {}).items():
            path = os.path.join(bin_folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n" + text.replace("FOLDER", folder) + "\n")
            os.chmod(path, 0o755)
        # Whatever this machine has is not asked: no python3 but the one of this place.
        with open(os.path.join(tools, "setup.sh"), encoding="utf-8") as file:
            text = file.read().replace(" /usr/bin/python3", "")
        with open(os.path.join(tools, "setup.sh"), "w", encoding="utf-8") as file:
            file.write(text)
        runs_as = prepare(os.path.dirname(tools)) if prepare else None
        env = {key: value.replace("FOLDER", folder) for key, value in (env or {}).items()}
        done = subprocess.run([shutil.which("sh"), os.path.join(tools, command), *words], cwd="/", user=runs_as,
                              env={"PATH": bin_folder, **env}, capture_output=True, text=True, check=False)
        done.made = {name for name in ("source/build", "source/report", "elsewhere/source-folder",
                                       "elsewhere/compile.log") if os.path.exists(os.path.join(folder, name))}
        done.files = files_of(folder, "elsewhere", "source/build")
        if os.path.isdir(os.path.join(folder, "source")):
            os.chmod(os.path.join(folder, "source"), 0o755)  # so that it can be removed
        called = ""
        if os.path.exists(os.path.join(folder, "called")):
            with open(os.path.join(folder, "called"), encoding="utf-8") as file:
                called = "".join(line.replace(bin_folder + "/", "") for line in file
                                 if "--prefix" not in line)  # a question, no installation
        return done, called


def check_modules(checks):
    without = "is not here: tests that need it are skipped"
    for manager, calls in MODULES.items():
        done, called = run("test", manager, 0, COMPLETE)
        what = f"modules, {manager}: "
        checks.that(called == "".join(calls), f"{what}called {called}")
        # The made-up manager installs nothing, or does not have it: a line each, and the tests run.
        checks.that(done.stdout.count(without) == 2 and "testing" in done.stdout,
                    f"{what}{done.stdout}{done.stderr}")
        done, called = run("test", manager, 1000, COMPLETE)
        checks.that(called == "" and done.stdout.count(without) == 2 and "testing" in done.stdout,
                    f"{what}without root: called {called}: {done.stdout}")
        checks.that(done.stdout.count("as root: ") == sum(map(bool, calls)), what + done.stdout)
        for command, more, env in (("test", {**COMPLETE, "python3": "exit 0"}, {}),
                                   ("test", COMPLETE, {"LOCKSTEP_MODULES": "no"}),
                                   ("run", COMPLETE, {})):
            done, called = run(command, manager, 0, more, env)
            checks.that(called == "" and without not in done.stdout,
                        f"{what}{command} {env}: called {called}: {done.stdout}")


TESTS = r"""case "$*" in
--version) echo 1.0.1 ;;
*--nope*) echo 'meson: error: unrecognized arguments: --nope' >&2; exit 2 ;;
*--list) printf 'lockstep:comm / all_reduce\nlockstep:comm / world\nlockstep:base / world_clock\n' ;;
test*) echo "MESON $*" ;;
esac"""


def check_names(checks):
    """A name that no test has is an error, before anything is built."""
    fakes = {**COMPLETE, "python3": "exit 0", "meson": TESTS}
    for words, status, texts in (
            (["all_reduce", "nosuchtest", "world"], 2, ["nosuchtest: no test has this name"]),
            (["ALL_REDUCE"], 2, ["ALL_REDUCE: no test has this name"]),
            ([""], 2, ["NAME is an empty word"]),
            (["--nope"], 2, ["lockstep: --nope: unrecognized arguments: --nope (an option of"]),
            (["world", "--nope"], 2, ["lockstep: --nope: unrecognized arguments: --nope"]),
            (["--list", "nosuch"], 2, ["--list: lists every test; no other word"]),
            (["world", "--list"], 2, ["--list: lists every test; no other word"]),
            (["--suite"], 2, ["--suite: the name of a suite is missing; there are: base comm"]),
            (["--suite="], 2, ["--suite: the name of a suite is missing; there are: base comm"]),
            (["--suite", ".*"], 2, ["--suite .*: no suite has this name"]),
            (["--suite", "nosuite"], 2, ["--suite nosuite: no suite has this name", "base comm"]),
            (["--list"], 0, ["comm all_reduce\ncomm world\nbase world_clock\n"]),
            (["all_reduce", "world"], 0, ["--print-errorlogs all_reduce world\n"]),
            (["world*"], 0, ["--print-errorlogs world world_clock\n"]),
            (["--suite", "comm"], 0, ["--print-errorlogs --suite=comm\n"]),
            (["--suite=base", "--repeat=2"], 0, ["--print-errorlogs --suite=base --repeat=2\n"]),
            ([], 0, ["--print-errorlogs --no-rebuild\n"])):
        done, _ = run("test", None, 0, fakes, words=words)
        said = done.stdout + done.stderr
        checks.that(done.returncode == status and all(text in said for text in texts) and
                    (status == 0 or ("building" not in said and len(done.stderr.splitlines()) == 1)),
                    f"tools/test {words}: {done}")


def check_places(checks):
    """What cannot be written is said in one line, with a remedy; another folder will do."""
    fakes = {**COMPLETE, "python3": "exit 0", "meson": TESTS}
    is_root = os.geteuid() == 0
    nobody = 65534 if is_root else None

    def read_only(source):
        os.chmod(source, 0o755 if is_root else 0o555)
        return nobody

    def of_another_user(source):  # as after a run as root
        os.mkdir(os.path.join(source, "build"))
        with open(os.path.join(source, "build", "compile.log"), "w", encoding="utf-8"):
            pass
        if not is_root:
            os.chmod(os.path.join(source, "build"), 0o555)
        return nobody

    def elsewhere_of_another_user(source):
        os.mkdir(os.path.join(source, "..", "elsewhere"), 0o755 if is_root else 0o555)
        return nobody

    for command in ("run", "test"):
        for prepare, text in ((read_only, "build cannot be made"),
                              (of_another_user, "build cannot be written")):
            done, _ = run(command, None, nobody or os.geteuid(), fakes, prepare=prepare)
            checks.that(done.returncode == 2 and done.stdout == "" and text in done.stderr and
                        "LOCKSTEP_BUILD=DIR" in done.stderr and len(done.stderr.splitlines()) == 1,
                        f"{command}, {prepare.__name__}: {done}")
        done, _ = run(command, None, 0, fakes, {"LOCKSTEP_BUILD": "FOLDER/elsewhere"})
        checks.that(done.made == {"elsewhere/source-folder", "elsewhere/compile.log"},
                    f"{command} elsewhere: {done.made} {done}")
        done, _ = run(command, None, nobody or os.geteuid(), fakes, {"LOCKSTEP_BUILD": "FOLDER/elsewhere"},
                      prepare=elsewhere_of_another_user)
        checks.that(done.returncode == 2 and len(done.stderr.splitlines()) == 1 and
                    "/elsewhere cannot be written: " in done.stderr and "Remove" not in done.stderr and
                    "builds in another folder" not in done.stderr, f"{command} not writable: {done}")


# Folders that LOCKSTEP_BUILD may name: their files, and what is said; None: it is built there.
# SOURCE: where the source of this run is.
MESON_INFO = '{"meson_version": {}, "directories": {"source": "%s", "build": "/some/build"}}'
NAMED_FOLDERS = (
    ({"letter.txt": "Dear"}, "holds letter.txt, which was not made here"),
    ({"deep/er/letter.txt": "Dear"}, "holds deep, which was not made here"),
    ({".git/config": "[core]"}, "holds .git, which was not made here"),
    ({"server.log": "GET /"}, "holds server.log, which was not made here"),
    ({"keep.txt": "hi", "source-folder": "/else where\n"}, "is a build folder of /else where;"),
    ({"source-folder": "/elsewhere\n", "build.ninja": "rule", "meson-info/a": "b"},
     "is a build folder of /elsewhere;"),
    ({"build.ninja": "rule"}, "is a build folder of another project;"),
    ({"build.ninja": "rule", "meson-info/meson-info.json": MESON_INFO % "/some/game"},
     "is a build folder of /some/game;"),
    ({}, None),
    ({"install.log": "Err", "setup.log": "no"}, None),
    ({"source-folder": "SOURCE\n", "mine.txt": "hi", "meson-notes/mine.txt": "hi"}, None),
    ({"source-folder": "SOURCE\n", "build.ninja": "rule", "golden/mine.txt": "hi"}, None),
    ({"build.ninja": "rule", "mine.txt": "hi", "meson-info/meson-info.json": MESON_INFO % "SOURCE"}, None),
)


def put_files(folder, files, source):
    os.mkdir(folder)
    for name, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text.replace("SOURCE", os.path.realpath(source)))


def check_named_folders(checks):
    """Only an empty folder or one of this source is built in, and no file of a user is touched."""
    fakes = {**COMPLETE, "python3": "exit 0", "meson": TESTS}
    for files, said in NAMED_FOLDERS:
        done, _ = run("test", None, 0, fakes, {"LOCKSTEP_BUILD": "FOLDER/elsewhere"}, prepare=lambda source:
                      put_files(os.path.join(source, "..", "elsewhere"), files, source))
        kept = {name: text for name, text in files.items() if said or "mine.txt" in name}
        checks.that(all(done.files.get("elsewhere/" + name) == text for name, text in kept.items()),
                    f"{files}: left is {done.files}")
        if said:
            checks.that(done.returncode == 2 and len(done.stderr.splitlines()) == 1 and
                        said in done.stderr and "choose an empty or a new folder" in done.stderr and
                        len(done.files) == len(files), f"{files}: {done}")
        else:
            checks.that("testing" in done.stdout and done.made, f"{files}: {done}")
    # A source that was copied or moved with its build folder: what meson wrote goes, the rest stays.
    made = {"source-folder": "/old/place\n", "build.ninja": "rule", ".ninja_log": "log",
            "meson-info/meson-info.json": MESON_INFO % "/old/place", "meson-private/x": "y"}
    mine = {"a.safetensors": "weights", "golden/mine.txt": "hi", "meson-notes/mine.txt": "hi",
            "tools/mine.txt": "hi", "notes.log": "hi"}
    done, _ = run("test", None, 0, fakes, prepare=lambda source:
                  put_files(os.path.join(source, "build"), {**made, **mine}, source))
    checks.that(all(done.files.get("source/build/" + name) == text for name, text in mine.items()) and
                "configuring in build" in done.stdout and
                not any("/old/place" in text for text in done.files.values()) and
                not any("source/build/" + name in done.files for name in list(made)[1:]),
                f"moved: {done} {done.files}")


def check_installation(checks):
    """The command for sudo where there is one; a network that is not there is named."""
    # While it lasts, a line every fifteen seconds; here a second is as long as a call of sleep.
    slow = "echo Unpacking thing; i=0; while [ $i -lt 3000 ] && " \
        "[ $(cat FOLDER/slept 2>/dev/null | wc -l) -lt 7 ]; do i=$((i + 1)); done"
    done, _ = run("run", "dnf", 0, {"dnf": slow, "sleep": "echo $1 >>FOLDER/slept"})
    checks.that("lockstep: installing, 15 s: Unpacking thing\nlockstep: installing, 30 s: " in
                done.stdout, f"progress: {done}")
    for command in ("run", "test"):
        for manager, (words, more) in MANAGERS.items():
            words += more if command == "test" else ""
            done, called = run(command, manager, 1000, {"sudo": "exit 1"})
            checks.that(done.returncode == 2 and called == "" and
                        f"sudo sh -c '{words}'" in done.stderr.splitlines(), f"sudo: {done.stderr}")
        for manager, said in (("apt-get", "Err:1 http://deb.example  Temporary failure resolving"),
                              ("dnf", "Curl error (6): Could not resolve host: mirrors.example"),
                              ("apk", "fetching http://dl.example: temporary error (try again later)")):
            done, _ = run(command, manager, 0, {manager: f"echo '{said}'; exit 100"})
            checks.that(done.returncode == 2 and len(done.stderr.splitlines()) == 1 and
                        "is there a network? (build/install.log)" in done.stderr, f"{manager}: {done}")
            done, _ = run(command, manager, 0, {manager: "echo no room; exit 100"})
            checks.that(done.returncode == 2 and "network" not in done.stderr and
                        "no room" in done.stderr, f"{manager}, no room: {done}")


def main():
    checks = Checks()
    check_modules(checks)
    check_names(checks)
    check_places(checks)
    check_named_folders(checks)
    check_installation(checks)
    for command in ("run", "test"):
        for manager, (words, more) in MANAGERS.items():
            words += more if command == "test" else ""
            done, called = run(command, manager, 1000)
            what = f"tools/{command}, {manager}: "
            checks.that(done.returncode == 2 and called == "" and
                        words in done.stderr.splitlines(), f"{what}{done.stderr}")
            done, called = run(command, manager, 0)
            expected = words.replace("DEBIAN_FRONTEND=noninteractive ", "").replace(" && ", "\n")
            checks.that(called == expected + "\n", f"{what}called {called}")
            checks.that("installing with" in done.stdout, f"{what}does not say what it installs")
            # The made-up manager installs nothing: that is noticed.
            checks.that(done.returncode == 2 and "still missing" in done.stderr,
                        f"{what}{done.returncode} {done.stderr}")
        done, _ = run(command, None, 0)
        checks.that(done.returncode == 2 and "none of" in done.stderr, f"no manager: {done.stderr}")
        done, _ = run(command, "brew", 1000)
        checks.that(done.returncode == 2 and "xcode-select --install" in done.stderr,
                    f"brew without a compiler: {done.stderr}")
        done = subprocess.run([os.path.join(ROOT, "tools", command), "--help"], cwd="/",
                              capture_output=True, text=True, check=False)
        checks.that(done.returncode == 0 and f"tools/{command}" in done.stdout, f"--help: {done}")
    # Through symbolic links: absolute, relative, one to another.
    with tempfile.TemporaryDirectory() as folder:
        first, second = os.path.join(folder, "first"), os.path.join(folder, "second run")
        os.symlink(os.path.join(os.path.abspath(ROOT), "tools", "run"), first)
        os.symlink("first", second)
        for link in (first, second):
            done = subprocess.run([link, "--nonsense"], cwd="/", capture_output=True, text=True,
                                  check=False)
            checks.that(done.returncode == 2 and "--nonsense: unknown option" in done.stderr and
                        len(done.stderr.splitlines()) == 1, f"{link}: {done}")
    for words, name in ((["--nonsense"], "--nonsense"), (["a", "b"], "2 arguments"),
                        ([""], "FILE is an empty word"), (["/nothing/here"], "/nothing/here")):
        done = subprocess.run([os.path.join(ROOT, "tools", "run"), *words], cwd="/",
                              capture_output=True, text=True, check=False)
        checks.that(done.returncode == 2 and len(done.stderr.splitlines()) == 1 and
                    name in done.stderr, f"tools/run {words}: {done}")
    checks.finish()


if __name__ == "__main__":
    main()
