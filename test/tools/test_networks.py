#!/usr/bin/env python3
"""Networks from the command line: test_networks.py PROGRAM

Drawn images are learnt; images are written as files and read again; a run that stopped goes on with
the same bits; damaged, mixed and missing files, and networks that cannot be, are refused in one
line.
"""
import json
import os
import re
import struct
import sys
import zlib

import program as p

SMALL = {"name": "small", "batch": 6, "network": {
    "channels": 1, "height": 12, "width": 10, "classes": 4, "layers": [
        {"kind": "conv", "channels": 6, "kernel": 3, "padding": 1, "bias": False},
        {"kind": "batch_norm"}, {"kind": "relu"}, {"kind": "max_pool", "kernel": 2, "stride": 2},
        {"kind": "dropout", "p": 0.1}, {"kind": "dense", "channels": 4}]}}
BASE = ["train", "--model", "small.json", "--serial"]


def losses_of(done):
    return [float(loss) for loss in re.findall(r"loss (\S+)", done.out)]


def learning(program, checks):
    """The built-in networks with their defaults."""
    for name, steps, classes in (("alexnet-nano", 20, 10), ("resnet-nano", 40, 16)):
        done = program.run("train", "--model", name, "--serial", "--steps", str(steps))
        losses = losses_of(done)
        checks.that(done.status == 0 and len(losses) == steps and
                    sum(losses[-5:]) < sum(losses[:5]) - 1, f"{name} does not learn\n{done}")
        checks.that(f"{classes} classes" in done.out and "512 with" in done.out and
                    "images/s" in done.out and "tokens" not in done.out, f"{name} says\n{done}")
    done = program.run(*BASE, "--steps", "120", "--lr", "0.02", "--image-count", "40")
    losses = losses_of(done)
    checks.that(losses[-1] < 0.5 * losses[0], f"small does not learn\n{done}")


def runs(program, checks):
    """One digest for one run, others for others; a run that goes on."""
    base = [*BASE, "--image-count", "40", "--steps", "6"]
    first = p.digest(program.run(*base))
    checks.that(p.digest(program.run(*base)) == first, "twice, two digests")
    for other in (["--seed", "7"], ["--batch", "5"], ["--dtype", "f64"], ["--lr", "0.01"],
                  ["--image-count", "41"], ["--label-smoothing", "0.1"], ["--optimizer", "sgd"],
                  ["--clip", "0.1"]):
        done = program.run(*base, *other)
        checks.that(done.status == 0 and p.digest(done) != first, f"{other} changes nothing\n{done}")
    program.run(*base, "--save", "whole.safetensors")
    program.run(*base, "--steps", "2", "--seed", "1234", "--save", "half.safetensors")
    done = program.run(*base, "--load", "half.safetensors", "--save", "rest.safetensors")
    _, whole = p.parse_safetensors(program.read("whole.safetensors"))
    _, rest = p.parse_safetensors(program.read("rest.safetensors"))
    checks.that("goes on from step 2" in done.out and whole == rest, f"another end\n{done}")
    checks.that(any("running_var" in name for name in whole), "no running statistics are saved")
    done = program.run(*base, "--json")
    found = json.loads(done.out)
    checks.that(found["digest"] == first and found["image_count"] == 40 and
                found["images_per_second"] > 0 and found["steps_done"][0]["images"] == 6 and
                "tokens_per_second" not in found and "text" not in found, f"JSON\n{done}")
    done = program.run(*base, "--report", "report")
    page = program.read("report/index.html").decode()
    checks.that(done.status == 0 and "images of 1 x 12 x 10" in page and "nats per image" in page,
                f"report\n{done}")
    done = program.run("train", "--model", "alexnet-nano", "--load", "whole.safetensors", "--serial")
    checks.that(done.status == 2 and "whole.safetensors" in done.err, f"another model\n{done}")


def files(program, checks):
    """images DIR; and train --images with it."""
    done = program.run("images", "drawn", "--model", "small.json", "--image-count", "41")
    labels = sorted(os.listdir(os.path.join(program.folder, "drawn")))
    checks.that(done.status == 0 and "41 images of 4 labels" in done.out and
                labels == ["0", "1", "2", "3"], f"images\n{done}{labels}")
    found = {name for label in labels
             for name in os.listdir(os.path.join(program.folder, "drawn", label))}
    checks.that(len(found) == 41 and all(re.fullmatch(r"0000\d\d\.(png|pgm)", name)
                                         for name in found), f"files {found}")
    done = program.run("images", "drawn", "--model", "small.json")
    checks.that(done.status == 2 and "drawn: is there already" in done.err, f"again\n{done}")
    program.run("images", "same", "--model", "small.json", "--image-count", "41")
    program.run("images", "other", "--model", "small.json", "--image-count", "41", "--seed", "9")
    base = [*BASE, "--steps", "3", "--images"]
    first = program.run(*base, "drawn")
    checks.that(first.status == 0 and "drawn, 41 with 4 labels" in first.out, f"read\n{first}")
    checks.that(p.digest(program.run(*base, "same")) == p.digest(first), "same images, two digests")
    checks.that(p.digest(program.run(*base, "other")) != p.digest(first), "other images, one digest")


