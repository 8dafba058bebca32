#!/usr/bin/env python3
"""`lockstep check` from outside: test_check_command.py PROGRAM

A golden directory, candidates made from it, what is said of them and with which exit status, to
people and as JSON.
"""
import array
import json
import os
import re
import shutil
import signal
import subprocess
import time

import program as p

MODEL = ["--layers", "2", "--d-model", "24", "--heads", "6", "--kv-heads", "6", "--d-ff", "30",
         "--seq", "7", "--vocab", "256", "--batch", "3"]


def path(program, *names):
    return os.path.join(program.folder, *names)


def tensors_of(program, file):
    return p.parse_safetensors(program.read(file))


def write_tensors(program, name, tensors, metadata=None):
    """tensors: {name: (dtype, shape, bytes)}"""
    header, body = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for key, (dtype, shape, data) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape,
                       "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    os.makedirs(os.path.dirname(path(program, name)) or ".", exist_ok=True)
    program.write(name, p.make_safetensors(header, body))


def floats(data):
    return array.array("f", data)


def in_bf16(tensor):
    """A tensor of binary32, rounded."""
    bits = array.array("I", tensor[2])
    return "BF16", tensor[1], array.array("H", (
        (b + 0x7fff + (b >> 16 & 1)) >> 16 & 0xffff for b in bits)).tobytes()


def times(factor, tensor):
    return *tensor[:2], array.array("f", (v * factor for v in floats(tensor[2]))).tobytes()


def changed(program, golden, file, name, change):
    """A candidate that is `golden` but for one tensor; change(values) in place."""
    shutil.rmtree(path(program, "changed"), ignore_errors=True)
    shutil.copytree(path(program, golden), path(program, "changed"))
    metadata, tensors = tensors_of(program, f"{golden}/{file}")
    values = floats(tensors[name][2])
    change(values)
    tensors[name] = (*tensors[name][:2], values.tobytes())
    write_tensors(program, f"changed/{file}", tensors, metadata)
    return "changed"


def expect(program, checks, words, status, *texts):
    done = program.run("check", *words)
    checks.that(done.status == status, f"check {words}: status {done.status}\n{done}")
    for text in texts:
        checks.that(text in (done.err if status == 2 else done.out), f"check {words}: no {text!r}\n"
                    f"{done}")
    if status < 2:
        found = re.fullmatch(r"check: (\d+) tensors?, \d+ equal, \d+ explained, \d+ different"
                             r"(?:; \d+ of the explained not judged)?"
                             r"(; (\d+) of (\d+) tensors given, --complete asks for all)?",
                             p.last_line(done.out))
        checks.that(found is not None and (not found[2] or (found[1] == found[3] and
                                                            int(found[3]) < int(found[4]))),
                    f"last line\n{done}")
        checks.that(done.err == "", f"check {words}: words on stderr\n{done}")
    else:
        checks.that(done.out == "" and len(done.err.splitlines()) == 1, f"check {words}\n{done}")
    return done


def as_json(program, checks, words, status):
    done = program.run("check", *words, "--json")
    checks.that(done.status == status, f"check {words} --json: status {done.status}\n{done}")
    plain = program.run("check", *words)
    checks.that(done.err == plain.out, f"check {words}: --json says other words\n{done}")
    return json.loads(done.out)


def equal(program, checks):
    done = expect(program, checks, ["golden", "golden"], 0, "golden     golden: gpt2-nano",
                  "one rank, portable, f32, seed 1234; 2 steps from 0")
    count = int(p.last_line(done.out).split()[1])
    checks.that(count > 300 and p.last_line(done.out) ==
                f"check: {count} tensors, {count} equal, 0 explained, 0 different", f"{done}")
    expect(program, checks, ["golden", "golden", "--complete", "--digests"], 0)
    found = as_json(program, checks, ["golden", "golden"], 0)
    checks.that((found["count"], found["equal"], found["different"]) == (count, count, 0), "counts")
    checks.that(found["first"] is None and found["findings"] == [], "a finding of nothing")
    checks.that(len(found["tensors"]) == count and
                all(t["verdict"] == "equal" for t in found["tensors"]), "verdicts")
    # What the ranks of a layout held, put together.
    program.run("dump", "ranked", *MODEL, "--steps", "2", "--tp", "3", "--dp", "2", "--sp",
                "--per-rank")
    os.makedirs(path(program, "only-ranks"))
    shutil.move(path(program, "ranked", "ranks"), path(program, "only-ranks", "ranks"))
    found = as_json(program, checks, ["golden", "only-ranks"], 0)
    checks.that(found["equal"] == count and found["candidate_layout"] == "dp 2 x tp 3, sp"
                and found["passed_over"] > 0, f"ranks: {found['candidate_layout']}")
    done = expect(program, checks, ["golden", "only-ranks", "--show", "layers.0.query"], 0,
                  "shape      3 x 7 x 24 (B S D[tp])", "put together from 6 files",
                  "rank 5, micro-batch 0: 2:3 0:7 16:24", "verdict    equal")
    return count


