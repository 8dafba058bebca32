#!/usr/bin/env python3
"""Golden directories of networks from outside: test_net_golden.py ROOT PROGRAM

Candidates whose blocks follow from their layout alone, [N, C] for one pixel, a picture of where an
image is wrong; and directories and candidates that are refused in one line. Skipped where NumPy is
missing.
"""
import hashlib
import json
import os
import shutil
import sys
import tempfile

from program import Checks, Program, seal, start_with

start_with("numpy")
ROOT, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(ROOT, "tools"))
import numpy as np  # pylint: disable=wrong-import-position
import lockstep  # pylint: disable=wrong-import-position

MODEL = os.path.join(ROOT, "test", "golden", "small_net.json")


def dump(program, checks, place, *words):
    done = program.run("dump", place, "--model", MODEL, "--image-count", "20", "--no-truth",
                       *(() if "--batch" in words else ("--batch", "4")), *words)
    checks.that(done.status == 0, "dump %s\n%s" % (" ".join(words), done))
    return lockstep.Golden(os.path.join(program.folder, place))


def in_blocks(program, checks):
    """Every rank's blocks, cut here by the words of the layout; no cut is written down."""
    golden = dump(program, checks, "golden")
    names = ["conv1", "d.pool", "norm1", "relu4", "dense2", "norm1.batch_mean", "image_loss",
             "grad.conv1.weight", "loss"]
    os.mkdir(program.folder + "/blocks")
    for rank in range(8):
        d, (down, across) = rank // 4, divmod(rank % 4, 2)
        tensors = {}
        for name in names:
            if name in ("dense2", "image_loss", "relu4"):  # a run of images each; 4 for 8 ranks
                cut = golden.cut(name, dp=(rank, 8))
            else:
                cut = golden.cut(name, dp=(d, 2), down=(down, 2), across=(across, 2))
            tensors["step0/" + name] = golden[name][lockstep.slices(cut)]
        lockstep.write_safetensors(
            "%s/blocks/rank-%03d.safetensors" % (program.folder, rank), tensors,
            {"rank": str(rank), "ranks": "8", "layout": "dp 2 x spatial 2x2"})
    done = program.run("check", "golden", "blocks")
    checks.that(done.status == 0 and "%d equal, 0 explained, 0 different" % len(names) in done.out,
                "blocks by layout\n%s" % done)


def shapes(program, checks):
    golden = lockstep.Golden(program.folder + "/golden")
    one = golden["dense2"]
    lockstep.write_safetensors(program.folder + "/flat.safetensors", {
        "dense2": one.reshape(one.shape[:2]), "conv1": golden["conv1"]})
    done = program.run("check", "golden", "flat.safetensors")
    checks.that(done.status == 0 and "2 equal" in done.out, "[N, C]\n%s" % done)
    for name, array, words in (
            ("dense2", one.reshape(-1), ["dense2", "shape 20;", "4 x 5 x 1 x 1"]),
            ("conv1", golden["conv1"][:, :, :, :4], ["conv1", "4 x 4 x 9 x 4", "4 x 4 x 9 x 8"]),
            ("grad.conv1.weight", golden["grad.conv1.weight"].reshape(4, 27),
             ["grad.conv1.weight", "4 x 27", "4 x 3 x 3 x 3"]),
            ("grad.norm1.running_mean", np.zeros(4, "f4"), ["norm1.running_mean"])):
        lockstep.write_safetensors(program.folder + "/odd.safetensors", {name: array})
        refused(checks, program.run("check", "golden", "odd.safetensors"), words)
    wrong = golden["conv1"].copy()
    wrong[:, :, 4, :] += 1
    lockstep.write_safetensors(program.folder + "/wrong.safetensors", {"conv1": wrong})
    done = program.run("check", "golden", "wrong.safetensors", "--show", "conv1")
    picture = [line.strip() for line in done.out.splitlines()
               if line.strip() and set(line.strip()) <= set(".:+#")]
    checks.that(done.status == 1 and picture == ["." * 8] * 4 + ["#" * 8] + ["." * 8] * 4,
                "a row of an image drawn\n%s" % done)


def statistics(program, checks):
    """Backward through a batch norm by other statistics, of two ranks with 3 and 2 images."""
    dump(program, checks, "five", "--batch", "5")
    golden = lockstep.Golden(program.folder + "/five")
    x, dy = (golden[name].astype("f8") for name in ("conv1", "d.norm1"))
    scale = golden.weights["norm1.weight"].astype("f8")
    pixels, axes = x.shape[2] * x.shape[3], (0, 2, 3)
    parts = (slice(0, 3), slice(3, 5))
    each = lambda values: values[..., None, None]

    def backward(mean, variance, own):
        rstd = 1 / np.sqrt(variance + 1e-5)
        xhat, dx = (x - each(mean)) * each(rstd), np.empty_like(x)
        for part in parts if own else (slice(0, 5),):
            count = pixels * len(x[part])
            shift, by = (values[part].sum(axes) / count for values in (dy, dy * xhat))
            dx[part] = each(scale * rstd[part]) * (
                dy[part] - each(shift) - xhat[part] * each(by))
        return {"d.conv1": dx, "grad.norm1.weight": (dy * xhat).sum(axes)}

    means = np.stack([x[part].mean(axes) for part in parts])
    local = np.stack([x[part].var(axes) for part in parts])
    mean = np.broadcast_to(means.mean(0), (5, len(scale)))
    about = np.mean([((x[part] - each(mean[part])) ** 2).mean(axes) for part in parts], 0)
    images = [0, 0, 0, 1, 1]
    whole = np.broadcast_to(x.mean(axes), (5, len(scale)))
    right = np.broadcast_to(x.var(axes), (5, len(scale)))
    for words, made in (
            (None, backward(whole, right, False)),
            ("local batch-norm statistics", backward(means[images], local[images], True)),
            ("local batch-norm statistics", backward(means[images], local[images], False)),
            ("averaged with unequal counts", backward(mean, mean * 0 + about, False)),
            ("averaged with unequal counts", backward(mean, mean * 0 + local.mean(0), False))):
        for name, values in made.items():
            lockstep.write_safetensors(program.folder + "/back.safetensors", {
                "conv1": golden["conv1"], "d.norm1": golden["d.norm1"],
                name: values.astype("f4")})
            done = program.run("check", "five", "back.safetensors")
            checks.that(done.status == (1 if words else 0) and (words or "") in done.out,
                        "%s, %s\n%s" % (name, words, done))


