#!/usr/bin/env python3
"""Bad input of every kind: test_bad_input.py PROGRAM

Each ends with status 2, one line on stderr that names what was wrong, nothing on stdout, and no
file that was not there before.
"""
import os
import re
import resource
import struct
import subprocess

import program as p

BAD_NUMBERS = ["-1", "abc", "nan", "inf", "0x2", "1 ", "99999999999999999999999999"]


def refused(program, checks, words, *names, env=None):
    done = program.run(*words, env=env)
    what = f"lockstep {words}: "
    checks.that(done.status == 2, f"{what}expected status 2\n{done}")
    checks.that(done.err.count("\n") == 1 and done.err.endswith("\n"), f"{what}one line\n{done}")
    checks.that(done.out == "", f"{what}something on stdout\n{done}")
    checks.that(not done.left, f"{what}left {done.left}")
    for name in names:
        checks.that(name in done.err, f"{what}should say \"{name}\"\n{done}")


def commands_and_options(program, checks):
    for words, *names in (
            (["trian"], "trian", "train"),
            (["verfy"], "verify"),
            (["zzz"], "zzz", "--help"),
            ([""], "unknown command"),
            (["train", "--stpes", "3"], "--stpes", "--steps"),
            (["train", "--stpes=3"], "--stpes", "--steps"),
            (["train", "--qqqqqq"], "--qqqqqq", "--help"),
            (["train", "--sweep", "4"], "--sweep"),          # of verify
            (["verify", "--save", "x"], "--save"),           # of train
            (["train", "-t", "3"], "-t", "two dashes"),
            (["train", "text.txt"], "text.txt"),
            (["train", "--json=1"], "--json", "no value"),
            (["train", "--tp"], "--tp", "missing"),
            (["train", "--text"], "--text", "missing"),
            (["train", "--text="], "--text", "empty"),
            (["bench", "--only", "conv"], "--only conv", "conv2d"),
            (["bench", "--only", "gemm,"], "--only gemm,", "collectives"),
            (["bench", "--dtype", "f16"], "--dtype f16", "f32 or f64"),
            (["bench", "--rounds", "0"], "--rounds 0", "1 to 100"),
            (["bench", "--images", "65"], "--images 65", "1 to 64"),
            (["bench", "gemm"], "gemm: no such word"),
            (["train", "--gemm", "blas"], "--gemm blas", "portable or openblas"),
            (["train", "--gemm", "both"], "--gemm both", "portable or openblas"),
            (["train", "--gemm", "plain"], "--gemm plain"),
            (["train", "--dtype", "f16"], "--dtype f16", "f32 or f64"),
            (["plan", "--model", "alexnet-nano", "--tp", "2"], "--model alexnet-nano"),
            (["train", "--model", "alexnet-nano", "--heads", "4"], "--heads", "convolutional network"),
            (["train", "--model", "resnet-nano", "--tp", "1"], "--tp", "transformers"),
            (["train", "--model", "resnet-nano", "--text", "text.txt"], "--text", "transformers"),
            (["train", "--images", "text.txt"], "--images", "gpt2-nano is a transformer"),
            (["train", "--image-count", "9"], "--image-count", "gpt2-nano is a transformer"),
            (["train", "--spatial", "2x1"], "--spatial", "gpt2-nano is a transformer"),
            (["train", "--model", "resnet-nano", "--images", "none", "--image-count", "9"],
             "--image-count", "--images none"),
            (["images"], "DIR", "missing"),
            (["images", "d", "--model", "gpt2-nano"], "--model gpt2-nano", "network"),
            (["images", "d", "--image-count", "0"], "--image-count 0", "from 1"),
            (["images", "no/where"], "no/where"),
            (["train", "--optimizer", "adam"], "--optimizer adam", "adamw or sgd"),
            (["verify", "--sweep", "4", "--layouts", "tp 2"], "--layouts: ", "--sweep 4")):
        refused(program, checks, words, *names)
    # A layout is said in one way.
    for option, value in (("--tp", "2"), ("--sp", None), ("--pp", "2"), ("--dp", "1"),
                          ("--micro-batches", "2"), ("--schedule", "1f1b"), ("--virtual-stages", "1"),
                          ("--recompute", "layer"), ("--partition", "4")):
        given = [option] if value is None else [option, value]
        refused(program, checks, ["train", "--serial", *given], f"{option}: ", "--serial")
        refused(program, checks, ["verify", "--sweep", "4", *given], f"{option}: ", "--sweep")
        refused(program, checks, ["verify", *given, "--layouts", "tp 2"], f"{option}: ", "--layouts")
    refused(program, checks, ["train", "--steps", "1"], "LOCKSTEP_ISA", env={"LOCKSTEP_ISA": "sse"})
    for words, *names in (
            ([], "TRACE"),
            (["none.json"], "none.json"),
            (["a.json", "b.json"], "b.json"),
            ([""], "TRACE", "empty"),
            (["text.txt"], "text.txt", "not JSON"),
            (["none.json", "--link", "5"], "--link 5", "5us,10GB/s"),
            (["none.json", "--link", "5us,0GB/s"], "--link 5us,0GB/s", "above 0"),
            (["none.json", "--draw", "x.png"], "--draw x.png", ".svg"),
            (["none.json", "--step", "-2"], "--step -2"),
            (["none.json", "--tp", "2"], "--tp")):
        refused(program, checks, ["replay", *words], *names)
    for words, *names in (
            (["--serial", "--trace", "t.json"], "--trace t.json", "--serial"),
            (["--trace", "no/t.json"], "no/t.json"),
            (["--save", "t.json", "--trace", "t.json"], "--trace t.json", "--save"),
            (["--save", "t.json", "--trace", "./t.json"], "--trace ./t.json", "--save"),
            (["--load", "old.json", "--trace", ".//old.json"], "--trace .//old.json", "--load")):
        refused(program, checks, ["train", "--text", "text.txt", *words], *names)
    # Every number that --help lists, with values that no number may have.
    for command in ("train", "verify", "plan"):  # plan takes what its help leaves out, too
        listed = program.run("train" if command == "plan" else command, "--help").out
        numbers = re.findall(r"^  --([a-z0-9-]+) (?:N|X|B|RANKS|SECONDS)\b", listed, re.MULTILINE)
        checks.that(len(numbers) >= 20, f"{command} --help lists only {numbers}")
        for name in numbers:
            for value in BAD_NUMBERS if command == "train" else BAD_NUMBERS[:2]:
                refused(program, checks, [command, f"--{name}", value], f"--{name} {value}",
                        "is allowed")
        for name in ("steps", "batch", "tp", "layers", "heads", "seq", "vocab", "d-model", "lr"):
            refused(program, checks, [command, f"--{name}", "0"], f"--{name} 0")
            refused(program, checks, [command, f"--{name}="], f"--{name} \"\"")


