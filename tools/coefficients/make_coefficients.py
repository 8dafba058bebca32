#!/usr/bin/env python3
"""Writes lib/numerics/coefficients.h and lib/numerics/erf_table.h (needs mpmath).

    tools/coefficients/make_coefficients.py            write both headers
    tools/coefficients/make_coefficients.py --check    say whether the headers are what this writes

The polynomials are minimax for the weight named beside each: Remez' exchange in 60 digits, then
each coefficient rounded to binary64. The error printed into the header is that of the rounded
coefficients evaluated exactly; what the evaluation in binary64 adds is measured by tools/mpfr.
The coefficients are constants of the contract: a change of one is a new contract version.
"""
import pathlib
import sys

from mpmath import mp, mpf

mp.dps = 60
LN2 = mp.log(2)


def round64(x):
    """The binary64 nearest to x, as an mpf."""
    return mpf(float(x))


def hex64(x):
    """x, a binary64 value, as a C literal."""
    return float(x).hex()


def remez(f, weight, low, high, terms):
    """The p = sum of c[j] x^j, j < terms, with the least max |weight (f - p)| on [low, high]."""
    points = terms + 1
    middle, half = (low + high) / 2, (high - low) / 2
    xs = [middle - half * mp.cos(mp.pi * (i + mpf(1) / 2) / points) for i in range(points)]
    for _ in range(20):
        # Solve p(x_i) + (-1)^i E / weight(x_i) = f(x_i) for the coefficients and E.
        a = mp.matrix(points, points)
        b = mp.matrix(points, 1)
        for i, x in enumerate(xs):
            for j in range(terms):
                a[i, j] = x**j
            a[i, terms] = (-1) ** i / weight(x)
            b[i] = f(x)
        solution = mp.lu_solve(a, b)
        c = [solution[j] for j in range(terms)]
        # The next points: where the error is largest between two changes of its sign.
        steps = 40 * points
        runs = []
        worst = mpf(0)
        for i in range(steps + 1):
            x = middle - half * mp.cos(mp.pi * mpf(i) / steps)
            e = weight(x) * (f(x) - mp.polyval(c[::-1], x))
            worst = max(worst, abs(e))
            if runs and (runs[-1][1] >= 0) == (e >= 0):
                if abs(e) > abs(runs[-1][1]):
                    runs[-1] = (x, e)
            else:
                runs.append((x, e))
        while len(runs) > points:
            runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
        assert len(runs) == points, "the error does not alternate"
        xs = [x for x, _ in runs]
        if worst < abs(solution[terms]) * mpf("1.001"):
            break
    return c


def largest_error(f, weight, low, high, c):
    steps = 2000
    return max(
        abs(weight(x) * (f(x) - mp.polyval(c[::-1], x)))
        for x in (low + (high - low) * mpf(i) / steps for i in range(steps + 1))
    )


def polynomial(name, comment, f, weight, low, high, terms, before=()):
    """The lines of one constant array: the coefficients `before`, then the polynomial's, lowest
    power first."""
    c = [round64(x) for x in remez(f, weight, low, high, terms)]
    error = mp.log(largest_error(f, weight, low, high, c), 2)
    comment = comment + ["Error below 2^%d. */" % mp.ceil(error)]
    lines = ["/* " + comment[0]] + [" * " + line for line in comment[1:]]
    c = [round64(x) for x in before] + c
    lines.append("static const double %s[%d] = {" % (name, len(c)))
    lines += ["    %s," % hex64(x) for x in c]
    lines += ["};", ""]
    return lines


def series(term, x, count=40):
    return mp.fsum(term(k) * x**k for k in range(count))


def positive(w):
    """A weight that vanishes at a node would make the equations singular."""
    return lambda x: max(abs(w(x)), mpf(10) ** -25)


def constant(name, value, comment):
    return ["/* %s. */" % comment, "static const double %s = %s;" % (name, hex64(value))]


def split(x, bits):
    """x cut to `bits` significant bits, as an mpf."""
    _, exponent = mp.frexp(x)
    unit = mpf(2) ** (exponent - bits)
    return mp.floor(x / unit) * unit


HEAD = """\
/* {name} - {what}.
 * Written by tools/coefficients/make_coefficients.py. They belong to the contract: a change of one
 * bit here is a new contract version. */
#ifndef LS_NUMERICS_{guard}_H
#define LS_NUMERICS_{guard}_H
"""


def head(name, what):
    return HEAD.format(name=name, what=what, guard=name[:-2].upper())