def refused(checks, done, words):
    checks.that(done.status == 2 and done.err.count("\n") == 1 and
                all(word in done.err for word in words), "%s\n%s" % (words, done))


def changed(program, change, rewrite=None):
    """A copy of the golden directory whose manifest and batch are changed, digests and all."""
    place = program.folder + "/changed"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(program.folder + "/golden", place)
    if rewrite:
        tensors = dict(lockstep.Safetensors(place + "/batch.safetensors"))
        lockstep.write_safetensors(place + "/batch.safetensors", rewrite(
            {name: array.copy() for name, array in tensors.items()}))
    with open(place + "/manifest.json", encoding="utf-8") as file:
        manifest = json.load(file)
    with open(place + "/batch.safetensors", "rb") as file:
        data = file.read()
    manifest["files"]["batch.safetensors"] = {"bytes": len(data),
                                              "sha256": hashlib.sha256(data).hexdigest()}
    change(manifest)
    seal(manifest)
    with open(place + "/manifest.json", "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    return program.run("check", "changed", "flat.safetensors")


def hostile(program, checks):
    def at(key, index, value):
        def rewrite(tensors):
            tensors[key].reshape(-1)[index] = value
            return tensors
        return rewrite

    def put(key, value):
        return lambda tensors: {**tensors, key: value}

    def without(key):
        return lambda tensors: {name: array for name, array in tensors.items() if name != key}

    def layout(**fields):
        return lambda manifest: manifest["layout"].update(fields)

    images, labels, same = "step0/images", "step0/labels", lambda manifest: None
    checks.that(changed(program, same, dict).status == 0, "unchanged")
    for rewrite, words in (
            (at(images, 7, np.nan), ["images", "nan", "element 7"]),
            (at(labels, 2, 5), ["labels", "5 at element 2", "0 to 4"]),
            (at(labels, 2, -100), ["labels", "-100 at element 2"]),
            (without(images), ["no tensor step0/images"]),
            (without(labels), ["no tensor step0/labels"]),
            (put(images, np.zeros((4, 3, 8, 9), "f4")), ["4 x 3 x 8 x 9", "4 x 3 x 9 x 8"]),
            (put(images, np.zeros((4, 3, 9, 8), "f8")), ["F64", "F32"]),
            (put(labels, np.zeros(4, "f4")), ["labels", "F32"])):
        refused(checks, changed(program, same, rewrite), words)
    grid = {"layer": 0, "samples": 2, "down": 1, "across": 1, "channels": 1}
    for change, words in (
            (layout(down=2), ["layout.text", "one rank", "spatial 2x1"]),
            (layout(down=0), ["layout.down"]), (layout(across="2"), ["layout.across"]),
            (layout(overlap=1), ["layout.overlap"]), (layout(strategies={}), ["strategies"]),
            (layout(strategies=[1]), ["strategies[0]"]),
            (layout(strategies=[dict(grid, layer=-1)]), ["strategies.layer"]),
            (layout(strategies=[dict(grid, samples=1 << 40)]), ["strategies.samples"]),
            (layout(strategies=[grid] * 100), ["strategies", "100"]),
            (lambda manifest: manifest["tensors"][0].update(dims="N C H W"), ["conv1", "dims"]),
            (lambda manifest: manifest["model"]["network"].update(row_granules=0),
             ["row_granules"])):
        refused(checks, changed(program, change), words)
    refused(checks, program.run("dump", "integers", "--model", MODEL, "--integers"),
            ["--integers", "transformer"])
    with open(MODEL, encoding="utf-8") as file:
        bad = json.load(file)
    bad["network"]["layers"][2]["name"] = "loss"
    bad["network"]["layers"][5]["beside"] = "loss"
    program.write("bad.json", json.dumps(bad))
    done = program.run("dump", "refused", "--model", "bad.json")
    refused(checks, done, ["two tensors", "loss"])
    checks.that(not done.left, "nothing is left: %s" % done.left)


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        program = Program(PROGRAM, folder)
        in_blocks(program, checks)
        shapes(program, checks)
        statistics(program, checks)
        hostile(program, checks)
    checks.finish()


if __name__ == "__main__":
    main()
