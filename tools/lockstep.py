#!/usr/bin/env python3
"""Golden directories of `lockstep dump` read, candidates for `lockstep check` written.

One file; Python 3.8 and NumPy 1.19 or newer, nothing else. Copy it beside your program.

    import lockstep
    golden = lockstep.Golden("golden")
    model = MyModel(golden.model, golden.weights)          # the weights by name: NumPy arrays
    out = lockstep.Candidate("mine", golden)
    for step in golden.steps:
        batch = golden.batch(step)
        for name, array in model.train(batch.tokens, batch.targets):
            out.add(name, array, step)                     # "layers.0.query", "grad....", "loss"
    out.write()                                            # then: lockstep check golden mine

A program of several processes gives each one's part, and says which part that is:

    out = lockstep.Candidate("mine", golden, rank=rank, ranks=ranks)
    out.add("layers.0.query", mine, step, cut=golden.cut("layers.0.query", tp=(rank, ranks)))

As a program, `lockstep.py GOLDEN` prints what is in a golden directory (or safetensors file);
`lockstep.py GOLDEN PATTERN` its tensors of these names, with the first values.
"""
import collections
import fnmatch
import hashlib
import json
import math
import mmap
import os
import re
import signal
import struct
import sys

try:
    import numpy as np
except ImportError as absent:
    if __name__ != "__main__":
        raise
    sys.exit(print("lockstep.py: NumPy is missing: %s" % absent, file=sys.stderr) or 2)

VERSION = 2
DTYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "BF16": "<u2", "I32": "<i4", "I64": "<i8",
          "BOOL": "|u1", "U8": "|u1"}
MOST_HEADER, MOST_DIMS = 100000000, 8
KEYS = {"name", "file", "phase", "step", "dtype", "shape", "dims", "sha256"}  # of every tensor


class Error(Exception):
    """One line that names the file and the tensor or key."""


def show(value):
    """For one line of an error: text as JSON writes it, not too long."""
    text = json.dumps(value) if isinstance(value, (str, int, float, list, tuple)) else repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


def _fail(where, text, *values):
    raise Error("%s: %s" % (where, text % values))