def models_and_layouts(program, checks):
    legal = "1, 2, 3, 4, 6 or 12"
    for words, *names in (
            (["--tp", "5"], "--tp 5: 12 heads", legal),
            (["--tp", "13"], "--tp 13", legal),
            (["--tp", "24"], "--tp 24", legal),
            (["--heads", "14", "--d-model", "896", "--d-ff", "4864", "--tp", "7"], "--tp 7",
             "1 or 2"),
            (["--heads", "7"], "--heads 7", "48"),
            (["--heads", "12", "--kv-heads", "5"], "--kv-heads 5", "12"),
            (["--pp", "5"], "--pp 5: 4 layers", "use 1 to 4"),
            (["--pp", "2", "--layers", "1"], "--pp 2: 1 layer", "use 1"),
            (["--pp", "3", "--schedule", "interleaved", "--virtual-stages", "2"],
             "--virtual-stages 2: 4 layers", "pp 3"),
            (["--schedule", "interleaved", "--virtual-stages", "5"], "--virtual-stages 5: 4 layers"),
            (["--schedule", "interleaved", "--pp", "2"], "--schedule interleaved", "--virtual-stages 2",
             "1f1b"),
            (["--schedule", "interleaved", "--pp", "4"], "--schedule interleaved", "1f1b"),
            (["--virtual-stages", "2"], "--virtual-stages 2", "--schedule interleaved"),
            (["--virtual-stages", "2", "--schedule", "1f1b", "--pp", "2"], "--virtual-stages 2",
             "--schedule 1f1b", "interleaved"),
            (["--virtual-stages", "257", "--schedule", "interleaved"], "--virtual-stages 257", "256"),
            (["--dp", "9"], "--batch 8: dp 9", "9 sequences or more", "--dp 1 to 8"),
            (["--dp", "2", "--micro-batches", "4", "--batch", "7"], "--batch 7: dp 2 x 4 micro-batches",
             "8 sequences or more", "--micro-batches 1 to 3"),
            (["--pp", "4", "--micro-batches", "9"], "--batch 8: dp 1 x 9 micro-batches",
             "9 sequences or more", "--micro-batches 1 to 8"),
            (["--schedule", "gpip"], "--schedule gpip", "gpipe, 1f1b or interleaved"),
            (["--recompute", "all"], "--recompute all", "none, selective, layer or stage"),
            (["--partition", "2,2"], "--partition 2,2", "1 stage"),
            (["--pp", "2", "--partition", "2"], "--partition 2", "2 stages"),
            (["--pp", "2", "--partition", "2,3"], "--partition 2,3", "5 layers", "4"),
            (["--pp", "2", "--partition", "2,"], "--partition 2,", "3,2,2"),
            (["--pp", "2", "--partition", "2;2"], "--partition 2;2", "3,2,2"),
            (["--pp", "2", "--partition", "-1,5"], "--partition -1,5", "3,2,2"),
            (["--pp", "2", "--partition", "99999999999999999999,1"], "--partition 9999", "3,2,2"),
            (["--partition", ",".join(["1"] * 300)], "--partition 1,1,", "256"),
            (["--sp", "--tp", "2", "--mlp-cut", "row_first"], "--sp", "column_first"),
            (["--dp", "4096", "--batch", "4096", "--tp", "12", "--pp", "4"], "--dp 4096",
             "196608 ranks", "at most"),
            (["--model", "gpt3"], "gpt3", "gpt2-nano"),
            (["--model", "missing.json"], "missing.json"),
            (["--model", "."], "."),
            (["--model", "broken.json"], "broken.json"),
            (["--model", "key.json"], "key.json", "layrs", "layers"),
            (["--model", "type.json"], "type.json", "layers"),
            (["--model", "range.json"], "range.json", "layers"),
            (["--layers", "4000", "--d-model", "1048576", "--heads", "4096", "--d-ff", "4194304"],
             "parameters"),
            (["--layers", "100", "--d-model", "49152", "--heads", "96"], "parameters", "machine"),
            (["--batch", "1048576", "--seq", "1048576"], "--batch 1048576"),
            (["--norm", "middle"], "--norm middle", "pre or post"),
            (["--model", "bert-nano", "--serial", "--seq", "4"], "--seq 4", "at least 5"),
            (["--model", "bert-nano", "--serial", "--vocab", "256"], "--vocab 256", "260"),
            (["--dropout", "1"], "--dropout 1")):
        refused(program, checks, ["train", "--steps", "1", *words], *names)
    refused(program, checks, ["verify", "--model", "gpt2-124m", "--steps", "100000"],
            "--steps 100000", "at most")
    for layouts, *names in (("tp 2; tp 5", "--tp 5", legal), ("tp 2;", "--layouts", "no part"),
                            ("tp 2; pp", "--layouts: pp", "dp 2 x pp 2 x tp 2"),
                            ("tp 2; tp 2 x tp 4", "--layouts: tp 2 x tp 4", "second time"),
                            ("pp 2, 1f1b, gpipe", "--layouts: gpipe", "second time"),
                            ("dp 2, 5 micro-batches", "--batch 8", "10 sequences")):
        refused(program, checks, ["verify", "--layouts", layouts], *names)
    refused(program, checks, ["verify", "--sweep", "-1"], "--sweep -1", "from 1 to 4096")