def explained(program, checks, count):
    done = program.run("dump", "f64", *MODEL, "--steps", "2", "--dtype", "f64")
    checks.that(done.status == 0, f"dump\n{done}")
    found = as_json(program, checks, ["golden", "f64"], 0)
    checks.that(found["explained"] > count // 2 and found["different"] == 0, "f64")
    for tensor in found["tensors"]:
        if tensor["verdict"] == "explained":
            checks.that(tensor["local"] == "within" and tensor["precision"] == "f64"
                        and tensor["outside"] == 0 and tensor["differing"] > 0, f"{tensor}")
    # bf16: a tensor rounded is the golden one.
    tensors = {}
    for name, tensor in tensors_of(program, "golden/forward.safetensors")[1].items():
        tensors[name] = in_bf16(tensor)
    write_tensors(program, "bf16.safetensors", tensors)
    done = expect(program, checks, ["golden", "bf16.safetensors"], 0, "in bf16")
    checks.that(", 0 explained, 0 different" in p.last_line(done.out), f"rounded\n{done}")
    if "openblas" in p.engines_of(program):
        program.run("dump", "blas", *MODEL, "--steps", "2", "--gemm", "openblas")
        expect(program, checks, ["golden", "blas"], 0, ", 0 different")
        # What the optimizer keeps is rounded step after step.
        many_steps = [*MODEL, "--layers", "1", "--optimizer", "sgd", "--lr", "0.1", "--steps", "16",
                      "--no-truth"]
        program.run("dump", "many-golden", *many_steps)
        program.run("dump", "many-blas", *many_steps, "--gemm", "openblas")
        expect(program, checks, ["many-golden", "many-blas"], 0, ", 0 different")


def different(program, checks, count):
    name = "step0/layers.1.attention"

    def some(values):
        for i in range(2 * 24, 4 * 24):
            values[i] += 0.25
    candidate = changed(program, "golden", "forward.safetensors", name, some)
    done = expect(program, checks, ["golden", candidate], 1, f"first difference: {name}",
                  f"{name}  different: error/bound ", "48 of 504 outside; wrong by itself",
                  "first [0, 2, 0]: ", "0x1.", "what reads it is right", "suspected cause: none",
                  f"it is off in B only 0 of 3; S[sp] only 2 to 3 of 7; D all 24; --show {name} "
                  "draws it",
                  f"check: {count} tensors, {count - 1} equal, 0 explained, 1 different")
    found = as_json(program, checks, ["golden", candidate], 1)
    checks.that(found["first"] == name and found["blame"] == name and found["different"] == 1
                and len(found["findings"]) == 1, f"{found['first']}, {found['blame']}")
    tensor = next(t for t in found["tensors"] if t["name"] == name)
    checks.that(tensor["verdict"] == "different" and tensor["local"] == "outside" and tensor["aside"]
                and tensor["first"] == [0, 2, 0] and tensor["outside"] == 48
                and tensor["differing"] == 48 and not tensor["misplaced"], f"{tensor}")
    checks.that(float.fromhex(tensor["candidate_hex"]) == tensor["candidate"] and
                abs(tensor["candidate"] - tensor["golden"] - 0.25) < 1e-6 and
                abs(tensor["right"] - tensor["golden"]) < 1e-5, f"{tensor}")
    checks.that(tensor["candidate_hex"] in done.out and tensor["golden_hex"] in done.out, "values")

    done = expect(program, checks, ["golden", candidate, "--show", name], 1,
                  "shape      3 x 7 x 24 (B S[sp] D)", "is         x W + b; from layers.1.heads",
                  "with layers.1.attention.output.weight, layers.1.attention.output.bias",
                  "48 of 504 elements lie outside", "B: only 0 of 3", "S[sp]: only 2 to 3 of 7",
                  "D: all 24", "\n    " + "#" * 24 + "\n", "\n    " + "." * 24 + "\n")
    look = as_json(program, checks, ["golden", candidate, "--show", "layers.1.attention"], 1)["show"]
    checks.that(look["off"] == 48 and look["right_is_local"] and len(look["worst"]) == 5
                and look["dimensions"][1]["touched"] == 2, f"{look['dimensions']}")
    checks.that(sum(cell > 0 for row in look["grid"] for cell in row) == 24 * len(
        [row for row in look["grid"] if any(row)]), "the picture")

    # NaN, in a gradient.
    def nan(values):
        values[5] = float("nan")
    candidate = changed(program, "golden", "backward.safetensors", "step1/d.layers.0.up", nan)
    expect(program, checks, ["golden", candidate], 1, "first difference: step1/d.layers.0.up",
           "nan or inf misplaced", "first [0, 0, 5]: nan, golden ")
    found = as_json(program, checks, ["golden", candidate], 1)
    tensor = next(t for t in found["tensors"] if t["name"] == "step1/d.layers.0.up")
    checks.that(tensor["misplaced"] and tensor["candidate"] == "nan" and tensor["outside"] == 1,
                f"{tensor}")
    # Elsewhere nothing is looked at.
    expect(program, checks, ["golden", candidate, "--only", "*.query"], 0)
    expect(program, checks, ["golden", candidate, "--only", "step0/*"], 0)
    expect(program, checks, ["golden", candidate, "--only", "d.layers.?.up"], 1)


def many(program, checks):
    """So many differences that a screen would not hold them; every one with --all."""
    program.run("dump", "other", *MODEL, "--steps", "2", "--seed", "5")
    # As it is, it is the golden directory of another run, and says so.
    expect(program, checks, ["golden", "other"], 2, "of a run that began otherwise")
    for name in ("manifest.json", "weights.safetensors", "batch.safetensors"):
        os.remove(path(program, "other", name))
    done = expect(program, checks, ["golden", "other"], 1, "--all lists them", "mistake 1: ",
                  "most operations are wrong by themselves")
    lines = len(done.out.splitlines())
    checks.that(lines < 70, f"{lines} lines\n{done}")
    checks.that(all(len(line) < 400 for line in done.out.splitlines()), "long lines")
    every = expect(program, checks, ["golden", "other", "--all"], 1)
    checks.that(len(every.out.splitlines()) > 500 and "--all lists" not in every.out, "--all")


def parts(program, checks, count):
    tensors = tensors_of(program, "golden/forward.safetensors")[1]
    some = {name.split("/")[1]: tensors[name] for name in ("step0/logits", "step0/loss")}
    write_tensors(program, "some.safetensors", some)
    expect(program, checks, ["golden", "some.safetensors"], 0,
           "check: 2 tensors, 2 equal, 0 explained, 0 different; "
           f"2 of {count} tensors given, --complete asks for all")
    facts = as_json(program, checks, ["golden", "some.safetensors"], 0)
    checks.that(facts["count"] == 2 and facts["wanted"] == count, f"{facts['wanted']} are wanted")
    one = {"step0/loss": tensors["step0/loss"]}
    write_tensors(program, "one.safetensors", one)
    expect(program, checks, ["golden", "one.safetensors"], 0, "check: 1 tensor, 1 equal, ",
           f"1 of {count} tensors given")
    # Of what --only names, everything is there.
    done = expect(program, checks, ["golden", "one.safetensors", "--only", "step0/loss"], 0)
    checks.that("given" not in p.last_line(done.out), f"--only\n{done}")
    expect(program, checks, ["golden", "some.safetensors", "--complete"], 2,
           "some.safetensors: step0/embedding is missing", f"--complete wants all {count}, 2 are")
    # Other names for parameters.
    program.run("dump", "trained", *MODEL, "--steps", "2", "--start", "training", "--no-truth")
    done = program.run("train", *MODEL, "--steps", "2", "--save", "hf.safetensors", "--names", "hf")
    checks.that(done.status == 0, f"train\n{done}")
    done = expect(program, checks, ["trained", "hf.safetensors", "--map", "hf"], 0)
    checks.that(int(p.last_line(done.out).split()[3]) > 20, f"Hugging Face's names\n{done}")


def written_finer(program, checks):
    """A program in bf16 that writes some tensors in f32: without what they are made of nothing
    about them says that they were computed in bf16. The verdict stays, a line says what would."""
    forward = tensors_of(program, "golden/forward.safetensors")[1]
    backward = tensors_of(program, "golden/backward.safetensors")[1]
    coarse = {name: in_bf16(tensor) for name, tensor in backward.items()
              if name.startswith("step0/grad.")}
    loss, table = "step0/loss", "step0/grad.token_embedding.weight"
    rounded = {loss: times(1.001, forward[loss]), table: times(1.002, backward[table])}
    hint = "most of this candidate's forward and backward tensors are in bf16: if this one was " \
        "computed from such, say --computed bf16"

    def judge(tensors, status, *words):
        write_tensors(program, "finer.safetensors", tensors)
        command = ["golden", "finer.safetensors", *words]
        findings = as_json(program, checks, command, status)["findings"]
        return expect(program, checks, command, status).out, findings
    # Weights are updated in f32: that does not count.
    update = tensors_of(program, "golden/update.safetensors")[1]
    for names, more in (([loss], {}), ([loss, table], {}), ([loss], update)):
        tensors = {**coarse, **more, **{name: rounded[name] for name in names}}
        out, findings = judge(tensors, 1)
        checks.that(out.count(hint) == 1 and f"{len(names)} different; " in p.last_line(out) and
                    [f["if_computed"] for f in findings] == ["bf16"], f"{findings}\n{out}")
        judge(tensors, 0, "--computed", "bf16")
    # Not where the inputs are there in f32, where most are in f32, or where the user has said it.
    for tensors, words in (({**coarse, "step0/token_loss": forward["step0/token_loss"],
                             loss: rounded[loss]}, ()),
                           ({**{name: backward[name] for name in coarse}, loss: rounded[loss]}, ()),
                           ({**coarse, loss: rounded[loss]}, ("--computed", "f32"))):
        out, findings = judge(tensors, 1, *words)
        checks.that("if this one" not in out and [f["if_computed"] for f in findings] == [None],
                    f"{words} {findings}\n{out}")


def not_judged(program, checks):
    """In bf16 rounding alone may change this one by a tenth: where it is all that is given, nothing
    was judged, which is no success."""
    gradients = tensors_of(program, "golden/backward.safetensors")[1]
    name, other = "step1/grad.layers.0.norm2.weight", "step1/grad.final_norm.bias"
    tensors = {name: in_bf16(times(1.02, gradients[name]))}
    write_tensors(program, "alone.safetensors", tensors)
    done = expect(program, checks, ["golden", "alone.safetensors"], 1,
                  f"{name}  not judged: rounding alone may change it by ",
                  "1 explained, 0 different; 1 of the explained not judged; ")
    checks.that(done.out.splitlines()[-3:-1] ==
                ["nothing was judged: give the inputs of these operations", ""]
                and "explained: " not in done.out, f"{done}")
    facts = as_json(program, checks, ["golden", "alone.safetensors"], 1)
    checks.that((facts["count"], facts["unjudged"], facts["different"]) == (1, 1, 0), f"{facts}")
    expect(program, checks, ["golden", "alone.safetensors", "--show", name], 1,
           "verdict    not judged; ")
    write_tensors(program, "two.safetensors", {**tensors, other: in_bf16(gradients[other])})
    done = expect(program, checks, ["golden", "two.safetensors"], 0, "not judged: rounding")
    checks.that("nothing was judged" not in done.out, f"{done}")


def to_bf16(data):
    """Of numbers that are numbers of bf16."""
    return b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))