def coefficients():
    out = [head("coefficients.h", "constants of the functions"), "#include <stdint.h>\n"]

    ln2_hi = split(LN2, 42)
    out += constant("LS_LOG2_E", round64(1 / LN2), "1 / ln 2")
    out += constant("LS_LN2_HI", ln2_hi,
                    "The first 42 bits of ln 2: k * LS_LN2_HI is exact for |k| < 2^11")
    out += constant("LS_LN2_LO", round64(LN2 - ln2_hi), "The 53 bits after them")
    pio2 = mp.pi / 2
    out += constant("LS_TWO_OVER_PI", round64(1 / pio2), "2 / pi")
    rest = pio2
    for i in (1, 2, 3):
        part = split(rest, 32)
        out += constant("LS_PIO2_%d" % i, part,
                        "pi / 2, part %d, of 32 bits: k * LS_PIO2_%d is exact for |k| <= 2^21"
                        % (i, i))
        rest -= part
    out += constant("LS_PIO2_4", round64(rest), "The 53 bits after them")
    out += constant("LS_PIO2_HI", round64(pio2), "pi / 2")
    out += constant("LS_PIO2_LO", round64(pio2 - round64(pio2)), "What LS_PIO2_HI lacks")
    out.append("")

    h = LN2 / 2 * mpf("1.0001")
    out += polynomial(
        "LS_EXP_SHORT",
        ["e^r = 1 + r + r^2 P(r), |r| <= ln 2 / 2, relative to e^r: for binary32 results."],
        lambda r: series(lambda k: 1 / mp.factorial(k + 2), r),
        positive(lambda r: r**2 / mp.exp(r)),
        -h, h * mpf("1.0001"), 9)
    out += polynomial(
        "LS_EXP_LONG",
        ["e^r = 1 + r + r^2 / 2 + r^3 Q(r), |r| <= ln 2 / 2, relative to e^r: for binary64",
         "results."],
        lambda r: series(lambda k: 1 / mp.factorial(k + 3), r),
        positive(lambda r: r**3 / mp.exp(r)),
        -h, h * mpf("1.0001"), 10)

    z = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mpf("1.0001")
    out += polynomial(
        "LS_LOG",
        ["log((1 + s) / (1 - s)) = 2 s + s^3 R(s^2), |s| <= (sqrt 2 - 1) / (sqrt 2 + 1),",
         "relative to 2 s."],
        lambda t: series(lambda k: mpf(2) / (2 * k + 3), t),
        positive(lambda t: t / 2),
        mpf(0), z, 8)

    q = (mp.pi / 4 * mpf("1.0001")) ** 2
    out += polynomial(
        "LS_SIN",
        ["sin r = r + r^3 S(r^2), |r| <= pi / 4, relative to r."],
        lambda t: series(lambda k: mpf(-1) ** (k + 1) / mp.factorial(2 * k + 3), t),
        positive(lambda t: t),
        mpf(0), q, 7)
    out += polynomial(
        "LS_COS",
        ["cos r = 1 - r^2 / 2 + r^4 C(r^2), |r| <= pi / 4, relative to cos r."],
        lambda t: series(lambda k: mpf(-1) ** k / mp.factorial(2 * k + 4), t),
        positive(lambda t: t**2 / mp.cos(mp.sqrt(t))),
        mpf(0), q, 7)

    # The first coefficient alone decides the results for small x: it is 2 / sqrt(pi) itself.
    first = 2 / mp.sqrt(mp.pi)
    out += polynomial(
        "LS_ERF_SHORT",
        ["-log(1 - erf x) = x (c[0] + x G(x)), 0 <= x <= 4, c[0] = 2 / sqrt(pi) and G the rest,",
         "weighted so that the error is relative to erf x: for binary32 results."],
        lambda x: (-mp.log(mp.erfc(x)) / x - first) / x if x > 0 else 2 / mp.pi,
        lambda x: mp.erfc(x) / mp.erf(x) * x**2 if x > 0 else mpf(10) ** -25,
        mpf(0), mpf(4), 19, [first])

    words = 21
    bits = mp.workprec(64 * words + 64)
    with bits:
        digits = int(mp.floor(2 / mp.pi * mpf(2) ** (64 * words)))
    out += ["/* The bits of 2 / pi after the binary point, most significant first, behind a word",
            " * of zeros. */",
            "static const uint64_t LS_TWO_OVER_PI_BITS[%d] = {" % (words + 1),
            "    0x0000000000000000,"]
    for i in range(words):
        out.append("    0x%016x," % (digits >> 64 * (words - 1 - i) & (1 << 64) - 1))
    out += ["};", "", "#endif"]
    return "\n".join(out) + "\n"


def erf_table():
    out = [head("erf_table.h", "erf and its derivative at multiples of 1/16")]
    out += ["/* Row i: erf(i / 16) and (2 / sqrt pi) exp(-(i / 16)^2), each with what its binary64",
            " * lacks. */",
            "static const double LS_ERF_TABLE[%d][4] = {" % 97]
    for i in range(97):
        x = mpf(i) / 16
        row = []
        for v in (mp.erf(x), 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)):
            row += [round64(v), round64(v - round64(v))]
        out.append("    {" + ", ".join(hex64(v) for v in row) + "},")
    out += ["};", "", "#endif"]
    return "\n".join(out) + "\n"


def main():
    folder = pathlib.Path(__file__).resolve().parents[2] / "lib" / "numerics"
    status = 0
    for name, text in (("coefficients.h", coefficients()), ("erf_table.h", erf_table())):
        path = folder / name
        if sys.argv[1:] == ["--check"]:
            same = path.exists() and path.read_text() == text
            print("%s: %s" % (path, "as generated" if same else "differs"))
            status |= not same
        else:
            path.write_text(text)
            print("wrote", path)
    return status


if __name__ == "__main__":
    sys.exit(main())