def _object(pairs):
    names = [key for key, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("the key %s twice" % show(max(names, key=names.count)))
    return dict(pairs)


def read_json(path, data, what):
    try:
        found = json.loads(data.decode(), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        _fail(path, "%s is not JSON: %s", what, error)
    return found if isinstance(found, dict) else _fail(path, "%s is not a JSON object", what)


def _are_counts(values, most):
    return isinstance(values, list) and len(values) <= most and all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in values)


def from_bf16(bits):
    """bf16 as 16-bit numbers -> float32, exactly."""
    return np.stack([np.zeros_like(bits), bits], axis=-1).view("<f4").reshape(np.shape(bits))


def to_bf16(values):
    """float32 -> bf16 as 16-bit numbers, to nearest, ties to even; a NaN stays one."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where((bits & 0x7fffffff) > 0x7f800000, np.uint16(0x7fc0), rounded)


class Safetensors(collections.UserDict):
    """A file, mapped and checked: file[name] is a read-only array (of bf16 a float32 copy)."""

    def __init__(self, path):  # pylint: disable=super-init-not-called
        self.path = os.fspath(path)
        try:
            if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
                _fail(path, "is a device or a pipe, not a plain file")
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < 8:
                    _fail(path, "%d bytes long; not a safetensors file", size)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            _fail(path, "%s", error.strerror)
        length = struct.unpack("<Q", self._map[:8])[0]
        if length > min(size - 8, MOST_HEADER):
            _fail(path, "its header claims %d bytes, the file has %d after the length, at most %d "
                  "are allowed; truncated, or no safetensors file", length, size - 8, MOST_HEADER)
        header = read_json(path, self._map[8:8 + length], "its header")
        self.metadata = header.pop("__metadata__", {})
        if not isinstance(self.metadata, dict) or not all(
                isinstance(value, str) for value in self.metadata.values()):
            _fail(path, "__metadata__ must be an object of strings")
        self._begin, self._bytes = 8 + length, size - 8 - length
        self.data = {name: self._check(name, entry) for name, entry in header.items()}
        last = 0
        for name, (_, _, begin, end) in sorted(self.data.items(), key=lambda t: t[1][2:]):
            if begin != last:
                _fail(path, "tensor %s: its data begin at %d, those before it end at %d; neither "
                      "overlap nor hole is allowed", show(name), begin, last)
            last = end
        if last != self._bytes:
            _fail(path, "%d bytes behind its last tensor; none are allowed", self._bytes - last)

    def _check(self, name, entry):
        where = "%s: tensor %s" % (self.path, show(name))
        if not isinstance(entry, dict) or sorted(entry) != ["data_offsets", "dtype", "shape"]:
            _fail(where, "its entry must be an object of dtype, shape and data_offsets")
        offsets, dtype, shape = (entry[key] for key in sorted(entry))
        if not isinstance(dtype, str) or dtype not in DTYPES:
            _fail(where, "dtype %s; must be one of %s", show(dtype), ", ".join(DTYPES))
        if not (_are_counts(shape, MOST_DIMS) and _are_counts(offsets, 2) and len(offsets) == 2):
            _fail(where, "shape %s, data_offsets %s: must be at most %d, and two, whole numbers "
                  "from 0 on", show(shape), show(offsets), MOST_DIMS)
        begin, end = offsets
        if begin > end or end > self._bytes:
            _fail(where, "its data_offsets are %d to %d; the file has %d bytes of data", begin, end,
                  self._bytes)
        needed = np.dtype(DTYPES[dtype]).itemsize * math.prod(shape)
        if end - begin != needed:
            _fail(where, "its data_offsets hold %d bytes; shape %s of %s has %d", end - begin,
                  show(shape), dtype, needed)
        return dtype, tuple(shape), begin, end

    def about(self, name):
        """(dtype in the file, shape, first byte of the data and the one behind the last)"""
        return self.data.get(name) or _fail(self.path, "there is no tensor %s", show(name))

    def __getitem__(self, name):
        dtype, shape, begin, end = self.about(name)
        values = np.ndarray(shape, DTYPES[dtype], self._map, self._begin + begin) \
            if end > begin else np.empty(shape, DTYPES[dtype])
        return from_bf16(values) if dtype == "BF16" else values


def _as_stored(path, name, array, dtype):
    """(dtype of the file, C-ordered array of it)"""
    array = np.asarray(array)
    known = dict({kind: dtype for dtype, kind in DTYPES.items()}, **{"|b1": "BOOL", "<u2": None})
    dtype = dtype or known.get(array.dtype.newbyteorder("<").str)
    if dtype not in DTYPES:
        _fail(path, "tensor %s: dtype %s cannot be written; must be one of %s", show(name),
              dtype or array.dtype, ", ".join(DTYPES))
    if array.ndim > MOST_DIMS:
        _fail(path, "tensor %s: %d dimensions; at most %d", show(name), array.ndim, MOST_DIMS)
    values = to_bf16(array).reshape(array.shape) if dtype == "BF16" else array
    return dtype, np.array(values, DTYPES[dtype], order="C")


def write_safetensors(path, tensors, metadata=None, dtypes=None):
    """tensors: name -> array. dtypes: name -> dtype of the file, where it is not the array's
    ("BF16", of float32 values). Written beside its place, then renamed: never half a file."""
    path = os.fspath(path)
    header, arrays, begin = ({"__metadata__": dict(metadata)} if metadata else {}), [], 0
    for name, array in tensors.items():
        dtype, array = _as_stored(path, name, array, (dtypes or {}).get(name))
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [begin, begin + array.nbytes]}
        arrays.append(array)
        begin += array.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)  # the data begin at a multiple of 8
    part = "%s.%d.part" % (path, os.getpid())
    try:
        with open(part, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for array in arrays:
                file.write(array.data if array.size else b"")
        os.replace(part, path)
    except OSError as error:
        _fail(path, "%s", error.strerror)
    finally:
        if os.path.exists(part):
            os.remove(part)


# ---- golden directories ----

class Batch:
    """A step's global batch: tokens, targets [B, S] (-100: none); of BERT segments, lengths, order;
    of a network images [N, C, H, W], labels [N]. What the model does not have is None."""

    def __init__(self, step, file):
        self.step = step
        for part in ("tokens", "targets", "segments", "lengths", "order", "images", "labels"):
            name = "step%d/%s" % (step, part)
            setattr(self, part, file[name] if name in file else None)
        if any(part is None for part in (self.tokens, self.targets)) and self.labels is None:
            _fail(file.path, "there is no batch of step %d", step)


def share(count, parts, part):
    """(first, end) of part `part` of `count` things in `parts` runs, the first ones longer."""
    base, longer = divmod(count, parts)
    first = part * base + min(part, longer)
    return first, first + base + (part < longer)


def slices(cut):
    """array[slices(cut)] is what a cut names."""
    return tuple(slice(first, end) for first, end in cut)


class Golden:
    """A golden directory. golden["step0/layers.0.query"] is a tensor of the run, golden.weights
    the parameters before it, golden.steps its steps. With check=False the weights', batches' and
    masks' SHA-256 are not compared with the manifest."""

    def __init__(self, path, check=True):
        self.path = os.fspath(path)
        name = os.path.join(self.path, "manifest.json")
        try:
            with open(name, "rb") as file:
                self.manifest = read_json(name, file.read(), "it")
        except OSError as error:
            _fail(name, "%s", error.strerror)
        self._files = {}
        if self.manifest.get("format") != "lockstep golden":
            _fail(name, "not the manifest of a golden directory: its format is %s",
                  show(self.manifest.get("format")))
        if self.manifest.get("version") != VERSION:
            _fail(name, "version %s of the format; this program reads version %d",
                  show(self.manifest.get("version")), VERSION)
        self.kind, self.dtype = self._get("kind", str), self._get("dtype", str)
        self.model, self.layout, self.optimizer = (
            self._get(key, dict) for key in ("model", "layout", "optimizer"))
        first = self._get("first_step", int)
        self.steps = range(first, first + self._get("steps", int))
        self.tensors = {}
        for entry in self._get("tensors", list):
            if not isinstance(entry, dict) or not KEYS <= set(entry) or not _are_counts(
                    entry["shape"], MOST_DIMS) or not isinstance(entry["dims"], str):
                _fail(name, "tensors: %s must be an object with %s", show(entry),
                      ", ".join(sorted(KEYS)))
            self.tensors[entry["name"]] = dict(entry, shape=tuple(entry["shape"]),
                                               dims=entry["dims"].split())
        for file, facts in self._get("files", dict).items() if check else ():
            opened = self.file(file)
            if hashlib.sha256(opened._map).hexdigest() != facts.get("sha256"):
                _fail(opened.path, "not the file of manifest.json: its SHA-256 differs")

    def _get(self, key, kind):
        if not isinstance(self.manifest.get(key), kind):
            _fail(self.path, "manifest.json: %s is %s; must be of type %s", key,
                  show(self.manifest.get(key)), kind.__name__)
        return self.manifest[key]

    def file(self, name):
        """A file of the directory: a Safetensors."""
        if name not in self._files:
            if os.path.basename(name) != name:
                _fail(self.path, "the file %s lies outside", show(name))
            self._files[name] = Safetensors(os.path.join(self.path, name))
        return self._files[name]

    @property
    def weights(self):
        return self.file("weights.safetensors")

    def batch(self, step):
        return Batch(step, self.file("batch.safetensors"))

    def mask(self, node, step):
        """The dropout mask of "embedded", "layers.0.heads", a network's layer: 1 where kept, what
        is kept is divided by 1 - p. None where the model has no dropout."""
        there = "masks.safetensors" in self._get("files", dict)
        return self.file("masks.safetensors")["step%d/mask.%s" % (step, node)] if there else None

    def learning_rate(self, step):
        """Linear warm-up, then a cosine from lr to lr_floor at step lr_total, constant after."""
        peak, floor, warmup, total = (self.optimizer[key] for key in (
            "lr", "lr_floor", "warmup", "lr_total"))
        if step < warmup:
            return peak * (step + 1) / warmup
        if not total or step >= total:
            return floor if total else peak
        return floor + 0.5 * (peak - floor) * (
            1 + math.cos(math.pi * (step - warmup) / (total - warmup)))

    def about(self, name, step=None):
        """What the manifest says of "layers.0.query" of a step (None: the first), of
        "step1/layers.0.query", or of a parameter after the last step, by its bare name."""
        last = "step%d/param.%s" % (self.steps[-1], name)
        if step is None and last in self.tensors:
            name = last
        elif not re.match(r"step\d+/", name):
            name = "step%d/%s" % (self.steps[0] if step is None else step, name)
        return self.tensors.get(name) or _fail(self.path, "there is no tensor %s", show(name))

    def names(self, phase=None, step=None):
        """In order of execution. phase: "forward", "backward" or "update"."""
        return [name for name, entry in self.tensors.items()
                if phase in (None, entry["phase"]) and step in (None, entry["step"])]

    def __getitem__(self, name):
        entry = self.about(name)
        return self.file(entry["file"])[entry["name"]]

    def truth(self, name, step=None):  # from a run in binary64
        return self.file("truth.safetensors")[self.about(name, step)["name"]]

    def cut(self, name, tp=(0, 1), sp=None, dp=(0, 1), down=(0, 1), across=(0, 1), channel=(0, 1)):
        """Which run of each dimension a rank holds; tp, sp, dp, down, across, channel: (its number,
        how many). sp=None: no sequence parallelism. A vocabulary is cut as if padded to a multiple
        of lcm(heads, 128), pixels by their granules, the rest evenly, the first parts longer."""
        entry, runs, net = self.about(name), [], self.model.get("network", {})
        heads, kv_heads = (self.model.get(key) for key in ("heads", "kv_heads"))
        axes = dict(tp=tp, sp=sp or (0, 1), dp=dp, down=down, across=across, channel=channel)
        granules = dict(down=net.get("row_granules"), across=net.get("column_granules"))
        for place, (dim, extent) in enumerate(zip(entry["dims"], entry["shape"])):
            axis = dim.partition("[")[2].rstrip("]")
            whole = granules.get(axis)
            part, parts = axes.get("dp" if place == 0 and dim == "B" else axis, (0, 1))
            if dim == "V[tp]":
                unit = heads * 128 // math.gcd(heads, 128)
                first, end = share(-(-extent // unit) * unit, parts, part)
                runs.append((min(first, extent), min(end, extent)))
            elif dim == "Dkv[tp]":
                first, end = share(heads, parts, part)
                group, width = heads // kv_heads, extent // kv_heads
                runs.append((first // group * width, -(-end // group) * width))
            elif whole:
                runs.append(tuple(g * extent // whole for g in share(whole, parts, part)))
            else:
                runs.append(share(extent, parts, part))
        return runs


class Candidate:
    """Tensors for `lockstep check`, in the folder `path`: `rank`'s file of `ranks`, or one file.
    With `golden` names and shapes are checked as they are added. layout: "tp 2 x sp", optional."""

    def __init__(self, path, golden=None, rank=None, ranks=None, layout=None):
        self.folder, self.golden, self.rank, self.ranks = os.fspath(path), golden, rank, ranks
        if (rank is None) != (ranks is None) or (rank is not None and not 0 <= rank < ranks):
            _fail(path, "rank %s of %s: must be 0 to ranks - 1", rank, ranks)
        self.path = os.path.join(self.folder, "candidate.safetensors" if rank is None
                                 else "rank-%03d.safetensors" % rank)
        self.tensors, self.dtypes = {}, {}
        self.metadata = {} if rank is None else {"rank": str(rank), "ranks": str(ranks)}
        self.metadata.update({"layout": layout} if layout else {})

    def add(self, name, array, step=None, cut=None, dtype=None):
        """step: of a name without "stepN/". cut: (first, end) of every dimension of the whole
        tensor, when this is a part. dtype "BF16": rounded to that. The values are copied."""
        if self.golden:
            name = self.golden.about(name, step)["name"]
        elif step is not None and not re.match(r"step\d+/", name):
            name = "step%d/%s" % (step, name)
        self.dtypes[name], array = _as_stored(self.path, name, array, dtype)
        whole = list(self.golden.about(name)["shape"]) if self.golden else None
        array = array.reshape(() if whole == [] and array.size == 1 else array.shape)
        runs = [(0, n) for n in whole or array.shape] if cut is None else list(cut)
        shape = [end - first for first, end in runs]
        if shape != list(array.shape) or whole is not None and (
                len(whole) != len(runs) or any(not 0 <= first <= end <= extent for (first, end),
                                               extent in zip(runs, whole))):
            _fail(self.path, "tensor %s: shape %s; its cut %s is of shape %s%s", show(name),
                  list(array.shape), show(runs), shape, " in %s" % whole if whole else "")
        self.tensors[name] = from_bf16(array) if dtype == "BF16" else array
        if cut:
            self.metadata["cut:" + name] = " ".join("%d:%d" % run for run in map(tuple, cut))

    def write(self):
        """Rank 0 removes what another run with more ranks, or with one file, has left."""
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError as error:
            _fail(self.folder, "%s", error.strerror)
        write_safetensors(self.path, self.tensors, self.metadata, self.dtypes)
        mine = ["rank-%03d.safetensors" % rank for rank in range(self.ranks or 0)]
        for old in os.listdir(self.folder) if not self.rank else ():
            if re.match(r"(rank-\d+|candidate)\.safetensors$", old) and \
                    old not in (mine or [os.path.basename(self.path)]):
                os.remove(os.path.join(self.folder, old))


def overview(golden):
    manifest = golden.manifest
    yield "%s: %s, %s" % (golden.path, manifest.get("program"), golden.kind)
    yield "model: " + ", ".join("%s %s" % item for item in golden.model.items())
    yield "layout: %s; " % golden.layout.get("text") + ", ".join(
        "%s %s" % (key, manifest.get(key)) for key in ("engine", "dtype", "batch", "seed"))
    yield "optimizer: " + ", ".join("%s %s" % item for item in golden.optimizer.items())
    yield "weights: %d parameters, %d numbers" % (
        len(golden.weights), sum(golden.weights[name].size for name in golden.weights))
    for step in golden.steps:
        yield "step %d: %s tensors" % (step, ", ".join("%d %s" % (
            len(golden.names(phase, step)), phase) for phase in ("forward", "backward", "update")))


def tensor_lines(path, pattern):
    file = Golden(path) if os.path.isdir(path) else Safetensors(path)
    for name in file.names() if isinstance(file, Golden) else file:
        if not any(fnmatch.fnmatch(name, of) for of in (pattern, "step*/" + pattern)):
            continue
        values, about = file[name], file.about(name)
        yield "%-52s %-18s %-16s %s" % (
            name, list(values.shape), about[0] if "dims" not in about else " ".join(about["dims"]),
            " ".join("%.6g" % value for value in values.reshape(-1)[:4]))


def _plain(text):
    return re.sub("[^ -~]", lambda found: ascii(found.group())[1:-1], text)  # no escape sequences


def main(words):
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        print(__doc__.strip())
        return 0 if words == ["--help"] else 2
    whole = len(words) == 1 and os.path.isdir(words[0])
    for line in overview(Golden(words[0])) if whole else tensor_lines(*(words + ["*"])[:2]):
        print(_plain(line))
    return 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as head ends what it reads from
    try:
        sys.exit(main(sys.argv[1:]))
    except Error as fault:
        print("lockstep.py: %s" % _plain(str(fault)), file=sys.stderr)
        sys.exit(2)
