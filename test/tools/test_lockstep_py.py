#!/usr/bin/env python3
"""tools/lockstep.py: test_lockstep_py.py ROOT [PROGRAM]

Files written and read back, every dtype; hostile files, each refused in one line that names file
and tensor; golden directories and candidates; with PROGRAM, a directory that it dumped and
candidates that it judges. Skipped where NumPy is missing.
"""
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile

from program import Checks, make_safetensors, start_with

start_with("numpy")
sys.path.insert(0, os.path.join(sys.argv[1], "tools"))
import numpy as np  # pylint: disable=wrong-import-position
import lockstep  # pylint: disable=wrong-import-position


def refused(checks, what, names, action):
    """action must end in one line that has every one of `names`."""
    try:
        action()
    except lockstep.Error as error:
        text = str(error)
        checks.that("\n" not in text and all(name in text for name in names), f"{what}: {text}")
    else:
        checks.that(False, f"{what}: not refused")


# ---- numbers ----

def check_bf16(checks):
    """Against the definition: the nearer of two neighbours, the even one of two as near."""
    rng = np.random.RandomState(5)
    bits = rng.randint(0, 2 ** 32, 20000, dtype=np.uint64).astype(np.uint32)
    edges = np.array([0, 0x80000000, 0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 1, 0x7fff,
                      0x8000, 0x8001, 0x7f7fffff, 0x7f7f7fff, 0x7f800000, 0xff800000], np.uint32)
    bits = np.concatenate([bits, edges])
    values = bits.view(np.float32)
    got = lockstep.to_bf16(values)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        exact = values.astype(np.float64)
    for value, pattern, bf16 in zip(exact, bits, got):
        if np.isnan(value):
            checks.that(np.isnan(lockstep.from_bf16(np.array([bf16]))[0]), f"NaN {pattern:x}")
            continue
        if np.isinf(value):
            checks.that(bf16 == pattern >> 16, f"infinity {pattern:x}")
            continue
        low = int(pattern) >> 16
        # Beyond the largest finite one the next step is infinity's place, 2^128.
        near = []
        for candidate in (low, low + 1):
            number = np.array([candidate << 16], np.uint32).view(np.float32).astype(np.float64)[0]
            if np.isinf(number):
                number = np.copysign(2.0 ** 128, number)
            near.append((abs(number - value), candidate & 1, candidate))
        checks.that(min(near)[2] == bf16, f"{value!r}: {bf16:x}, not {min(near)[2]:x}")
    back = lockstep.from_bf16(got[~np.isnan(values)])
    checks.that((lockstep.to_bf16(back) == got[~np.isnan(values)]).all(), "bf16 is kept")


def check_round_trip(checks, folder):
    rng = np.random.RandomState(3)
    path = os.path.join(folder, "all.safetensors")
    tensors = {"f32": rng.randn(3, 5).astype(np.float32), "f64": rng.randn(2, 1, 4),
               "f16": rng.randn(7).astype(np.float16), "i32": np.arange(-3, 4, dtype=np.int32),
               "i64": np.array([[-2 ** 40]]), "u8": np.arange(3, dtype=np.uint8),
               "bool": np.array([True, False, True]), "number": np.float32(1.25),
               "empty": np.zeros((0, 4), np.float32), "bf16": rng.randn(4, 3).astype(np.float32),
               "turned": rng.randn(4, 6).astype(np.float32).T,
               "big-endian": rng.randn(3).astype(">f4"), "\u03b2": np.float64(2)}
    lockstep.write_safetensors(path, tensors, {"a": "b"}, {"bf16": "BF16"})
    file = lockstep.Safetensors(path)
    checks.that(list(file) == list(tensors) and len(file) == len(tensors), "names")
    checks.that(file.metadata == {"a": "b"} and "f32" in file and "f33" not in file, "metadata")
    for name, array in tensors.items():
        array = np.asarray(array)
        expected = lockstep.from_bf16(lockstep.to_bf16(array)) if name == "bf16" else array
        got = file[name]
        checks.that(got.shape == array.shape and (got == expected).all(), f"{name}: {got}")
    checks.that(dict(file.items()).keys() == tensors.keys(), "as a dictionary")
    dtypes = [file.about(name)[0] for name in ("f32", "f64", "f16", "i32", "i64", "u8", "bool",
                                               "bf16", "big-endian")]
    checks.that(dtypes == ["F32", "F64", "F16", "I32", "I64", "U8", "BOOL", "BF16", "F32"], dtypes)
    try:
        file["f32"][0, 0] = 1
        checks.that(False, "what is mapped can be changed")
    except ValueError:
        checks.that(True, "")
    refused(checks, "no such tensor", ["all.safetensors", "f33"], lambda: file["f33"])
    refused(checks, "complex numbers", ["x.safetensors", '"c"', "complex"],
            lambda: lockstep.write_safetensors(os.path.join(folder, "x.safetensors"),
                                               {"c": np.zeros(2, complex)}))
    refused(checks, "no such folder", ["none/x.safetensors"],
            lambda: lockstep.write_safetensors(os.path.join(folder, "none", "x.safetensors"), {}))
    checks.that(os.listdir(folder) == ["all.safetensors"], f"left {os.listdir(folder)}")