def integers(program, checks):
    """Linear operations on small integers: equal in any format, or different; inputs are given."""
    done = program.run("dump", "integers", "--integers", *MODEL)
    checks.that(done.status == 0, f"dump\n{done}")
    tensors = {}
    for file in ("forward", "backward"):
        for name, (_, shape, data) in tensors_of(program,
                                                 f"integers/{file}.safetensors")[1].items():
            tensors[name] = ("BF16", shape, to_bf16(data))
    write_tensors(program, "small.safetensors", tensors)
    done = expect(program, checks, ["integers", "small.safetensors"], 0, ", integers",
                  f"check: {len(tensors)} tensors, {len(tensors)} equal")
    # A bias once too often, in one tensor; what it is made of was given.
    name, bias = "step0/layers.1.attention", "layers.1.attention.output.bias"
    values = floats(tensors_of(program, "integers/forward.safetensors")[1][name][2])
    added = floats(tensors_of(program, "integers/weights.safetensors")[1][bias][2])
    for i in range(len(values)):
        values[i] += added[i % len(added)]
    write_tensors(program, "twice.safetensors",
                  {name: ("F32", tensors[name][1], values.tobytes())})
    found = as_json(program, checks, ["integers", "twice.safetensors"], 1)
    checks.that((found["count"], found["different"], found["explained"]) == (1, 1, 0), "counts")
    checks.that(found["blame"] == name and found["findings"][0]["cause"] == "bias-per-rank",
                f"{found['findings']}")
    # An input that is not the one that was given.
    _, shape, data = tensors_of(program, "integers/inputs.safetensors")[1]["step0/layers.1.heads"]
    values = floats(data)
    values[3] += 1
    write_tensors(program, "input.safetensors",
                  {"step0/layers.1.heads": ("F32", shape, values.tobytes())})
    expect(program, checks, ["integers", "input.safetensors"], 1, "not what was given",
           "first [0, 0, 3]: ")