def texts(program, checks):
    program.write("empty.txt", b"")
    program.write("one.txt", b"x")
    program.write("short.txt", b"x" * 24)
    program.write("enough.txt", b"x" * 25)
    program.write("binary.txt", bytes(range(256)))
    os.mkdir(os.path.join(program.folder, "folder"))
    for command in ("train", "verify"):
        for name, *says in (
                ("missing.txt", "missing.txt"), ("empty.txt", "empty.txt", "empty"),
                ("one.txt", "one.txt", "25"), ("short.txt", "short.txt", "24", "25"),
                ("folder", "folder"), ("missing/deep.txt", "missing/deep.txt"),
                ("empty.txt/x", "empty.txt/x"), ("line\nend.txt", "line\\x0aend.txt"),
                (b"not\xff\xfeutf8.txt", "not\\xff\\xfeutf8.txt"), ("a" * 5000, "aaaa")):
            refused(program, checks, [command, "--text", name], *says)
        # A vocabulary smaller than the largest byte, at its edge.
        refused(program, checks, [command, "--text", "binary.txt", "--vocab", "255"],
                "binary.txt", "255")
        refused(program, checks, [command, "--text", "enough.txt", "--vocab", "120"], "enough.txt",
                "120")
    for words in (["enough.txt"], ["binary.txt"], ["enough.txt", "--vocab", "121"]):
        done = program.run("train", "--steps", "1", "--text", *words)
        checks.that(done.status == 0, f"{words}: should do\n{done}")
    try:
        odd = program.write(b"odd\xff\xfe.txt", b"some text of some length, and a bit more")
    except OSError:
        return  # a file system that wants UTF-8
    done = program.run("train", "--steps", "1", "--text", odd)
    checks.that(done.status == 0 and "odd\\xff\\xfe.txt" in done.out, f"odd name\n{done}")