# ---- hostile files ----

def entry(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


def check_hostile(checks, folder):
    path = os.path.join(folder, "bad.safetensors")
    body = bytes(16)
    good = {"t": entry(), "u": entry(offsets=(8, 16))}
    cases = {
        "empty": (b"", []), "seven bytes": (b"1234567", []),
        "a header longer than the file": (b"\xff" * 8 + b"{}", ["truncated"]),
        "a header too long by one": ((3).to_bytes(8, "little") + b"{}", ["truncated"]),
        "no object": (make_safetensors(b"[]", b""), ["object"]),
        "no JSON": (make_safetensors(b"{", b""), ["JSON"]),
        "no text": (make_safetensors(b'{"\xff": 1}', b""), ["JSON"]),
        "a nest": (make_safetensors(b'{"a":' + b"[" * 100000, b""), ["JSON"]),
        "a key twice": (make_safetensors(
            b'{"t":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}}', bytes(4)),
            ["dtype", "twice"]),
        "a name twice": (make_safetensors(
            b'{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
            b'"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', bytes(8)), ['"t"', "twice"]),
        "metadata": (make_safetensors({"__metadata__": {"a": 1}}, b""), ["__metadata__"]),
        "metadata, a list": (make_safetensors({"__metadata__": []}, b""), ["__metadata__"]),
        "an entry": (make_safetensors({"t": 1}, b""), ['"t"']),
        "an unknown key": (make_safetensors({"t": entry(scale=2)}, bytes(8)), ['"t"']),
        "bytes behind": (make_safetensors({"t": entry()}, body), ["8 bytes"]),
        "cut off": (make_safetensors(good, body)[:-1], ['"u"']),
        "overlap": (make_safetensors({"t": entry(), "u": entry(offsets=(4, 12))}, bytes(12)),
                    ['"u"']),
        "a hole": (make_safetensors({"t": entry(), "u": entry(offsets=(12, 20))}, bytes(20)),
                   ['"u"']),
    }
    for what, dtype in (("F8", "F8_E4M3"), ("a number", 3), ("a list", [1])):
        cases["dtype " + what] = (make_safetensors({"t": entry(dtype)}, bytes(8)), ['"t"', "dtype"])
    for what, shape in (("negative", [-2]), ("a fraction", [2.0]), ("true", [True, 2]),
                        ("infinite", [float("inf")]), ("nine sizes", [1] * 8 + [2]),
                        ("huge", [2 ** 40, 2 ** 40]), ("other bytes", [3])):
        cases["shape " + what] = (make_safetensors({"t": entry(shape=shape)}, bytes(8)), ['"t"'])
    for what, offsets in (("backwards", [8, 0]), ("beyond", [0, 16]), ("three", [0, 8, 8]),
                          ("negative", [-8, 0]), ("fraction", [0, 8.0]), ("huge", [0, 2 ** 64])):
        cases["offsets " + what] = (make_safetensors({"t": entry(offsets=offsets)}, bytes(8)),
                                    ['"t"'])
    for what, (data, names) in cases.items():
        with open(path, "wb") as file:
            file.write(data)
        refused(checks, what, ["bad.safetensors", *names], lambda: lockstep.Safetensors(path))
    with open(path, "wb") as file:
        file.write(make_safetensors(good, body))
    checks.that(list(lockstep.Safetensors(path)) == ["t", "u"], "the good one is refused")
    for missing in ("nothing", folder):
        refused(checks, missing, [missing], lambda: lockstep.Safetensors(missing))


# ---- a small golden directory ----

MODEL = {"name": "small", "layers": 1, "heads": 6, "kv_heads": 2, "d_model": 12, "vocab": 256,
         "dropout": 0}
TENSORS = {"embedding": ("forward", [5, 7, 12], "B S[sp] D"),
           "layers.0.query": ("forward", [5, 7, 12], "B S D[tp]"),
           "layers.0.key": ("forward", [5, 7, 4], "B S Dkv[tp]"),
           "logits": ("forward", [5, 7, 256], "B S V[tp]"), "loss": ("forward", [], ""),
           "grad.w": ("backward", [12, 12], "D D[tp]"), "param.w": ("update", [12, 12], "D D[tp]")}


def make_golden(folder, steps=2, **more):
    rng = np.random.RandomState(9)
    os.makedirs(folder)
    files, listed = {}, []
    for step in range(steps):
        for name, (phase, shape, dims) in TENSORS.items():
            file = phase + ".safetensors"
            values = rng.randn(*shape).astype(np.float32) if shape else np.float32(step)
            files.setdefault(file, {})[f"step{step}/{name}"] = values
            listed.append({"name": f"step{step}/{name}", "file": file, "phase": phase, "step": step,
                           "order": len(listed), "dtype": "f32", "shape": shape, "dims": dims,
                           "given": False, "sha256": "", "truth_error": None, "bound": None})
        batch = files.setdefault("batch.safetensors", {})
        for name in ("tokens", "targets"):
            batch[f"step{step}/{name}"] = rng.randint(0, 256, (5, 7)).astype(np.int32)
    files["weights.safetensors"] = {"w": rng.randn(12, 12).astype(np.float32)}
    bound = {}
    for file, tensors in files.items():
        lockstep.write_safetensors(os.path.join(folder, file), tensors)
        if file.startswith(("weights", "batch")):
            path = os.path.join(folder, file)
            with open(path, "rb") as opened:
                data = opened.read()
            bound[file] = {"bytes": len(data), "sha256": lockstep.hashlib.sha256(data).hexdigest()}
    manifest = {"format": "lockstep golden", "version": 2, "program": "lockstep 0.1.0",
                "kind": "training", "model": MODEL, "layout": {"text": "tp 1"}, "seed": 1,
                "engine": "portable", "dtype": "f32", "batch": 5, "first_step": 0, "steps": steps,
                "optimizer": {"lr": 0.5, "lr_floor": 0.1, "warmup": 2, "lr_total": 10},
                "files": bound, "tensors": listed, **more}
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    return lockstep.Golden(folder)


def check_golden(checks, folder):
    place = os.path.join(folder, "golden")
    golden = make_golden(place)
    checks.that(list(golden.steps) == [0, 1] and golden["loss"] == 0 and golden["step1/loss"] == 1,
                "steps")
    checks.that(golden.about("w")["name"] == "step1/param.w", "a bare parameter is the last one")
    checks.that(golden.about("embedding", 1)["name"] == "step1/embedding", "a step")
    checks.that(golden.names("backward") == ["step0/grad.w", "step1/grad.w"], "names of a phase")
    checks.that(golden.batch(1).tokens.shape == (5, 7) and golden.batch(1).order is None, "batch")
    checks.that(golden.mask("embedded", 0) is None, "no dropout, no mask")
    rates = [golden.learning_rate(step) for step in (0, 1, 2, 6, 10, 11)]
    checks.that(np.allclose(rates, [0.25, 0.5, 0.5, 0.3, 0.1, 0.1], rtol=1e-15), f"rates {rates}")
    # 256 words stand in 384 rows; 6 query heads share 2 key heads of width 2.
    expected = {("embedding", (1, 2)): [(0, 5), (0, 7), (0, 12)],
                ("layers.0.query", (1, 3)): [(0, 5), (0, 7), (4, 8)],
                ("layers.0.key", (1, 3)): [(0, 5), (0, 7), (0, 4)],
                ("layers.0.key", (4, 6)): [(0, 5), (0, 7), (2, 4)],
                ("logits", (1, 2)): [(0, 5), (0, 7), (192, 256)],
                ("logits", (2, 3)): [(0, 5), (0, 7), (256, 256)],
                ("grad.w", (2, 3)): [(0, 12), (8, 12)], ("loss", (1, 2)): []}
    for (name, tp), cut in expected.items():
        checks.that(golden.cut(name, tp=tp) == cut, f"{name} {tp}: {golden.cut(name, tp=tp)}")
    checks.that(golden.cut("embedding", tp=(1, 3), sp=(1, 3), dp=(0, 2)) ==
                [(0, 3), (3, 5), (0, 12)], "sp and dp")
    refused(checks, "a tensor", [place, "step0/none"], lambda: golden["none"])
    refused(checks, "a batch", ["batch.safetensors", "step 2"], lambda: golden.batch(2))

    path = os.path.join(place, "manifest.json")
    with open(path, encoding="utf-8") as file:
        good = file.read()

    def write(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))

    for what, names, change in (
            ("version", ["manifest.json", "1"], lambda m: {**m, "version": 1}),
            ("format", ["manifest.json", "other"], lambda m: {**m, "format": "other"}),
            ("no model", ["manifest.json", "model"], lambda m: {**m, "model": 3}),
            ("tensors", ["manifest.json", "tensors"], lambda m: {**m, "tensors": [{}]}),
            ("shape", ["manifest.json", "tensors"],
             lambda m: {**m, "tensors": [{**m["tensors"][0], "shape": [-1]}]}),
            ("no JSON", ["manifest.json"], lambda m: "{"),
            ("weights of another one", ["weights.safetensors", "SHA-256"],
             lambda m: {**m, "files": {"weights.safetensors": {"sha256": "0" * 64}}}),
            ("a file outside", ["outside"],
             lambda m: {**m, "files": {"../weights.safetensors": {"sha256": "0" * 64}}})):
        write(change(json.loads(good)))
        refused(checks, what, names, lambda: lockstep.Golden(place))
        write(good)
    lockstep.Golden(place)
    refused(checks, "no directory", ["nowhere"], lambda: lockstep.Golden("nowhere"))
    return golden