def refused(program, checks):
    tensors = tensors_of(program, "golden/forward.safetensors")[1]
    dtype, shape, data = tensors["step0/loss"]
    write_tensors(program, "shape.safetensors", {"step0/loss": (dtype, [2], data + data)})
    write_tensors(program, "name.safetensors", {"step0/los": (dtype, shape, data)})
    expect(program, checks, [], 2, "GOLDEN (a folder", "is missing; usage: lockstep check GOLDEN")
    expect(program, checks, ["golden"], 2, "CANDIDATE (a folder", "is missing; usage: lockstep check GOLDEN")
    expect(program, checks, ["golden", "golden", "golden"], 2)
    expect(program, checks, ["missing", "golden"], 2, "missing")
    expect(program, checks, ["golden", "missing"], 2, "missing")
    expect(program, checks, ["golden", "golden", "--oly", "x"], 2, "--oly", "--only")
    expect(program, checks, ["golden", "golden", "--map", "huf"], 2, "--map huf")
    expect(program, checks, ["golden", "golden", "--only", "nothing*"], 2,
           "--only nothing*: the golden directory has no such tensor")
    expect(program, checks, ["golden", "golden", "--show", "layers.0.quer"], 2,
           "--show layers.0.quer", "is layers.0.query meant?")
    expect(program, checks, ["golden", "golden", "--computed", "fp8"], 2, "--computed")
    expect(program, checks, ["golden", "shape.safetensors"], 2, "loss")
    expect(program, checks, ["golden", "name.safetensors"], 2, "los")
    # A golden directory that was damaged.
    shutil.copytree(path(program, "golden"), path(program, "damaged"))
    data = bytearray(program.read("damaged/forward.safetensors"))
    data[-1] ^= 0x10
    program.write("damaged/forward.safetensors", bytes(data))
    expect(program, checks, ["damaged", "golden"], 2, "not those of the manifest")
    expect(program, checks, ["damaged", "damaged", "--digests"], 2)
    done = program.run("check", "--help")
    checks.that(done.status == 0 and "GOLDEN CANDIDATE" in done.out and "--show" in done.out,
                f"help\n{done}")


def interrupted(program, checks):
    """Ctrl-C while operations are computed again."""
    words = ["--seq", "48", "--batch", "16", "--no-truth"]
    program.run("dump", "large", *words)
    program.run("dump", "large64", *words, "--dtype", "f64")
    for wait in (0.2, 0.5, 0.1, 0.05):
        running = subprocess.Popen([program.path, "check", "large", "large64"], cwd=program.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(wait)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
        if running.returncode == 130:
            break
    checks.that(running.returncode == 130 and err == b"lockstep: interrupted\n",
                f"Ctrl-C: status {running.returncode}\n{err}")


def main(program, checks):
    done = program.run("dump", "golden", *MODEL, "--steps", "2")
    checks.that(done.status == 0, f"dump\n{done}")
    count = equal(program, checks)
    explained(program, checks, count)
    different(program, checks, count)
    many(program, checks)
    parts(program, checks, count)
    written_finer(program, checks)
    not_judged(program, checks)
    integers(program, checks)
    refused(program, checks)
    interrupted(program, checks)


if __name__ == "__main__":
    p.in_folder(main)