def outputs(program, checks):
    program.write("file", b"")
    long_run = ["train", "--steps", "3"]
    for words, *names in (
            (["--save", "missing/x.safetensors"], "missing/x.safetensors: cannot be created in missing: "),
            (["--save", "file/x.safetensors"], "file/x.safetensors"),
            (["--save", "folder"], "folder"),
            (["--save", "/proc/lockstep-cannot-write-here"], "/proc/lockstep-cannot-write-here"),
            (["--save", "/dev/full"], "/dev/full"),
            (["--save", "a" * 300], "aaaa"),
            (["--report", "file"], "file"),
            (["--report", "missing/deep"], "missing/deep"),
            (["--report", "/proc/lockstep-cannot-write-here"], "/proc/lockstep")):
        if names[0].startswith("/") and not os.path.exists(os.path.dirname(names[0])):
            continue
        if not os.path.exists("/dev/full") and "/dev/full" in names:
            continue
        done = program.run(*long_run, *words)
        what = f"{words}: "
        checks.that(done.status == 2, f"{what}expected status 2\n{done}")
        checks.that(len(done.err.splitlines()) == 1, f"{what}one line\n{done}")
        checks.that(not done.left, f"{what}left {done.left}")
        checks.that("step" not in done.out, f"{what}found out too late\n{done}")
        for name in names:
            checks.that(name in done.err, f"{what}should say {name}\n{done}")
    # A failure after the report was opened takes the report's folder away again.
    refused(program, checks, ["train", "--report", "new", "--load", "missing.safetensors"],
            "missing.safetensors")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            done = program.run("train", "--steps", "1", stdout=full)
        checks.that(done.status == 2 and "standard output" in done.err, f"/dev/full\n{done}")
    try:
        done = program.run("train", "--steps", "1", "--save", b"odd\xff.safetensors")
    except OSError:
        return
    checks.that(done.status == 0 and b"odd\xff.safetensors" in done.left, f"odd name\n{done}")