def check_candidate(checks, folder, golden):
    place = os.path.join(folder, "mine")
    for rank in range(3):
        out = lockstep.Candidate(place, golden, rank=rank, ranks=3, layout="tp 3")
        out.add("layers.0.query", golden["layers.0.query"][:, :, 4 * rank:4 * rank + 4],
                cut=golden.cut("layers.0.query", tp=(rank, 3)))
        out.add("loss", golden["loss"], 1)
        out.write()
    file = lockstep.Safetensors(os.path.join(place, "rank-001.safetensors"))
    checks.that(file.metadata == {"rank": "1", "ranks": "3", "layout": "tp 3",
                                  "cut:step0/layers.0.query": "0:5 0:7 4:8"}, file.metadata)
    checks.that(list(file) == ["step0/layers.0.query", "step1/loss"], list(file))
    query = golden["layers.0.query"]
    out = lockstep.Candidate(place, golden, rank=0, ranks=2)
    values = np.array(query)
    out.add("layers.0.query", values)
    values[:] = 0  # the candidate has what it was given
    out.add("embedding", golden["embedding"], 1, dtype="BF16")
    out.add("loss", 1.5, 0, dtype="BF16")  # single numbers: [] and [1]
    out.add("loss", golden["loss"].reshape(1), 1)
    out.write()
    checks.that(sorted(os.listdir(place)) == ["rank-000.safetensors", "rank-001.safetensors"],
                f"left: {os.listdir(place)}")
    file = lockstep.Safetensors(out.path)
    checks.that((file["step0/layers.0.query"] == query).all(), "copied")
    checks.that(file.about("step1/embedding")[0] == "BF16", "bf16")
    checks.that(file["step0/loss"].shape == () and file["step0/loss"] == 1.5, file["step0/loss"])
    checks.that(file["step1/loss"] == golden["loss"], file["step1/loss"])
    lockstep.Candidate(place, golden).write()
    checks.that(os.listdir(place) == ["candidate.safetensors"], f"left: {os.listdir(place)}")
    free = lockstep.Candidate(place)
    free.add("anything", np.zeros(3), 4)
    free.add("step1/anything", np.zeros(3), cut=[(1, 4)])
    checks.that(list(free.tensors) == ["step4/anything", "step1/anything"], "without golden")
    for what, names, action in (
            ("a name", ["step0/none"], lambda: out.add("none", query)),
            ("a shape", ["step0/layers.0.query", "[5, 7, 11]", "[5, 7, 12]"],
             lambda: out.add("layers.0.query", query[:, :, :11])),
            ("a cut of another shape", ["step0/layers.0.query"],
             lambda: out.add("layers.0.query", query, cut=[(0, 5), (0, 7), (0, 11)])),
            ("a cut outside", ["step0/layers.0.query"],
             lambda: out.add("layers.0.query", query, cut=[(0, 5), (0, 7), (1, 13)])),
            ("a dimension", ["step0/layers.0.query"],
             lambda: out.add("layers.0.query", query[0], cut=[(0, 7), (0, 12)])),
            ("no rank", ["rank 2 of 2"], lambda: lockstep.Candidate(place, rank=2, ranks=2)),
            ("no ranks", ["rank 2 of None"], lambda: lockstep.Candidate(place, rank=2)),
            ("a place", ["manifest.json"], lambda: lockstep.Candidate(
                os.path.join(golden.path, "manifest.json"), golden).write())):
        refused(checks, what, names, action)


