#!/usr/bin/env python3
"""The page of a run: test_page.py PROGRAM

One file that needs nothing else, whatever the names in it hold, with every drawing in order.
"""
import html.parser
import json
import os
import re
import subprocess
import xml.etree.ElementTree

import program as p

TEXT = "".join(f"Line {i} of a text to train on, and {i * 7919 % 1000}.\n" for i in range(200))
EVERY_TP = "tp 1; tp 2; tp 3; tp 4; tp 6; tp 12"


class Page(html.parser.HTMLParser):
    """Whether tags close in order, and what the page asks for from outside."""
    VOID = {"meta", "br", "hr", "img", "link", "input"}

    def __init__(self):
        super().__init__()
        self.open, self.faults, self.tags, self.text = [], [], set(), ""
        self.links, self.ids = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.faults += [f"{tag} {key}" for key, _ in attrs
                        if key in ("src", "href", "srcset") or key.startswith("on")]
        names = dict(attrs)
        if tag == "a" and names.get("href", "").startswith("#"):  # a link within the page
            self.faults.remove("a href")
            self.links.append(names["href"][1:])
        self.ids += [names["id"]] if "id" in names else []

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> out of order")

    def handle_data(self, data):
        self.text += data


def report(program, checks):
    hostile = "a<script>alert(1)</script>&\"'b.txt"
    program.write(hostile.replace("/", ""), TEXT.encode())
    engines = p.engines_of(program)
    done = program.run("verify", "--layouts", EVERY_TP, "--gemm", "both" if len(engines) == 2 else
                       "portable", "--steps", "3", "--text", hostile.replace("/", ""), "--report",
                       "page")
    checks.that(done.status == 0 and done.left == {b"page", b"page/index.html"},
                f"the report's files: {done.left}\n{done}")
    source = program.read("page/index.html").decode()
    page = Page()
    page.feed(source)
    page.close()
    checks.that(not page.faults and not page.open, f"the page: {page.faults} {page.open}")
    checks.that("script" not in page.tags, "a file's name became a tag")
    checks.that(page.links == page.ids and len(page.links) == source.count("<h2") >= 6 and
                source.index("<nav>") < source.index("<h2"), f"contents: {page.links} {page.ids}")
    version = program.run("--version").out.splitlines()[0]
    checks.that(version in page.text and "commit" in version, f"the page lacks {version}")
    checks.that(re.search(r"date20\d\d-\d\d-\d\d \d\d:\d\d", page.text) is not None, "no date")
    # In a narrow window the first two columns are what is seen, and drawings can be scrolled.
    checks.that("<th>layout</th><th>against serial</th>" in source, "columns")
    checks.that(source.count('<div class="scroll"><svg') == source.count("<svg") > 0 and
                "min-width:46rem" in source, "drawings shrink with the window")
    checks.that("url(" not in source and "@import" not in source and "http" not in source,
                "the page loads something")
    drawings = re.findall(r"<svg.*?</svg>", source, re.DOTALL)
    checks.that(len(drawings) == 5, f"{len(drawings)} drawings")
    for drawing in drawings:
        xml.etree.ElementTree.fromstring(drawing)
        checks.that(not re.search(r'"-?(nan|inf)', drawing), "a drawing with nan")
    runs = 6 * len(engines)
    checks.that(f"{runs} of {runs} runs in a layout are bit-exact" in page.text, "the verdict")
    curves = re.findall(r'<path class="curve (serial|run)" d="(M[^h]*?)"', drawings[0])
    checks.that(len(curves) == 2 and curves[0][1] == curves[1][1], "two curves, the same points")
    for needed in ("What crosses ranks", "How the layers are cut", "rank 11", "color-scheme",
                   *["Distance to truth"] * (len(engines) == 2)):
        checks.that(needed in source, f"the page lacks {needed}")
    # Written over by the next one; a train run has a page too.
    done = program.run("train", "--steps", "2", "--tp", "2", "--report", "page")
    checks.that(done.status == 0 and not done.left, f"the second report\n{done}")
    checks.that("not compared" in program.read("page/index.html").decode(), "the page of train")
    grid(program, checks)
    sweep(program, checks)