def header_and_body(data):
    length = struct.unpack("<Q", data[:8])[0]
    return p.json.loads(data[8:8 + length]), data[8 + length:]


def checkpoints(program, checks):
    done = program.run("train", "--steps", "2", "--save", "good.safetensors")
    if not checks.that(done.status == 0, f"no checkpoint to spoil\n{done}"):
        return
    good = program.read("good.safetensors")
    header, body = header_and_body(good)
    names = [n for n in header if n != "__metadata__"]
    first, second = names[0], names[1]

    def spoiled(change):
        copy = p.json.loads(p.json.dumps(header))
        change(copy)
        return p.make_safetensors(copy, body)

    def offsets(name, begin=None, end=None):
        def change(h):
            old = h[name]["data_offsets"]
            h[name]["data_offsets"] = [old[0] if begin is None else begin,
                                       old[1] if end is None else end]
        return change

    def field(name, key, value):
        return lambda h: h[name].__setitem__(key, value)

    shape = header[first]["shape"]
    flat = [shape[0] * shape[1]] if len(shape) == 2 else [shape[0], 1]
    half = len(body) // 2
    text = p.json.dumps(header).encode()
    twice = text[:-1] + b"," + p.json.dumps({first: header[first]}).encode()[1:]
    files = {
        "empty": b"", "four": good[:4], "only_length": good[:8], "half_header": good[:200],
        "cut_one": good[:-1], "cut_half": good[:half], "longer": good + b"\0",
        "length_past_end": struct.pack("<Q", len(good)) + good[8:],
        "length_huge": struct.pack("<Q", 2 ** 63) + good[8:],
        "length_minus": b"\xff" * 8 + good[8:],
        "length_zero": struct.pack("<Q", 0) + good[8:],
        "no_json": p.make_safetensors(b"{" * 64, body),
        "deep_json": p.make_safetensors(b'{"a":' * 5000 + b"1" + b"}" * 5000, body),
        "array": p.make_safetensors([1, 2], body),
        "noise": bytes((i * 89 + 7) % 256 for i in range(4096)),
        "twice": p.make_safetensors(twice, body),
        "overlap": spoiled(offsets(second, begin=header[first]["data_offsets"][0])),
        "past_end": spoiled(offsets(names[-1], end=len(body) + 4)),
        "far": spoiled(offsets(first, begin=2 ** 62, end=2 ** 62 + 4)),
        "minus": spoiled(offsets(first, begin=-4)),
        "backwards": spoiled(offsets(first, begin=8, end=4)),
        "hole": p.make_safetensors({**header, names[-1]: {
            **header[names[-1]], "data_offsets": [o + 4 for o in header[names[-1]]["data_offsets"]]
        }}, body + b"\0\0\0\0"),
        "dtype_unknown": spoiled(field(first, "dtype", "Q7")),
        "dtype_number": spoiled(field(first, "dtype", 7)),
        "dtype_int": spoiled(field(first, "dtype", "I32")),
        "shape_other": spoiled(field(first, "shape", flat)),
        "shape_turned": spoiled(field(first, "shape", shape[::-1])),
        "shape_product": spoiled(field(first, "shape", [n + 1 for n in shape])),
        "shape_overflow": spoiled(field(first, "shape", [2 ** 33, 2 ** 33])),
        "shape_minus": spoiled(field(first, "shape", [-n for n in shape])),
        "shape_real": spoiled(field(first, "shape", [n + 0.5 for n in shape])),
        "shape_text": spoiled(field(first, "shape", "48")),
        "no_offsets": spoiled(lambda h: h[first].pop("data_offsets")),
        "tensor_missing": spoiled(lambda h: h.__setitem__("stranger", h.pop(first))),
        "step_minus": spoiled(field("__metadata__", "step", "-1")),
        "step_word": spoiled(field("__metadata__", "step", "two")),
        "step_huge": spoiled(field("__metadata__", "step", "99999999999999999999")),
        "contract_other": spoiled(field("__metadata__", "contract", "tree/v0")),
        "contract_digest": spoiled(field("__metadata__", "contract_digest", "00" * 32)),
        "format_later": spoiled(field("__metadata__", "format", "lockstep checkpoint 2")),
        "optimizer_other": spoiled(field("__metadata__", "optimizer", "sgd")),
        "metadata_number": spoiled(field("__metadata__", "step", 2)),
    }
    if shape[0] == shape[1]:
        del files["shape_turned"]
    # One tensor too many: appended, so that everything else is as it should be.
    extra = {**header, "stranger": {"dtype": "F32", "shape": [1],
                                    "data_offsets": [len(body), len(body) + 4]}}
    files["extra"] = p.make_safetensors(extra, body + b"\0\0\0\0")
    says = {"contract_other": ("tree/v0", "tree/v1"), "contract_digest": ("0" * 16, "tree/v1"),
            "format_later": ("lockstep checkpoint 2", "lockstep checkpoint 1"),
            "optimizer_other": ("sgd", "--optimizer adamw")}
    for name, data in files.items():
        program.write(name + ".safetensors", data)
        command = ["train", "--tp", "3"] if len(name) % 2 else ["train", "--serial"]
        refused(program, checks, [*command, "--steps", "4", "--save", "out.safetensors", "--load",
                                  name + ".safetensors"], f"lockstep: {name}.safetensors: ",
                *says.get(name, ()))
    for words, *says in (
            (["--load", "missing.safetensors"], "missing.safetensors"),
            (["--load", "folder"], "folder"),
            (["--load", "good.safetensors", "--steps", "1"], "--steps 1", "good.safetensors"),
            (["--load", "good.safetensors", "--model", "llama-nano"], "good.safetensors"),
            (["--load", "good.safetensors", "--layers", "3"], "good.safetensors"),
            (["--load", "good.safetensors", "--d-ff", "96"], "good.safetensors"),
            (["--load", "good.safetensors", "--optimizer", "sgd", "--steps", "3"],
             "good.safetensors", "state of adamw", "--optimizer sgd")):
        refused(program, checks, ["train", *words], *says)
    refused(program, checks, ["verify", "--load", "cut_half.safetensors"], "cut_half.safetensors")
    # Files that do not say: nothing is known against them. A foreign format is somebody else's word.
    program.write("silent.safetensors", spoiled(lambda h: [h["__metadata__"].pop(k) for k in (
        "contract", "contract_digest", "optimizer", "format")]))
    program.write("foreign.safetensors", spoiled(field("__metadata__", "format", "pt")))
    for name in ("good", "silent", "foreign"):
        done = program.run("train", "--steps", "3", "--load", name + ".safetensors", "--tp", "2")
        checks.that(done.status == 0, f"{name}: should do\n{done}")


