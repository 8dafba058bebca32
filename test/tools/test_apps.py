#!/usr/bin/env python3
"""One chapter of apps/ from outside: test_apps.py ROOT PROGRAM FAULTY_PROGRAM HAVE_OPENBLAS

PROGRAM must find every bit equal for every number of ranks; FAULTY_PROGRAM is the same source with
a fault built in (LS_APP_FAULT) and must find the difference: a comparison that cannot fail is none.
"""
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

LEGAL = "1, 2, 3, 4, 6 or 12"

# Per chapter: command lines that must succeed beside --ranks 1, 2, 3, 4, 6, 12; bad ones with a part
# of what is said; lessons: command line and a pattern that the output must have.
CHAPTERS = {
    "01_ranks_and_barriers": {
        "good": ["--ranks 5", "--ranks 64", "--ranks 256"],
        "bad": [("--ranks 257", "1 to 256")],
        "lessons": [("--ranks 3", r"(?m)^ +0 +0 \.\. 20 +0 of 2 +0 of 2 +2 +0 +25 ")],
    },
    "02_collectives": {
        "good": ["--ranks 5", "--ranks 7", "--ranks 64", "--ranks 64 --leaves 64", "--leaves 1",
                 "--ranks 13 --leaves 7", "--seed 9"],
        "bad": [("--leaves 65", "1 to 64"), ("--seed -1", "2^64 - 1")],
        "lessons": [  # a ring changes bits, halving does not where shares are nodes, the forest never
            ("--ranks 3", r"ring +4 = 2 \(P - 1\) +16048 = .* [1-9]\d* of 1003"),
            ("--ranks 4", r"recursive halving +4 = 2 log2 P +24072 = .* 0 of 1003"),
            ("--ranks 8", r"recursive halving +6 = 2 log2 P +56168 = .* [1-9]\d* of 1003"),
            ("--ranks 7", r"forest +1 = 1 +40120 = nodes n e +0 of 1003"),
            ("--ranks 5", r"rank  3 owns leaves  8 \.\. 10, hands in 8 \.\. 9, 9 \.\. 10\n"),
            ("--ranks 5", r"\n      \[----0-----\]\[----1-----\]\[----\*-----\]\[----\*-----\]\n"),
        ],
    },
    "03_column_and_row_linear": {
        "good": ["--ranks 64 --granules 64", "--ranks 7 --granules 7", "--seed 9"],
        "bad": [("--ranks 5", "12 granules cannot be cut into 5 equal parts; use " + LEGAL),
                ("--granules 7 --ranks 2", "use 1 or 7"), ("--gemm mkl", "portable or openblas")],
        "lessons": [  # bias added once, not once per rank; partials per rank at tp 3
            ("--ranks 3", r"WRONG ON PURPOSE.*z = 66 102; right: 46 62"),
            ("--ranks 3", r"(?m)^ +1 +32 \.\. 64 +3256 +3 +1680 +1200$"),
        ],
    },
    "04_mlp": {
        "good": ["--ranks 64 --heads 64 --d-ff 128", "--d-ff 7", "--ranks 2 --d-ff 40", "--seed 9"],
        "bad": [("--ranks 5", "use " + LEGAL), ("--ranks 3 --d-ff 40", "use 1, 2 or 4"),
                ("--d-ff 0", "1 to 512")],
        "lessons": [  # 1 all-reduce each way; rows first 2, and 2 gathers
            ("--ranks 2", r"GELU, columns first +24 x 30 +1: +1920 +0: +0 +1: +1920 +0: +0 "),
            ("--ranks 2", r"GELU, rows first +12 x 60 +2: +6720 +0: +0 +0: +0 +2: +3360 "),
        ],
    },
    "05_attention_by_heads": {
        "good": ["--ranks 64 --heads 64 --kv-heads 8", "--kv-heads 1", "--kv-heads 2",
                 "--kv-heads 3", "--kv-heads 6", "--kv-heads 12", "--ranks 7 --heads 14 --kv-heads 2",
                 "--seed 9"],
        "bad": [("--ranks 5", "12 query heads cannot be cut into 5 equal parts; use " + LEGAL),
                ("--kv-heads 5", "use " + LEGAL), ("--heads 65", "1 to 64")],
        "lessons": [  # a rank that holds two shared heads; three ranks to a head
            ("--ranks 6", r"(?m)^ +1 +2 \.\. 4 .* 4 +4 +896 +0 \(2\) 1 \(2\)$"),
            ("--ranks 12", r"(?m)^ +11 +11 \.\. 12 .* 2 +2 +448 +3 \(3\)$"),
        ],
    },
    "06_vocabulary": {
        "good": ["--ranks 64 --heads 64", "--vocab 2", "--vocab 127 --ranks 4", "--vocab 384",
                 "--vocab 385", "--smoothing 0.3 --ranks 3", "--heads 7 --ranks 7", "--seed 9"],
        "bad": [("--ranks 5", "use " + LEGAL), ("--vocab 1", "2 to 2000"),
                ("--smoothing 0.6", "0 to 0.5"), ("--smoothing nan", "0 to 0.5")],
        "lessons": [  # padding on the last rank alone; -0 is lost among +0
            ("--ranks 4", r"(?m)^ +3 +288 \.\. 384 +0 +0 +1 +384 +144 +4608 +384$"),
            ("--ranks 4", r"-0 when the others give -0, \+0 when they give \+0"),
        ],
    },
    "07_sequence_parallel": {
        "good": ["--seq 1", "--seq 2", "--seq 12", "--seq 64", "--ranks 12 --seq 5",
                 "--ranks 64 --granules 64 --seq 63", "--ranks 7 --granules 7", "--seed 9"],
        "bad": [("--ranks 5", "12 granules of F cannot be cut into 5 equal parts; use " + LEGAL),
                ("--seq 0", "1 to 64"), ("--seq 65", "1 to 64"), ("--granules 0", "1 to 64")],
        "lessons": [  # a rank without tokens keeps nothing outside; together as one rank alone
            ("--ranks 12", r"(?m)^  11   7 \.\. 7 +1148 +0 +280 +1428 / 280$"),
            ("--ranks 3", r"all ranks: 6804 / 4508, one rank alone: 4508\n"),
            ("--ranks 4", r"with:    forward +0: +0  1: +2240  1: +560\n"),
            ("--ranks 4", r"(?m)^ +backward +1: +320  1: +2240  2: +1120$"),
            ("--ranks 2", r"WRONG ON PURPOSE.*20 of 20 numbers"),
        ],
    },
    "08_pipeline_schedules": {
        "good": ["--ranks 5 --micro-batches 3 --batch 7", "--ranks 16 --virtual-stages 4",
                 "--ranks 7 --virtual-stages 3 --micro-batches 17 --batch 29",
                 "--micro-batches 1 --batch 1", "--micro-batches 32 --batch 32",
                 "--schedule naive", "--schedule gpipe --seed 9", "--virtual-stages 1"],
        "bad": [("--micro-batches 9", "8 sequences make 1 to 8"), ("--ranks 17", "1 to 16"),
                ("--virtual-stages 5", "1 to 4"), ("--schedule zigzag", "interleaved"),
                ("--svg missing/folder/x.svg", "missing/folder/x.svg")],
        "lessons": [
            ("", r"\n 0 0-1-2-3-\.{12}a===\.\.b===\.\.c===\.\.d===\n 1 \.\.0-1-2-\.{8}a===3-b==="),
            ("", r"\n 1 \.01230123\.{6}a=b=c=d=a=b=c=d=\.\.\n"),
            ("", r"time 96, idle 3/4 of it; the formula \(K - 1\) / K: 3/4"),
            ("", r"time 33, idle 3/11 of it"),
            ("--micro-batches 8 --schedule 1f1b", r"(?m)^   1 +3 +1536 +16 +2048  2\.\.4$"),
            ("", r"in a circle: rank 3's B0 waits for rank 3's F0, which stands behind B0\n"),
        ],
    },
    "09_recomputation": {
        "good": ["--ranks 3 --sp --seq 7 --micro-batches 3 --batch 7", "--layers 1 --batch 1 "
                 "--micro-batches 1", "--ranks 12 --sp --seq 5", "--layers 6 --micro-batches 4 --ranks 2",
                 "--seq 1 --ranks 4", "--seed 9"],
        "bad": [("--ranks 5", "12 heads cannot be cut into 5 equal parts; use " + LEGAL),
                ("--micro-batches 5", "4 sequences make 1 to 4"), ("--layers 17", "1 to 16"),
                ("--seq 65", "1 to 64")],
        "lessons": [
            ("", r"g = 1, layer  F{12}BRBRBRBRBBBRBRBRBRBB\n  of layer    e1234he1234hh44332211eh"),
            ("--ranks 2 --sp", r"probabilities 13824, .* together 50880\n"),
            ("--ranks 2 --sp", r"selective +686608 +686608 +75\.6% +0 +104: 595584 +0 of "),
            ("--ranks 2 --sp", r"g = 1, layer +130576 +185480 +20\.4% +8 +136: 816768 +0 of "),
            ("--layers 8 --batch 8 --micro-batches 8 --ranks 1",  # the least in the middle
             r"i / k\) = 1\.7\n(.*\n)*g = 1, layer +\d+ +7\d{5} .*\ng = 2 +\d+ +6\d{5} .*\n"
             r"g = 4 +\d+ +8"),
            ("", r"WRONG ON PURPOSE.*: [1-9]\d+ differ\n"),
        ],
    },
    "10_data_parallel": {
        "good": ["--ranks 5 --batch 7", "--ranks 16 --batch 64 --micro-batches 4", "--batch 1",
                 "--ranks 2 --micro-batches 3 --batch 7", "--batch 64 --micro-batches 64",
                 "--ranks 16 --batch 16", "--seed 9"],
        "bad": [("--ranks 17", "1 to 16"), ("--batch 0", "1 to 64"),
                ("--ranks 2 --micro-batches 4 --batch 7",
                 "2 replicas x 4 micro-batches need 8 sequences or more")],
        "lessons": [  # known: 7 sequences on 2 replicas; binary counter; weights
            ("--ranks 2 --batch 7 --micro-batches 1",
             r"\n         \[-+\*-+\]\n         \[----0-----\]\[---1---\]\n"),
            ("--ranks 1 --batch 8 --micro-batches 8", r"first first   6 \.\. 7  -> 0\.\.4 4\.\.6 6\.\.7"),
            ("--ranks 1 --batch 8 --micro-batches 8", r"(?m)^   0 +0 \.\. 8 .* 4,  4 +880 "),
            ("--ranks 3", r"mean of the means: loss 4\.\d+ in place of 4\.\d+; dW off by [1-9]"),
            ("--ranks 3", r"a running total: [1-9]\d* of 55"),
            ("--ranks 1", r"mean of the means: loss (\S+) in place of \1; dW off by 0\.0%"),
        ],
    },
    "11_three_dimensions": {
        "option": "--tp",  # in place of --ranks
        "good": ["--tp 1 --pp 1 --dp 1 --micro-batches 1", "--tp 1 --pp 1 --dp 1 --no-sp",
                 "--tp 3 --pp 3 --dp 2 --micro-batches 3 --batch 7", "--tp 4 --pp 4 --dp 4",
                 "--schedule interleaved --virtual-stages 2 --micro-batches 4",
                 "--schedule gpipe --recompute stage --steps 2", "--recompute layer --no-sp",
                 "--model llama-nano --tp 6 --recompute selective", "--seed 9 --layers 7",
                 "--dp 7 --batch 7 --micro-batches 1 --tp 1", "--dp 1 --batch 1 --micro-batches 1"],
        "bad": [("--tp 5", "12 heads cannot be cut into 5 equal parts; use " + LEGAL),
                ("--pp 5", "4 layers make at most 4 stages"),
                ("--dp 3 --micro-batches 4", "dp 3 x 4 micro-batches need 12 sequences or more"),
                ("--virtual-stages 2", "use --schedule interleaved"),
                ("--tp 12 --pp 4 --dp 32 --batch 32 --micro-batches 1", "1536 ranks; at most 256"),
                ("--model bert", "llama-nano"), ("--steps 9", "1 to 8")],
        "lessons": [
            ("", r"\nstage 0 0   1      2   3       layers 0 \.\. 2\nstage 1 4   5      6   7 "),
            ("", r"(?m)^dp     \{0 2\} \{1 3\} \{4 6\} \{5 7\} "),
            ("", r"(?m)^model  \{0 1 4 5\} \{2 3 6 7\} "),
            ("", r"(?m)^   0  (\S+ \S+)  \1  \S+  0, 0$"),
        ],
    },
    "12_find_the_bug": {
        "good": ["--bug none", "--bug shards --ranks 3", "--seed 9"],
        "bad": [("--ranks 5", "12 granules of F cannot be cut into 5 equal parts; use " + LEGAL),
                ("--ranks 13", "1 to 12"), ("--bug typo", "none, bias"),
                ("--lockstep /nowhere/lockstep", "--lockstep")],
        "lessons": [  # one bug passes a tolerance; the evidence of another; one rank hides most
            ("--ranks 4", r"(?m)^gelu .* passes +1  another activation function$"),
            ("--ranks 4", r"3 x layers\.0\.mlp\.down\.bias"),
            ("--ranks 1", r"(?m)^reduce .* passes +0  nothing is wrong$"),
        ],
    },
    "13_judge_your_backend": {
        "good": ["--ranks 7", "--mistake none", "--mistake equal-shares --seed 9"],
        "bad": [("--ranks 17", "1 to 16"), ("--mistake typo", "equal-shares")],
        "lessons": [  # right, though not tree/v1; each mistake named; where shares are not equal
            ("", r"\n  row_linear_forward +all 36 +all 36 +\d+ of 36 *\n"),
            ("", r"\nverdict: right: 768 of 768 cases"),
            ("", r"\n      looks like: bias added once per rank \(explains 24 of 24\)\n"),
            ("--ranks 3", r"equal-shares +all_reduce_sum .* not reduced; only with shares that are not"),
            ("", r"all-send .* nothing: ranks wait for each other\n"),
            ("--mistake all-send", r"rank \d failed: ranks wait for each other: "),
            ("--mistake in-input", r"\n      looks like: the input in used as a work buffer"),
        ],
    },
    "14_spatial_convolution": {
        "option": "--spatial",
        "values": ["1x1", "2x1", "1x3", "3x2", "4x4", "7x7"],
        "good": ["--spatial 5x5 --granules 4x4", "--spatial 7x1 --image 12x12",  # ranks without pixels
                 "--spatial 4x1 --image 8x8 --kernel 7x1 --pad-before 3x0 --pad-after 3x0",
                 "--stride 2x3", "--stride 2x2 --pad-before 0x0", "--kernel 2x5 --pad-before 1x2",
                 "--image 4x4 --kernel 9x9 --pad-before 8x8 --pad-after 8x8", "--look 0 --seed 9",
                 "--image 3x3 --granules 8x8"],
        "openblas": ["--gemm openblas --spatial 5x5 --granules 4x4 --stride 2x1"],
        "bad": [("--spatial 4x1 --image 3x9", "4 x 1 ranks is larger than the image of 3 x 9"),
                ("--kernel 17x1", "conv1: a kernel of 17"), ("--image 41x1", "from 1 to 40, as 2x3"),
                ("--svg missing/folder/x.svg", "missing/folder/x.svg")],
        "lessons": [
            # all halos, corners, the formula; an even kernel has one that is not symmetric
            ("", r"\n0000111122222   \.\.\.011112\.{4}      .*\n3333444455555   \.\.\.3====5\.{4}   "),
            ("", r"2 O W \+ 2 O H \+ 4 O O = 22 pixels; x 3 channels x 2 images\n"),
            ("", r"3333444455555   \.\.\.3====55\.{3}      3333444455555   \.\.33====5\.{4}\n"),
            # too little where the kernel is even, too much where the stride is 2; sums of dx
            ("", r"\(K - 1\) / 2: 0 numbers of y differ; 124 pixels sent, 124 needed\n"),
            ("", r"\(K - 1\) / 2: 200 numbers of y differ; 124 pixels sent, 198 needed\n"),
            ("", r"\(K - 1\) / 2: 0 numbers of y differ; 124 pixels sent, 58 needed\n"),
            ("", r"parts of dx added, no halo of dy: [1-9]\d+ numbers of dx differ\n"),
            ("--spatial 1x1", r"parts of dx added, no halo of dy: 0 numbers of dx differ\n"),
            # a halo that reaches two ranks away: 8 columns on 4 ranks, kernel 7
            ("--spatial 1x4 --image 8x8 --kernel 1x7 --pad-before 0x3 --pad-after 0x3 --granules 4x4",
             r"\n00112233     \.011==33     "),
            ("--spatial 5x5 --granules 4x4", r"(?m)^  24   0 x 0   0 x 0 +0 +0 +0 +0 +0 +0 +0$"),
        ],
    },
    "15_space_and_samples": {
        "option": "--spatial",
        "values": ["1x1", "2x1", "1x3", "3x2", "4x4"],
        "good": ["--dp 16 --spatial 4x3", "--batch 1 --dp 2 --spatial 4x1", "--batch 16 --dp 3",
                 "--dp 1", "--dp 1 --spatial 1x1 --batch 1", "--dp 7 --batch 5", "--seed 9"],
        "bad": [("--spatial 5x1", "from 1 to 4, as 2x3"), ("--dp 17", "1 to 16"),
                ("--batch 0", "1 to 16")],
        "lessons": [
            # unequal shares, ranks without an image; a mean of means; a variance in one pass
            ("", r"(?m)^   7   3 \.\. 5   4 \.\. 9   5 \.\. 10 +50 +-?\d\.\d+ +264 +992 +2$"),
            ("--dp 7", r"\nall   N = 450, mean (\S+)\n(.*\n)*WRONG .* the 20 means: (?!\1)"),
            ("--dp 1 --spatial 1x1", r"the 1 means: .* by up to [0-9.]+e-0[67]\n.* up to [0-9.]+e-0[67]\n"),
            ("", r"each rank by its own pixels: z differs by up to \d\.\de\+00\n"),
            ("", r"of 10000 \.\. 10003: 0; in two passes 1\.25\n"),
            # a halo: 2 x 1024 rows of 16 channels and a corner, of x and of dy, none by samples alone
            ("", r"8  8 x 1 x 1 +1 +134217728 +0 +4032 "),
            ("", r"32  8 x 2 x 2 +1 +33554432 +65568 +4464 "),
        ],
    },
    "16_two_columns": {
        "option": "--batch",
        "values": [1, 2, 3, 5, 8],
        "good": ["--batch 7 --seed 9"],
        "bad": [("--batch 9", "1 to 8"), ("--gemm mkl", "portable or openblas")],
        "openblas": ["--gemm openblas --batch 5"],
        "lessons": [  # two groups need no message; one group gathers and sums; norms have a halo
            ("", r"(?m)^conv2 +16 x 15 x 15 +3216   \|         \| +0   \|         \| +0$"),
            ("", r"(?m)^conv3 +24 x  7 x 7  +6936   \|<= all =>\| +12544   \|>= sum =<\| +25088$"),
            ("", r"(?m)^norm1 .*\|<-  2  ->\| +32768   \|<- 2\+2 ->\| +65536$"),
            ("", r"(?m)^dense8 +10 .* 650   \|<= all =>\| +512   \|         \| +0$"),
            ("", r"\nbytes of weights: a column 125672, the serial model 248744: 50\.5%\n"),
            ("", r"column 1: loss (\S+), serial \1; 0 of 31418 numbers of gradients differ\n"),
            ("", r"norms that end where a column ends: [1-9]\d+ of 94336 numbers of y differ\n"),
        ],
    },
}
BAD = [("--ranks 0", "--ranks 0"), ("--ranks -1", "--ranks -1"), ("--ranks x", "--ranks x"),
       ("--ranks 2.5", "whole number"), ("--ranks 99999999999999999999", "whole number"),
       ("--ranks", "value is missing"), ("--rank 2", "is --ranks meant?"), ("--what", "--what"),
       ("3", "no such word"), ("-r 3", "two dashes")]
