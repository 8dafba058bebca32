#!/usr/bin/env python3
"""Writes test/numerics/function_cases.h: chosen arguments of the functions and their correctly
rounded values, computed by mpmath (needs mpmath).

The arguments are places where an implementation goes wrong: ends of the range, the first value
that overflows or vanishes, zeros of the reduced argument, borders between two polynomials, and the
numbers nearest to multiples of pi / 2 (16367173 * 2^72 in binary32, 6381956970095103 * 2^797 in
binary64).
"""
import pathlib
import struct

from mpmath import mp, mpf


def nearest(value, bits, lowest, beyond):
    """value to `bits` significant bits, with subnormals; infinity from 2^beyond on."""
    if value == 0:
        return 0.0
    _, exponent = mp.frexp(value)
    unit = mpf(2) ** max(int(exponent) - bits, lowest)
    rounded = mp.nint(value / unit) * unit
    if abs(rounded) >= mpf(2) ** beyond:
        return float("inf") if value > 0 else -float("inf")
    return float(rounded)


def nearest32(value):
    return nearest(value, 24, -149, 128)


def nearest64(value):
    return nearest(value, 53, -1074, 1024)


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def literal(x, suffix=""):
    if x == float("inf"):
        return "INFINITY" if suffix else "(double)INFINITY"
    return x.hex() + suffix


FUNCTIONS = {
    "exp": mp.exp, "log": mp.log, "tanh": mp.tanh, "erf": mp.erf, "sin": mp.sin, "cos": mp.cos,
}

# Exact in binary32 after rounding to it.
ARGUMENTS = {
    "exp": [
        1e-45, -1e-45, 2**-24, 1, -1, 0.5, 10, 88.5, 88.72283, 88.722839, 88.72284, -87.3,
        -87.33655, -103.2, -103.97207, -103.97208, -104, 0.3465736, -0.3465736, 11.5, -20.25,
    ],
    "log": [
        1e-45, 1.17549435e-38, 2**-126 * 0.5, 0.5, 0.70710677, 0.70710683, 0.99999994,
        1.0000001, 1.5, 1.41421354, 1.4142137, 2, 10, 3.4028235e38, 1e-20, 1e20, 0.9, 1.1,
    ],
    "tanh": [
        1e-45, 1e-30, 2**-13, 2**-12, 0.001, 0.1, 0.17328, 0.17329, 0.25, 0.5, 1, 2, 5, 8.5, 9,
        9.0108, 9.0109, 9.5, -0.3, -3, -9.01,
    ],
    "erf": [
        1e-45, 1e-39, 1e-30, 2**-12, 0.001, 0.03125, 0.03126, 0.1, 0.5, 0.84375, 1, 1.25, 2,
        2.857, 3, 3.8, 3.83, 3.85, 3.9192059, 3.92, 3.9999998, -0.2, -2.5,
    ],
    "sin": [
        1e-45, 2**-14, 0.001, 0.1, 0.7853981, 0.7853982, 1, 1.5707963, 1.5707964, 3.1415925,
        3.1415927, 3.141593, 6.2831855, 22, 355, 1e3, 16367173 * 2.0**72, -0.5, -355, 1e6,
        1048575.9, 1048576, 1048577, 1e10, 2**24, 1e20, 3.4028235e38, -3.4028235e38,
    ],
    "cos": [
        1e-45, 2**-13, 0.001, 0.1, 0.7853981, 0.7853982, 1, 1.5707963, 1.5707964, 3.1415925,
        3.1415927, 6.2831855, 11, 33, 355, 1e3, 16367173 * 2.0**72, -0.5, -11, 1e6, 1048575.9,
        1048576, 1048577, 1e10, 1e20, 3.4028235e38, -3.4028235e38,
    ],
}

# Binary64 only.
ARGUMENTS_F64 = {
    "exp": [
        709.782712893384, 709.7827128933841, -708.3964185322641, -744.4400719213812,
        -745.1332191019411, 2**-53, -2**-54, 1e-300,
    ],
    "log": [
        5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1 + 2**-52, 1 - 2**-53,
        0.7071067811865475, 0.7071067811865476, 1e-310,
    ],
    "tanh": [
        5e-324, 1e-300, 3.7252902984619136e-09, 3.725290298461914e-09, 1e-5, 19.0615,
        19.06154746539849, 18.5,
    ],
    "erf": [
        5e-324, 1e-310, 1e-300, 8.67e-19, 1e-18, 1e-5, 5.8, 5.863584748755167, 5.9, 5.92,
    ],
    "sin": [
        6381956970095103 * 2.0**797, 5e-324, 7.4e-9, 7.6e-9, 1.7976931348623157e308,
        3.141592653589793, 1e22, 1e15, 1048575.9999999999, 2**53, -1e300, 6.283185307179586,
    ],
    "cos": [
        6381956970095103 * 2.0**797, 5e-324, 1.7976931348623157e308, 1.5707963267948966, 1e22,
        1e15, 1048575.9999999999, -1e300, 4.71238898038469,
    ],
}

HEAD = """\
/* function_cases.h - correctly rounded values of the functions at chosen places.
 * Written by tools/coefficients/make_cases.py with mpmath. */
#ifndef LS_TEST_FUNCTION_CASES_H
#define LS_TEST_FUNCTION_CASES_H

#include <math.h>

/* An argument that is exact in both precisions, and the rounded value in each. */
struct function_case {
    double x;
    float f32;
    double f64;
};
"""


def main():
    out = [HEAD]
    for name, function in FUNCTIONS.items():
        out.append("static const struct function_case %s_cases[] = {" % name)
        for x in map(float32, ARGUMENTS[name]):
            mp.dps = 60 if abs(x) < 1e6 else 120
            value = function(mpf(x))
            out.append("    {%s, %s, %s}," % (
                x.hex(), literal(nearest32(value), "f"), literal(nearest64(value))))
        out += ["};", ""]
    for name, function in FUNCTIONS.items():
        out.append("static const double %s_cases_f64[][2] = {" % name)
        for x in map(float, ARGUMENTS_F64[name]):
            mp.dps = 60 if abs(x) < 1e6 else 420
            out.append("    {%s, %s}," % (x.hex(), literal(nearest64(function(mpf(x))))))
        out += ["};", ""]
    out.append("#endif")
    folder = pathlib.Path(__file__).resolve().parents[2] / "test" / "numerics"
    (folder / "function_cases.h").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