def diverged(program, checks):
    """A training that runs into NaN, padding included, is no fault of a rank: same end everywhere."""
    words = ["--steps", "8", "--optimizer", "sgd", "--lr", "1000", "--clip", "0"]
    done = program.run("train", "--serial", *words, "--save", "diverged.safetensors")
    checks.that(done.status == 0 and "nan" in done.out, f"does not diverge\n{done}")
    layouts = ("tp 3", "dp 2", "pp 2", "dp 2 x pp 2 x tp 2, sp, 1f1b, 2 micro-batches")
    done = program.run("verify", "--no-truth", *words, "--layouts", "; ".join(layouts))
    checks.that(done.status == 1 and "0 bit-exact, 0 different" in done.out, f"diverged\n{done}")
    digests = set()
    for layout in (["--serial"], ["--dp", "2"], ["--pp", "2", "--tp", "2"]):
        done = program.run("train", "--steps", "9", "--optimizer", "sgd", "--load",
                           "diverged.safetensors", *layout)
        checks.that(done.status == 0, f"diverged, goes on with {layout}\n{done}")
        digests.add(p.last_line(done.out))
    checks.that(len(digests) == 1, f"diverged, goes on: {digests}")
    os.remove(os.path.join(program.folder, "diverged.safetensors"))


def closed_streams(program, checks):
    """A stream that is closed is no file of the run's: what is printed must not land in one."""
    for stream, *words in ((1, ), (1, "--json"), (2, "--json"), (0, )):
        done = program.run("train", "--steps", "2", "--report", "page", "--save", "out.safetensors",
                           *words, first=lambda number=stream: os.close(number))
        what = f"stream {stream} closed {words}: "
        checks.that(done.status == (2 if stream == 1 else 0), f"{what}status\n{done}")
        checks.that(stream != 1 or "standard output" in done.err, f"{what}says nothing\n{done}")
        checks.that(program.read("page/index.html").startswith(b"<!DOCTYPE html>"),
                    f"{what}the page begins {program.read('page/index.html')[:60]}")
        again = program.run("train", "--steps", "2", "--load", "out.safetensors")
        checks.that(again.status == 0, f"{what}spoiled the checkpoint\n{again}")
    os.remove(os.path.join(program.folder, "out.safetensors"))


