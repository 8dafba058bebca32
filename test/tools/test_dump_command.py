#!/usr/bin/env python3
"""lockstep dump from outside: test_dump_command.py PROGRAM

What it writes is what the manifest says, whatever the layout; it replaces a golden directory and
nothing else; refusals are one line; a signal in the middle leaves nothing.
"""
import hashlib
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import time

import program as p

FILES = {"manifest.json", "order.txt", "weights.safetensors", "batch.safetensors",
         "masks.safetensors", "forward.safetensors", "backward.safetensors", "update.safetensors"}
ITEM_BYTES = {"F32": 4, "F64": 8, "I32": 4, "U8": 1}


def tensors_of(program, name):
    """{name: (dtype, shape, bytes)} and the metadata of a safetensors file; its layout checked."""
    data = program.read(name)
    metadata, tensors = p.parse_safetensors(data)
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    runs = []
    for tensor, (dtype, shape, _) in tensors.items():
        begin, end = header[tensor]["data_offsets"]
        assert end - begin == math.prod(shape) * ITEM_BYTES[dtype], tensor
        assert (8 + length + begin) % ITEM_BYTES[dtype] == 0, f"{tensor}: not aligned"
        runs.append((begin, end))
    runs.sort()
    assert [run[0] for run in runs] == [0] + [run[1] for run in runs[:-1]], "holes"
    return tensors, metadata


def manifest_is_right(program, checks, folder, words):
    manifest = json.loads(program.read(f"{folder}/manifest.json"))
    files = {}
    for entry in manifest["tensors"]:
        if entry["file"] not in files:
            files[entry["file"]] = tensors_of(program, f"{folder}/{entry['file']}")[0]
        dtype, shape, data = files[entry["file"]][entry["name"]]
        checks.that(dtype.lower() == entry["dtype"] and shape == entry["shape"] and
                    hashlib.sha256(data).hexdigest() == entry["sha256"], f"{words}: {entry}")
    checks.that(sum(len(file) for file in files.values()) == len(manifest["tensors"]),
                f"{words}: tensors that the manifest lacks")
    checks.that([entry["order"] for entry in manifest["tensors"]] ==
                list(range(len(manifest["tensors"]))), f"{words}: order")
    digest = hashlib.sha256("".join(e["sha256"] for e in manifest["tensors"]).encode())
    checks.that(digest.hexdigest() == manifest["digest"], f"{words}: digest")
    for name, about in manifest["files"].items():
        data = program.read(f"{folder}/{name}")
        checks.that(len(data) == about["bytes"] and
                    hashlib.sha256(data).hexdigest() == about["sha256"], f"{words}: {name}")
    return manifest


def layouts(program, checks):
    digests = set()
    for ranks, *words in ([1], [3, "--tp", "3", "--sp", "--micro-batches", "2"],
                          [8, "--dp", "2", "--pp", "2", "--tp", "2", "--schedule", "1f1b",
                           "--micro-batches", "2", "--recompute", "selective"]):
        done = program.run("dump", "golden", "--no-truth", *words)
        if not checks.that(done.status == 0 and done.err == "", f"{words}\n{done}"):
            continue
        digests.add(done.out.splitlines()[-1])
        manifest = manifest_is_right(program, checks, "golden", words)
        checks.that(f"digest: {manifest['digest']}" in digests, f"{words}: {done}")
        checks.that(set(os.listdir(os.path.join(program.folder, "golden"))) == FILES,
                    f"{words}: other files")
        checks.that(manifest["layout"]["tp"] * manifest["layout"]["pp"] * manifest["layout"]["dp"] ==
                    ranks, f"{words}: layout")
        order = program.read("golden/order.txt").decode()
        checks.that(" ".join(["lockstep dump golden --no-truth", *words]) in order and
                    manifest["digest"] in order, order)
    checks.that(len(digests) == 1, f"layouts differ: {digests}")
    shutil.rmtree(os.path.join(program.folder, "golden"))