def png(height, width):
    """A grey one, all dark."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))
    body = zlib.compress(bytes((width + 1) * height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0,
                                                            0, 0)) + \
        chunk(b"IDAT", body) + chunk(b"IEND", b"")


def pgm(height, width):
    return b"P5\n%d %d\n255\n" % (width, height) + bytes(height * width)


def make_set(program, name, **of_labels):
    for label, data in of_labels.items():
        place = os.path.join(program.folder, name, label)
        os.makedirs(place)
        for number, content in enumerate(data):
            kind = "png" if content.startswith(b"\x89PNG") else "pgm"
            with open(os.path.join(place, f"{number}.{kind}"), "wb") as file:
                file.write(content)


def bad_images(program, checks):
    good = [pgm(12, 10)]
    make_set(program, "good", a=good, b=good)
    make_set(program, "mixed", a=good, b=[pgm(12, 10), pgm(10, 12)])
    make_set(program, "cut", a=good, b=[pgm(12, 10)[:-1]])
    make_set(program, "long", a=good, b=[pgm(12, 10) + b"x"])
    make_set(program, "damaged", a=good, b=[png(12, 10)[:48]])
    make_set(program, "spoilt", a=good, b=[png(12, 10)[:-20] + bytes(20)])
    make_set(program, "size", a=[pgm(32, 32)])
    make_set(program, "many", **{name: good for name in "abcde"})
    make_set(program, "hollow", a=good, b=[])
    os.makedirs(os.path.join(program.folder, "nothing"))
    done = program.run(*BASE, "--images", "good", "--steps", "2")
    checks.that(done.status == 0, f"good\n{done}")
    for folder, *names in (("mixed", "mixed/b/1.pgm", "one size"), ("cut", "cut/b/0.pgm"),
                           ("long", "long/b/0.pgm"), ("damaged", "damaged/b/0.png"),
                           ("spoilt", "spoilt/b/0.png"), ("hollow", "hollow/b"),
                           ("size", "size", "1 x 32 x 32", "1 x 12 x 10"),
                           ("many", "many", "5 labels", "4 classes"), ("nothing", "nothing"),
                           ("absent", "absent"), ("small.json", "small.json"), ("good/a", "good/a")):
        refused(program, checks, [*BASE, "--images", folder], *names)
    refused(program, checks, [*BASE, "--images", ""], "--images", "empty")


def refused(program, checks, words, *names):
    done = program.run(*words)
    checks.that(done.status == 2 and done.out == "" and done.err.count("\n") == 1 and
                all(name in done.err for name in names), f"{words}: {names}\n{done}")


def bad_networks(program, checks):
    """What a description of layers can say wrong."""
    def changed(change):
        model = json.loads(json.dumps(SMALL))
        change(model["network"], model["network"]["layers"])
        program.write("bad.json", json.dumps(model).encode())
    for change, *names in (
            (lambda n, l: l[0].update(kernel=15), "conv0", "15"),
            (lambda n, l: l[0].update(kernel=0), "conv0", "kernel 0"),
            (lambda n, l: l[0].update(stride=0), "conv0", "stride 0"),
            (lambda n, l: l[0].update(groups=4), "conv0", "groups 4"),
            (lambda n, l: l[5].update(channels=3), "3", "4"),
            (lambda n, l: n.update(classes=0), "classes 0"),
            (lambda n, l: n.update(height=0), "height 0"),
            (lambda n, l: l[4].update(p=1), "dropout4", "p 1"),
            (lambda n, l: l[2].update(kind="gelu"), "gelu")):
        changed(change)
        refused(program, checks, ["train", "--model", "bad.json", "--serial"], "bad.json", *names)
    changed(lambda n, l: l.insert(4, {"kind": "global_pool"}) or l.insert(5, {"kind": "batch_norm"}))
    refused(program, checks, ["train", "--model", "bad.json", "--serial", "--batch", "1"],
            "batch_norm5", "1 values")
    changed(lambda n, l: n.update(channels=2))
    refused(program, checks, ["train", "--model", "bad.json", "--serial"], "channels")
    changed(lambda n, l: n.update(height=7))
    refused(program, checks, ["train", "--model", "bad.json", "--serial"], "--image-count")


def main(program, checks):
    program.write("small.json", json.dumps(SMALL).encode())
    for part in (runs, files, bad_images, bad_networks, learning):
        part(program, checks)


if __name__ == "__main__":
    p.in_folder(main)