def limits(program, checks):
    """What the system refuses is one line, not the end by a signal, and never a wait without end."""
    def at_most(what, most):
        return lambda: resource.setrlimit(what, (most, most))
    done = program.run("train", "--steps", "1", "--save", "large.safetensors",
                       first=at_most(resource.RLIMIT_FSIZE, 65536))
    checks.that(done.status == 2 and done.err.count("\n") == 1 and "large.safetensors" in done.err
                and not done.left, f"a file beyond the limit: left {done.left}\n{done}")
    # Kernels that no CPU, or not this one, can run.
    for kernels in ("SkylakeX", "Piledriver", "Opteron", "bogus"):
        done = program.run("verify", "--steps", "1", "--layers", "1", "--gemm", "openblas",
                           env={"OPENBLAS_CORETYPE": kernels})
        checks.that(done.status == 0 or (done.status == 2 and done.err.count("\n") == 1 and
                                         not done.out and f"{kernels} kernels" in done.err),
                    f"OPENBLAS_CORETYPE={kernels}\n{done}")
    # Address space, from too little to begin with up to enough for all threads. Until `--version`
    # has enough it is the loader or OpenBLAS that gives up, in a way of its own.
    starts, statuses = False, []
    for mebibytes in [*range(32, 1 << 10, 32), 1280, 1536, 2048, 3072, 4096]:
        first = at_most(resource.RLIMIT_AS, mebibytes << 20)
        try:
            starts = starts or program.run("--version", first=first, timeout=60).status == 0
            if not starts:
                continue
            done = program.run("verify", "--steps", "1", "--tp", "12", "--gemm", "both", "--batch",
                               "2", first=first, timeout=60)
        except subprocess.TimeoutExpired:
            checks.that(False, f"{mebibytes} MiB: does not end")
            continue
        statuses.append(done.status)
        checks.that(done.status == 0 or (done.status == 2 and done.err.count("\n") == 1),
                    f"{mebibytes} MiB\n{done}")
        if done.status == 0:
            break
    # With a sanitizer the program needs more than any limit that could be set here.
    checks.that(not statuses or (statuses[0] == 2 and statuses[-1] == 0), f"memory: {statuses}")


def main(program, checks):
    program.write("text.txt", "A text to train on. " * 100)
    program.write("old.json", '{"displayTimeUnit": "ns", "otherData": {"format": "lockstep trace 1"}}')
    program.write("broken.json", b"{\"layers\": ")
    program.write("key.json", b"{\"base\": \"gpt2-nano\", \"layrs\": 3}")
    program.write("type.json", b"{\"base\": \"gpt2-nano\", \"layers\": \"3\"}")
    program.write("range.json", b"{\"base\": \"gpt2-nano\", \"layers\": 0}")
    commands_and_options(program, checks)
    models_and_layouts(program, checks)
    texts(program, checks)
    outputs(program, checks)
    checkpoints(program, checks)
    diverged(program, checks)
    closed_streams(program, checks)
    limits(program, checks)


if __name__ == "__main__":
    p.in_folder(main)