def everything(program, checks):
    """All that can be asked for, in JSON."""
    truth = len(p.engines_of(program)) > 1
    words = ["dump", "all", "--model", "llama-nano", "--tp", "6", "--steps", "2", "--per-rank",
             "--trace", "--json"]
    done = program.run(*words)
    if not checks.that(done.status == 0, f"{words}\n{done}"):
        return
    said = json.loads(done.out)
    manifest = manifest_is_right(program, checks, "all", words)
    checks.that(said["command"] == "dump" and said["digest"] == manifest["digest"] and
                said["tensors"] == len(manifest["tensors"]) and said["directory"] == "all",
                f"JSON: {said}")
    on_disk = sum(os.path.getsize(os.path.join(place, name)) for place, _, names in
                  os.walk(os.path.join(program.folder, "all")) for name in names)
    checks.that(said["bytes"] == on_disk, f"bytes: {said['bytes']}, on disk {on_disk}")
    checks.that(said["start"]["weights"] == "telling" and said["start"]["biases"] == 0 and
                said["start"]["shard_ends_met"] == 16, f"start: {said['start']}")
    checks.that(manifest["steps"] == 2 and {e["step"] for e in manifest["tensors"]} == {0, 1},
                "two steps")
    if truth:
        checks.that(0 < said["truth"]["worst_ratio"] < 1, f"truth: {said['truth']}")
        checks.that(all(e["truth_error"] <= e["bound"] for e in manifest["tensors"]), "bounds")
        checks.that(len(tensors_of(program, "all/truth.safetensors")[0]) ==
                    len(manifest["tensors"]), "truth")
    for rank in range(6):
        found, metadata = tensors_of(program, f"all/ranks/rank-{rank:03d}.safetensors")
        checks.that(metadata["rank"] == str(rank) and metadata["ranks"] == "6" and
                    metadata["layout"] == "tp 6", f"rank {rank}: {metadata['layout']}")
        checks.that(metadata["cut:step1/mb0/layers.0.query"] ==
                    f"0:8 0:24 {8 * rank}:{8 * rank + 8}", f"rank {rank}: cut")
        checks.that(any(name.endswith(".partial") for name in found), f"rank {rank}: no parts")
    calls = [json.loads(line) for line in program.read("all/collectives.jsonl").splitlines()]
    for layer_calls, task in ((2, "forward"), (2, "backward")):
        mine = [c for c in calls if c["rank"] == 3 and c["step"] == 1 and c["task"] == task and
                c["call"].startswith("all_reduce_forest") and c["bytes"] > 8 * 24 * 48]
        checks.that(len(mine) >= layer_calls * 4, f"{task}: {len(mine)} all-reduces")
    shutil.rmtree(os.path.join(program.folder, "all"))


def goes_on(program, checks):
    """From a checkpoint: the next step, unless told otherwise."""
    program.run("train", "--steps", "3", "--save", "three.safetensors")
    words = ["dump", "on", "--no-truth", "--load", "three.safetensors", "--steps", "5"]
    done = program.run(*words, "--start", "training")
    checks.that(done.status == 0, f"dump --load\n{done}")
    manifest = json.loads(program.read("on/manifest.json"))
    checks.that((manifest["first_step"], manifest["steps"]) == (3, 2), "steps 3 and 4")
    trained = program.run("train", "--steps", "5", "--save", "five.safetensors")
    checks.that(trained.status == 0, f"{trained}")
    five = tensors_of(program, "five.safetensors")[0]
    update = tensors_of(program, "on/update.safetensors")[0]
    for name, (_, _, data) in update.items():
        if name.startswith("step4/param."):
            checks.that(five[name[len("step4/param."):]][2] == data, f"{name}: not the trained one")
    # Without --start the batches tell all the same, and what --start cannot change is said.
    done = program.run(*words)
    tells = json.loads(program.read("on/manifest.json"))["start"]
    checks.that(done.status == 0 and "weights as loaded: --start changes nothing" in done.out and
                "16 of 16 ends of vocabulary shards" in done.out, f"{done}")
    checks.that(tells["weights"] == "given" and tells["batch"] == "telling" and
                0 < tells["targets"] < tells["tokens"] and tells["shard_ends_met"] == 16, f"{tells}")
    for folder in ("on", "three.safetensors", "five.safetensors"):
        path = os.path.join(program.folder, folder)
        (shutil.rmtree if os.path.isdir(path) else os.remove)(path)


