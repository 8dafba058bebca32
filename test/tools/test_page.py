#!/usr/bin/env python3
"""The page of a run: test_page.py PROGRAM

One file that needs nothing else, whatever the names in it hold, with every drawing in order.
"""
import html.parser
import re
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

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.faults += [f"{tag} {key}" for key, _ in attrs
                        if key in ("src", "href", "srcset") or key.startswith("on")]

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
    checks.that("url(" not in source and "@import" not in source and "http" not in source,
                "the page loads something")
    drawings = re.findall(r"<svg.*?</svg>", source, re.DOTALL)
    checks.that(len(drawings) == 4, f"{len(drawings)} drawings")
    for drawing in drawings:
        xml.etree.ElementTree.fromstring(drawing)
        checks.that(not re.search(r'"-?(nan|inf)', drawing), "a drawing with nan")
    runs = 6 * len(engines)
    checks.that(f"{runs} of {runs} runs in a layout are bit-exact" in page.text, "the verdict")
    curves = re.findall(r'<path class="curve (serial|run)" d="(M[^h]*?)"', drawings[0])
    checks.that(len(curves) == 2 and curves[0][1] == curves[1][1], "two curves, the same points")
    for needed in ("Collectives", "How the layers are cut", "rank 11", "color-scheme",
                   *["Distance to truth"] * (len(engines) == 2)):
        checks.that(needed in source, f"the page lacks {needed}")
    # Written over by the next one; a train run has a page too.
    done = program.run("train", "--steps", "2", "--tp", "2", "--report", "page")
    checks.that(done.status == 0 and not done.left, f"the second report\n{done}")
    checks.that("not compared" in program.read("page/index.html").decode(), "the page of train")


def traces(program, checks):
    """A traced run, replayed: the same digest, JSON as the words, links that cost."""
    base = ["train", "--text", "text.txt", "--steps", "2", "--pp", "2", "--tp", "2", "--dp", "2",
            "--micro-batches", "2", "--schedule", "1f1b"]
    plain = program.run(*base)
    traced = program.run(*base, "--trace", "trace.json")
    checks.that(traced.status == 0 and p.digest(traced) == p.digest(plain), f"traced\n{traced}")
    checks.that(traced.left == {b"trace.json"}, f"left {traced.left}")
    trace = json.loads(program.read("trace.json"))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    checks.that({event["tid"] for event in events} == set(range(8)) and
                {event["pid"] for event in events} == {0, 1}, "ranks are threads, stages processes")
    for event in events:
        args = event["args"]
        exact = abs(event["ts"] * 1000 - args["begin_ns"]) < 0.6 and \
            abs(event["dur"] * 1000 - (args["end_ns"] - args["begin_ns"])) < 0.6
        checks.that(exact, f"times of {event}")
    arrows = [{event["id"] for event in trace["traceEvents"] if event["ph"] == end} for end in "sf"]
    checks.that(arrows[0] == arrows[1] and len(arrows[0]) > 10, "every arrow has two ends")

    done = program.run("replay", "trace.json", "--draw", "text")
    lines = done.out.splitlines()
    checks.that(done.status == 0 and done.err == "" and not done.left, f"replay\n{done}")
    checks.that(max(map(len, lines)) <= 100, f"too wide\n{done}")
    drawn = [line for line in lines if re.fullmatch(r"rank \d    [0-9a-z+=.]{90}", line)]
    checks.that(len(drawn) == 8 and all("0" in line and "b" in line for line in drawn),
                f"a line per rank\n{done}")
    said = {}
    for link in ("0us,inf", "20us,1GB/s", "2ms,1MB/s"):
        done = program.run("replay", "trace.json", "--link", link, "--json", "--draw", "x.svg")
        checks.that(done.status == 0 and "makespan" in done.err, f"replay --json\n{done}")
        facts = said[link] = json.loads(done.out)
        total = facts["makespan_ns"]
        checks.that(facts["command"] == "replay" and len(facts["ranks"]) == 8 and total > 0, done)
        for rank in facts["ranks"]:
            checks.that(rank["compute_ns"] > 0 and rank["compute_ns"] + rank["communication_ns"] +
                        rank["idle_ns"] == total, f"{link}: {rank}")
        idle = sum(rank["idle_ns"] for rank in facts["ranks"]) / (8 * total)
        checks.that(abs(idle - facts["idle_share"]) < 1e-9, f"{link}: idle share")
        expected = facts["serial_step_ns"] * facts["steps"] / total
        checks.that(abs(expected - facts["speed_up"]) < 1e-9 * expected, f"{link}: speed-up")
        xml.etree.ElementTree.fromstring(program.read("x.svg"))
    order = [said[link]["makespan_ns"] for link in said]
    checks.that(order == sorted(order) and order[0] < order[2], f"links cost nothing: {order}")
    done = program.run("replay", "trace.json", "--draw", "text", "--step", "2")
    checks.that(done.status == 2 and "--step 2" in done.err and done.out == "", f"no step\n{done}")
    checks.that("--link" in program.run("replay", "--help").out, "replay --help")


if __name__ == "__main__":
    p.in_folder(report)