BAD_GRIDS = [("--spatial 0x1", "--spatial 0x1"), ("--spatial 3", "--spatial 3"),
             ("--spatial 3x3x3", "--spatial 3x3x3"), ("--spatial", "value is missing"),
             ("--spatia 2x2", "is --spatial meant?"), ("--what", "--what"), ("3", "no such word")]
ALLOWED_INCLUDES = {"lockstep/parts.h", "math.h", "stdio.h", "stdlib.h", "string.h"}

faults = []


def run(program, line, **environment):
    done = subprocess.run([program] + line.split(), capture_output=True, text=True, check=False,
                          env={**os.environ, **environment}, timeout=120)
    return done.returncode, done.stdout, done.stderr


def expect(holds, *said):
    if not holds:
        faults.append(" ".join(str(word) for word in said))


def expect_refusal(name, program, line, part, **environment):
    status, out, err = run(program, line, **environment)
    one_line = err.startswith(name + ": ") and err.count("\n") == 1 and err.endswith("\n")
    expect(status == 2 and out == "" and one_line and part in err, "refusal:", line, status, err,
           out[:200])


def main():
    root, program, faulty, have_blas = sys.argv[1:5]
    name = os.path.basename(program).removesuffix(".exe")
    chapter = CHAPTERS[name]

    option = chapter.get("option", "--ranks")
    good = ["", ""] + [f"{option} {n}" for n in chapter.get("values", (1, 2, 3, 4, 6, 12))]
    good += chapter["good"]
    if option == "--spatial":
        bad = chapter["bad"] + BAD_GRIDS
    else:
        bad = chapter["bad"] + [(line.replace("--ranks", option), part.replace("--ranks", option))
                                for line, part in BAD if option == "--ranks" or line != "--rank 2"]
    with open(os.path.join(root, "apps", name + ".c"), encoding="utf-8") as file:
        source = file.read()
    if '"gemm"' in source:
        if have_blas == "yes":
            good += ["--gemm openblas", "--gemm=openblas --seed 3"] + chapter.get("openblas", [])
        else:
            expect_refusal(name, program, "--gemm openblas", "OpenBLAS")
            print("skipped: --gemm openblas: built without OpenBLAS")
    outputs = {}
    for line in good:
        status, out, err = run(program, line)
        expect(status == 0 and err == "" and "DIFFERENT" not in out and len(out) > 200,
               "must succeed:", line, status, err, out[-300:])
        if name != "01_ranks_and_barriers":  # which prints times
            expect(outputs.setdefault(line, out) == out, "two runs differ:", line)
    status, out, _ = run(program, "", LOCKSTEP_ISA="scalar")
    expect(status == 0 and outputs.get("", out) == out, "not the same with LOCKSTEP_ISA=scalar")

    status, out, err = run(program, "--help")
    expect(status == 0 and err == "" and out.startswith("Chapter " + str(int(name[:2]))), "--help",
           status, err)
    for option in re.findall(r'ls_option_\w+\("([a-z-]+)"', source):
        expect("--" + option in out, "--help does not show", option)
    for line, part in bad:
        expect_refusal(name, program, line, part)
    expect_refusal(name, program, "", "LOCKSTEP_ISA", LOCKSTEP_ISA="mmx")
    for line, pattern in chapter["lessons"]:
        _, out, _ = run(program, line)
        expect(re.search(pattern, out), "the lesson is not there:", line, pattern, out)

    if name == "01_ranks_and_barriers":
        for line, ranks in (("--fail", 4), ("--fail --ranks 1", 1), ("--fail --ranks 9", 9)):
            status, out, err = run(program, line)
            who = f"rank {ranks // 2}: fire in cells "
            expect(status == 3 and err.startswith(f"{name}: {who}") and err.count("\n") == 1 and
                   out.count(f"gave up after rank {ranks // 2} failed: fire in ") == ranks - 1,
                   line, status, err, out)

    if name == "08_pipeline_schedules":
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.svg")
            status, out, err = run(program, f"--ranks 3 --schedule 1f1b --svg {path}")
            with open(path, encoding="utf-8") as file:
                drawing = xml.etree.ElementTree.parse(file).getroot()
            boxes = [box for box in drawing.iter() if box.tag.endswith("}rect")]
            expect(status == 0 and err == "" and len(boxes) >= 2 * 3 * 4, "--svg", status, err, out)

    if name == "14_spatial_convolution":
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "maps.svg")
            status, out, err = run(program, f"--spatial 2x3 --svg {path}")
            drawing = xml.etree.ElementTree.parse(path).getroot()
            pixels = [box for box in drawing.iter() if box.tag.endswith("}rect")]
            expect(status == 0 and err == "" and len(pixels) >= 6 * 14 * 13 + 2 * 7 * 6, "--svg", err)

    status, out, err = run(faulty, "")
    expect(status == 1 and "DIFFERENT" in out and err == "", "the built-in fault is not found:",
           status, err, out[-300:])

    includes = set(re.findall(r'(?m)^\s*#\s*include\s*[<"]([^>"]+)', source))
    expect(includes <= ALLOWED_INCLUDES, "includes", includes - ALLOWED_INCLUDES)
    with open(os.path.join(root, "apps", "README.md"), encoding="utf-8") as file:
        expect(f"]({name}.c)" in file.read(), "apps/README.md does not list it")

    for fault in faults:
        print(f"{name}: {fault}")
    print(f"{name}: {len(good) + len(bad) + len(chapter['lessons'])} runs, "
          f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