def refused(program, checks, words, *names):
    done = program.run("dump", *words)
    checks.that(done.status == 2 and done.out == "" and done.err.count("\n") == 1 and
                not done.left, f"{words}\n{done}")
    for name in names:
        checks.that(name in done.err, f"{words}: should say {name}\n{done}")


def bad_input(program, checks):
    program.write("file", "x")
    os.mkdir(os.path.join(program.folder, "full"))
    program.write("full/notes.txt", "mine")
    os.makedirs(os.path.join(program.folder, "odd", "forward.safetensors"))
    program.write("odd/manifest.json", '{"format": "lockstep golden"}')
    program.write("odd/forward.safetensors/notes.txt", "mine")
    refused(program, checks, ["odd"], "odd", "forward.safetensors")
    refused(program, checks, [], "DIR", "missing")
    refused(program, checks, ["a", "b"], "b")
    refused(program, checks, [""], "DIR")
    refused(program, checks, ["file"], "file")
    refused(program, checks, ["file/x"], "file/x")
    refused(program, checks, ["none/x"], "none/x")
    refused(program, checks, ["full"], "full", "notes.txt")
    refused(program, checks, ["new", "--save", "x"], "--save")
    refused(program, checks, ["new", "--serial"], "--serial")
    refused(program, checks, ["new", "--start", "random"], "--start random", "telling or training")
    refused(program, checks, ["new", "--trace=x"], "--trace", "no value")
    refused(program, checks, ["new", "--per-ranks"], "--per-rank")
    refused(program, checks, ["new", "--tp", "5"], "--tp 5", "12 heads")
    refused(program, checks, ["new", "--load", "absent"], "absent")
    refused(program, checks, ["new", "--text", "absent"], "absent")
    for folder in ("full", "odd/forward.safetensors"):
        checks.that(program.read(f"{folder}/notes.txt") == b"mine", f"{folder}: touched")
    helped = program.run("dump", "--help")
    checks.that(helped.status == 0 and "--per-rank" in helped.out and "lockstep dump DIR" in
                helped.out and helped.err == "", f"--help\n{helped}")


def interrupted(program, checks):
    """Once and twice, in the middle of the steps; the older directory stays."""
    first = program.run("dump", "kept", "--no-truth")
    checks.that(first.status == 0, f"{first}")
    before = p.listing(program.folder)
    manifest = program.read("kept/manifest.json")
    for signals in (1, 200):
        running = subprocess.Popen([program.path, "dump", "kept", "--steps", "60", "--tp", "4",
                                    "--per-rank", "--trace"], cwd=program.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        while b"engine" not in running.stdout.readline():
            if running.poll() is not None:
                break
        time.sleep(0.1)
        for _ in range(signals):
            if running.poll() is not None:
                break
            running.send_signal(signal.SIGINT)
        try:
            _, err = running.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate()
            checks.that(False, "Ctrl-C does not end it")
            continue
        checks.that(running.returncode == 130, f"{signals}: status {running.returncode}\n{err}")
        left = p.listing(program.folder) - before
        checks.that(not left, f"{signals} times Ctrl-C left {left}")
        checks.that(program.read("kept/manifest.json") == manifest, "the older directory changed")


def killed(program, checks):
    """What a killed dump leaves, the next one removes; the older directory was there all the time."""
    before = p.listing(program.folder)
    running = subprocess.Popen([program.path, "dump", "kept", "--steps", "60", "--per-rank"],
                               cwd=program.folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while running.poll() is None and not any(
            name.startswith(".lockstep-") for name in os.listdir(program.folder)):
        time.sleep(0.01)
    running.kill()
    running.wait()
    left = [name for name in os.listdir(program.folder) if name.startswith(".lockstep-")]
    checks.that(len(left) == 1, f"a killed dump leaves its folder: {left}")
    done = program.run("dump", "kept", "--no-truth")
    checks.that(done.status == 0 and p.listing(program.folder) == before,
                f"{p.listing(program.folder) ^ before}\n{done}")


def main(program, checks):
    layouts(program, checks)
    everything(program, checks)
    goes_on(program, checks)
    bad_input(program, checks)
    interrupted(program, checks)
    killed(program, checks)


if __name__ == "__main__":
    p.in_folder(main)
