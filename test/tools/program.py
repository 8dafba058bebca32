"""What the tests of the program share: run it in an empty folder, look at everything it did."""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile


class Result:
    def __init__(self, status, out, err, left):
        self.status, self.out, self.err, self.left = status, out, err, left

    def __str__(self):
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}\n---"


def canonical(value):
    """JSON as a golden directory's manifest_sha256 is taken of it (lib/golden/GOLDEN.md)."""
    if isinstance(value, dict):
        return "{%s}" % ",".join(json.dumps(k) + ":" + canonical(value[k]) for k in sorted(value))
    if isinstance(value, list):
        return "[%s]" % ",".join(map(canonical, value))
    if not isinstance(value, float):
        return json.dumps(value)
    digits, _, exponent = ("%.17g" % value).partition("e")
    return digits + ("e%d" % int(exponent) if exponent else "" if "." in digits else ".0")


def seal(manifest):
    """The digest that fits what a manifest says now."""
    manifest.pop("manifest_sha256", None)
    manifest["manifest_sha256"] = hashlib.sha256(canonical(manifest).encode()).hexdigest()


def listing(folder):
    """Every file and folder below, hidden ones too."""
    found = set()
    for place, folders, names in os.walk(os.fsencode(folder)):
        found |= {os.path.relpath(os.path.join(place, name), os.fsencode(folder))
                  for name in folders + names}
    return found


def last_of_each(words):
    """Words in which an option is there once, as it was given last: a test's common words and what
    it changes of them. The program refuses an option that is there twice; --name=value stays."""
    kept = []
    for i, word in enumerate(words):
        dashed = isinstance(word, str) and word.startswith("--") and len(word) > 2
        if dashed and "=" not in word and word in words[i + 1:]:
            continue
        before = words[i - 1] if i > 0 else ""
        if isinstance(before, str) and before.startswith("--") and before in words[i:] and not dashed:
            continue  # its value
        kept.append(word)
    return kept


class Program:
    """The program, run in `folder`. Words may be str or bytes. `first` is called in the new process
    before the program starts."""

    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def run(self, *words, env=None, stdout=subprocess.PIPE, timeout=120, first=None):
        before = listing(self.folder)
        done = subprocess.run([self.path, *last_of_each(words)], cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=stdout, stderr=subprocess.PIPE, timeout=timeout, check=False,
                              preexec_fn=first,
                              env={**os.environ, **(env or {})})
        out = done.stdout.decode("utf-8", "replace") if done.stdout is not None else ""
        return Result(done.returncode, out, done.stderr.decode("utf-8", "replace"),
                      listing(self.folder) - before)

    def write(self, name, data):
        path = os.path.join(os.fsencode(self.folder), os.fsencode(name))
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return name

    def read(self, name):
        with open(os.path.join(os.fsencode(self.folder), os.fsencode(name)), "rb") as file:
            return file.read()


def python_with(*modules):
    """The first python3 of $LOCKSTEP_PYTHON, the one that runs this and /usr/bin/python3 that has
    these modules; None. They are not loaded: that takes seconds."""
    question = "import sys; from importlib.util import find_spec; " \
        f"sys.exit(None in map(find_spec, {modules!r}))"
    for python in (os.environ.get("LOCKSTEP_PYTHON"), sys.executable, "/usr/bin/python3"):
        if python and shutil.which(python) and subprocess.run(
                [python, "-c", question], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def start_with(*modules):
    """A test that needs modules begins again in a python3 that has them, or is skipped."""
    python = python_with(*modules)
    if python is None:
        print(f"skipped: no python3 with {', '.join(modules)} is here")
        sys.exit(77)
    if python != sys.executable:
        os.execve(python, [python, *sys.argv], {**os.environ, "LOCKSTEP_PYTHON": python})


def engines_of(program):
    """A build without OpenBLAS has one engine, and no truth."""
    absent = "not in this build" in program.run("--version").out
    return ("portable",) if absent else ("portable", "openblas")


def last_line(text):
    lines = text.splitlines()
    return lines[-1] if lines else ""


def digest(result):
    line = last_line(result.out)
    assert line.startswith("digest: ") and len(line) == 8 + 64, f"no digest:\n{result}"
    return line[8:]


def parse_safetensors(data):
    """(metadata, {name: (dtype, shape, bytes)})"""
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    body = data[8 + length:]
    return metadata, {name: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])])
                      for name, t in header.items()}


def make_safetensors(header, body):
    """A file with any header at all: an object, or text as it is."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


class Checks:
    """Counts what was looked at; a test that looked at nothing fails."""

    def __init__(self):
        self.done, self.faults = 0, []

    def that(self, good, what):
        self.done += 1
        if not good:
            self.faults.append(what)
        return good

    def finish(self):
        for fault in self.faults:
            print(f"FAULT: {fault}")
        print(f"{self.done} looked at, {len(self.faults)} faults")
        sys.exit(1 if self.faults or self.done == 0 else 0)


def in_folder(main):
    """Runs main(program, checks) in an empty folder; argv: the program."""
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        main(Program(os.path.abspath(sys.argv[1]), folder), checks)
    checks.finish()
