/* coefficients.h - constants of the functions.
 * Written by tools/coefficients/make_coefficients.py. They belong to the contract: a change of one
 * bit here is a new contract version. */
#ifndef LS_NUMERICS_COEFFICIENTS_H
#define LS_NUMERICS_COEFFICIENTS_H

#include <stdint.h>

/* 1 / ln 2. */
static const double LS_LOG2_E = 0x1.71547652b82fep+0;
/* The first 42 bits of ln 2: k * LS_LN2_HI is exact for |k| < 2^11. */
static const double LS_LN2_HI = 0x1.62e42fefa3800p-1;
/* The 53 bits after them. */
static const double LS_LN2_LO = 0x1.ef35793c76730p-45;
/* 2 / pi. */
static const double LS_TWO_OVER_PI = 0x1.45f306dc9c883p-1;
/* pi / 2, part 1, of 32 bits: k * LS_PIO2_1 is exact for |k| <= 2^21. */
static const double LS_PIO2_1 = 0x1.921fb54400000p+0;
/* pi / 2, part 2, of 32 bits: k * LS_PIO2_2 is exact for |k| <= 2^21. */
static const double LS_PIO2_2 = 0x1.0b4611a600000p-34;
/* pi / 2, part 3, of 32 bits: k * LS_PIO2_3 is exact for |k| <= 2^21. */
static const double LS_PIO2_3 = 0x1.3198a2e000000p-69;
/* The 53 bits after them. */
static const double LS_PIO2_4 = 0x1.b839a252049c1p-104;
/* pi / 2. */
static const double LS_PIO2_HI = 0x1.921fb54442d18p+0;
/* What LS_PIO2_HI lacks. */
static const double LS_PIO2_LO = 0x1.1a62633145c07p-54;

/* e^r = 1 + r + r^2 P(r), |r| <= ln 2 / 2, relative to e^r: for binary32 results.
 * Error below 2^-51. */
static const double LS_EXP_SHORT[9] = {
    0x1.ffffffffffed2p-2,
    0x1.55555555507aap-3,
    0x1.555555558904bp-5,
    0x1.11111125b93e1p-7,
    0x1.6c16c0c86e2fep-10,
    0x1.a0198d4452545p-13,
    0x1.a01b7b59a422dp-16,
    0x1.72e931e3a572ep-19,
    0x1.2708c9518b20dp-22,
};

/* e^r = 1 + r + r^2 / 2 + r^3 Q(r), |r| <= ln 2 / 2, relative to e^r: for binary64
 * results.
 * Error below 2^-59. */
static const double LS_EXP_LONG[10] = {
    0x1.555555555555ap-3,
    0x1.5555555555531p-5,
    0x1.111111110efb6p-7,
    0x1.6c16c16c26f48p-10,
    0x1.a01a01b26e1e5p-13,
    0x1.a01a0152bd512p-16,
    0x1.71ddf2634fff1p-19,
    0x1.27e58c48523e1p-22,
    0x1.af6877ce643b5p-26,
    0x1.1e68438b60b5ep-29,
};

/* log((1 + s) / (1 - s)) = 2 s + s^3 R(s^2), |s| <= (sqrt 2 - 1) / (sqrt 2 + 1),
 * relative to 2 s.
 * Error below 2^-61. */
static const double LS_LOG[8] = {
    0x1.5555555555555p-1,
    0x1.9999999999dffp-2,
    0x1.249249242b3e7p-2,
    0x1.c71c72590179cp-3,
    0x1.745cde3462516p-3,
    0x1.3b20abc5c2ab9p-3,
    0x1.0f5cc4506d1bap-3,
    0x1.0f633bbc2b1f4p-3,
};

/* sin r = r + r^3 S(r^2), |r| <= pi / 4, relative to r.
 * Error below 2^-57. */
static const double LS_SIN[7] = {
    -0x1.5555555555555p-3,
    0x1.111111111110bp-7,
    -0x1.a01a01a018ae3p-13,
    0x1.71de3a53396a0p-19,
    -0x1.ae6452983b3ecp-26,
    0x1.612092adb8dc6p-33,
    -0x1.aaa542882b501p-41,
};

/* cos r = 1 - r^2 / 2 + r^4 C(r^2), |r| <= pi / 4, relative to cos r.
 * Error below 2^-59. */
static const double LS_COS[7] = {
    0x1.5555555555555p-5,
    -0x1.6c16c16c16c0fp-10,
    0x1.a01a01a018cc6p-16,
    -0x1.27e4fb75eb44fp-22,
    0x1.1eed8c9079a35p-29,
    -0x1.939323c115290p-37,
    0x1.aabcedc3e40dep-45,
};

/* -log(1 - erf x) = x (c[0] + x G(x)), 0 <= x <= 4, c[0] = 2 / sqrt(pi) and G the rest,
 * weighted so that the error is relative to erf x: for binary32 results.
 * Error below 2^-51. */
static const double LS_ERF_SHORT[20] = {
    0x1.20dd750429b6dp+0,
    0x1.45f306dc9c766p-1,
    0x1.a4f4e2a1bd73ap-4,
    -0x1.39668590997fbp-6,
    -0x1.b6b6c2173e358p-13,
    0x1.bca6c6318f827p-10,
    -0x1.3568e10077854p-11,
    0x1.b3f2ac56a733ep-16,
    0x1.0d42caec022a3p-14,
    -0x1.e898b7337ebaep-16,
    0x1.4d35550a14e38p-19,
    0x1.07c41ad8faf43p-18,
    -0x1.71e9f67a2b118p-19,
    0x1.219371df68b62p-20,
    -0x1.3c7af789e78bcp-22,
    0x1.f7c8ba95852bep-25,
    -0x1.20ef84cb756c8p-27,
    0x1.c6d7a23255538p-31,
    -0x1.b8bc5f21ee677p-35,
    0x1.8ca9c19cbe3b0p-40,
};

/* The bits of 2 / pi after the binary point, most significant first, behind a word
 * of zeros. */
static const uint64_t LS_TWO_OVER_PI_BITS[22] = {
    0x0000000000000000,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
    0xa9e391615ee61b08,
};

#endif