def drawn(program):
    """The page that was written: (what can be read, its drawings); everything closes in order."""
    source = program.read("page/index.html").decode()
    page = Page()
    page.feed(source)
    page.close()
    drawings = re.findall(r"<svg.*?</svg>", source, re.DOTALL)
    for drawing in drawings:
        xml.etree.ElementTree.fromstring(drawing)
    sound = not page.faults and not page.open and not re.search(r'"-?(nan|inf)', source)
    return page.text if sound else f"UNSOUND {page.faults} {page.open}", drawings


def grid(program, checks):
    """Three axes: every rank once in its place, the layers of each pipeline rank, the schedule."""
    for words, ranks, boxes, says in (
            (("--dp", "2", "--pp", "2", "--tp", "2", "--sp", "--micro-batches", "4", "--schedule",
              "1f1b"), 8, 16, ("embedding, layers 0-1", "layers 2-3, head", "Idle: 1/5, 20.0 %",
                               "4 micro-batches per replica", "replica 1: sequences 4-7")),
            (("--pp", "2", "--virtual-stages", "2", "--schedule", "interleaved", "--micro-batches",
              "2"), 2, 16, ("embedding, layers 0, 2", "layers 1, 3, head", "2 virtual stages")),
            (("--dp", "3", "--pp", "4", "--tp", "3", "--partition", "2,1,0,1", "--recompute", "layer"),
             36, 8, ("embedding, layers 0-1", "layer 2", "layer 3, head", "replica 2: sequences 6-7",
                     "Ranks that are alike share a bar"))):
        done = program.run("train", "--steps", "1", *words, "--report", "page")
        text, drawings = drawn(program)
        what = " ".join(words)
        checks.that(done.status == 0, f"{what}\n{done}")
        for needed in says:
            checks.that(needed in text, f"{what}: the page lacks {needed}: {text[:300]}")
        places = [d for d in drawings if "Ranks in the grid" in d]
        found = [int(r) for d in places for r in re.findall(r"<title>rank (\d+):", d)]
        checks.that(sorted(found) == list(range(ranks)), f"{what}: ranks drawn {found}")
        passes = [d for d in drawings if "of micro-batch" in d]
        checks.that(len(passes) == 1 and passes[0].count("<title>") == boxes,
                    f"{what}: {len(passes)} schedules")


def sweep(program, checks):
    """A sweep has a row per grid point, not one per layout."""
    done = program.run("verify", "--sweep", "2", "--steps", "1", "--no-truth", "--report", "page",
                       "--json")
    text, _ = drawn(program)
    count = json.loads(done.out)["count"]
    checks.that(done.status == 0 and count > 40, f"a sweep\n{done}")
    checks.that(f"{count} layouts. A row is a point" in text and text.count("bit-exact") == 1 + 5,
                f"rows of a sweep: {text}")


def command_line(program, checks):
    """What a report says was typed can be pasted into a shell, and is the same words."""
    program.write("lockstep", "#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    os.chmod(os.path.join(program.folder, "lockstep"), 0o755)
    path = {"PATH": f"{program.folder}:{os.environ['PATH']}"}
    names = [f"a{c}b" for c in "'\"\\`[]{}!$&|;<>()*?#~=^%@ \t\n\r\x1b\x7f\u00e9\u202e\u4e2d"]
    names += ["it's \"5\" `x` $(y).txt", "''.txt", "a'", "\\n%s.txt", "x" * 250,
              "e\x1b[31m'q'\x1b.txt", "\n", "a\n", b"\xff\xe9'.txt", b"\xe4\xb8.txt", b"a\xe4"]
    for name in names:
        given = name if isinstance(name, bytes) else name.encode()
        program.write(name, TEXT)
        words = [b"--text=" + given, *b"--steps 1 --serial --batch 1 --json".split()]
        done = program.run("train", *words)
        if not checks.that(done.status == 0, f"{name!r}\n{done}"):
            continue
        line = json.loads(done.out)["command_line"]
        checks.that(re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", line) is None,
                    f"{name!r}: {line!r} can move a terminal's cursor")
        back = subprocess.run(["sh", "-c", line], stdout=subprocess.PIPE, check=False,
                              cwd=program.folder, env={**os.environ, **path}).stdout
        checks.that(back == b"\0".join([b"train", *words, b""]), f"{name!r}: {line} is {back!r}")


def main(program, checks):
    report(program, checks)
    command_line(program, checks)


if __name__ == "__main__":
    p.in_folder(main)