def check_program(checks, folder, golden):
    for words, status, text in (
            ([golden.path], 0, "step 1: 5 forward, 1 backward, 1 update tensors"),
            ([golden.path, "layers.*"], 0, "step1/layers.0.key"),
            ([os.path.join(golden.path, "weights.safetensors")], 0, "F32"),
            (["--help"], 0, "import lockstep"), ([], 2, "import lockstep")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            found = lockstep.main(words)
        checks.that(found == status and text in printed.getvalue(), f"{words}: {printed.getvalue()}")
    odd = os.path.join(folder, "odd.safetensors")
    lockstep.write_safetensors(odd, {"\x1b[31m\x9b\n": np.zeros(2)})
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        lockstep.main([odd])  # what a name has in it does not reach the terminal
    checks.that(printed.getvalue().startswith("\\x1b[31m\\x9b\\n ") and
                printed.getvalue().count("\n") == 1, printed.getvalue())
    os.mkfifo(os.path.join(folder, "pipe"))
    refused(checks, "a pipe", ["pipe", "not a plain file"],
            lambda: lockstep.Safetensors(os.path.join(folder, "pipe")))
    short = lockstep.Golden(golden.path)
    for key in ("program", "engine", "seed"):
        del short.manifest[key]
    checks.that("None" in "".join(lockstep.overview(short)), "a manifest without a program")
    script = os.path.join(sys.argv[1], "tools", "lockstep.py")
    done = subprocess.run([sys.executable, "-B", script, os.path.join(folder, "none")],
                          capture_output=True, text=True, check=False)
    checks.that(done.returncode == 2 and len(done.stderr.splitlines()) == 1 and
                done.stdout == "", f"{done}")
    # Its output is closed, as by `| head -1`.
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-B", script, golden.path, "*"], stdout=writing,
                          stderr=subprocess.PIPE, check=False)
    os.close(writing)
    checks.that(done.returncode == -signal.SIGPIPE and done.stderr == b"", f"{done}")
    # Without NumPy; a program that imports it gets the ImportError.
    with open(os.path.join(folder, "numpy.py"), "w", encoding="utf-8") as file:
        file.write("raise ImportError('no numpy here')\n")
    for words, status, text in (
            ([script, golden.path], 2, "lockstep.py: NumPy is missing: no numpy here"),
            (["-c", "import lockstep"], 1, "ImportError: no numpy here")):
        done = subprocess.run([sys.executable, "-B", *words], capture_output=True, text=True,
                              check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(
                                  [folder, os.path.dirname(script)])})
        checks.that(done.returncode == status and done.stdout == "" and
                    text in done.stderr.splitlines()[-1] and
                    (status == 1 or len(done.stderr.splitlines()) == 1), f"{done}")


# ---- with the program ----

MODELS = {"gpt2-nano": (["--layers", "1", "--steps", "2"], "tp 3 x sp", 3, True),
          "llama-nano": (["--layers", "1", "--batch", "3"], "tp 6", 6, False),
          "bert-nano": (["--layers", "1", "--batch", "2", "--seq", "13"], "tp 2 x sp", 2, True)}


def judged(checks, program, what, golden, place, status, text):
    done = subprocess.run([program, "check", golden.path, place], capture_output=True, text=True,
                          check=False)
    checks.that(done.returncode == status and text in done.stdout,
                f"{what}: status {done.returncode}\n{done.stdout}{done.stderr}")


def check_with_program(checks, folder, program):
    for model, (words, layout, ranks, sp) in MODELS.items():
        place = os.path.join(folder, model)
        done = subprocess.run([program, "dump", place, "--model", model, "--no-truth", *words],
                              capture_output=True, text=True, check=False)
        if not checks.that(done.returncode == 0, f"{model}: {done.stderr}"):
            continue
        golden = lockstep.Golden(place)
        batch = golden.batch(0)
        checks.that(batch.tokens.shape == golden["token_loss"].shape, f"{model}: batch")
        checks.that((batch.order is None) == (model != "bert-nano"), f"{model}: order")
        mask = golden.mask("layers.0.heads", 0)
        checks.that(mask is None if not golden.model["dropout"] else
                    mask.shape == golden["layers.0.probabilities"].shape, f"{model}: mask")
        for name, dtype in (("whole", None), ("bf16", "BF16")):
            out = lockstep.Candidate(os.path.join(folder, name + model), golden)
            for tensor in golden.names():
                out.add(tensor, golden[tensor], dtype=dtype)
            out.write()
            judged(checks, program, f"{model}, {name}", golden, out.folder, 0, ", 0 different")
        # Every rank's part, as the library would cut it: with its cut, and by the layout alone.
        for layout_alone in (False, True):
            for rank in range(ranks):
                out = lockstep.Candidate(os.path.join(folder, f"ranks{layout_alone}-{model}"),
                                         rank=rank, ranks=ranks,
                                         layout=layout if layout_alone else None)
                for tensor in golden.names():
                    cut = golden.cut(tensor, tp=(rank, ranks), sp=(rank, ranks) if sp else None)
                    out.add(tensor, golden[tensor][lockstep.slices(cut)],
                            cut=None if layout_alone else cut)
                out.write()
            judged(checks, program, f"{model}, {layout}, {layout_alone}", golden, out.folder, 0,
                   " equal, 0 explained, 0 different")
        out.tensors["step0/loss"] = out.tensors["step0/loss"] * 2
        out.write()  # the last rank's loss is another
        judged(checks, program, f"{model}, a replica", golden, out.folder, 1, "1 different")


def main():
    checks = Checks()
    check_bf16(checks)
    for check in (check_round_trip, check_hostile):
        with tempfile.TemporaryDirectory() as folder:
            check(checks, folder)
    with tempfile.TemporaryDirectory() as folder:
        golden = check_golden(checks, folder)
        check_candidate(checks, folder, golden)
        check_program(checks, folder, golden)
    if len(sys.argv) > 2:
        with tempfile.TemporaryDirectory() as folder:
            check_with_program(checks, folder, os.path.abspath(sys.argv[2]))
    checks.finish()


if __name__ == "__main__":
    main()
