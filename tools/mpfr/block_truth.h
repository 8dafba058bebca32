/* block_truth.h - the true values of a function over a run of neighbouring binary32 numbers.
 *
 * MPFR takes microseconds per value; all 2^32 arguments of seven functions would take a day. So
 * MPFR gives the value at the middle of a block of 4096 neighbours, and a Taylor series in binary64
 * carries it to the others: the value in two parts, so that the distance of a binary32 result from
 * it is good to about 2^-20 of the result's last place, less where the value is tiny beside the
 * function's slope (the uncertainty says how much). Every series is held against MPFR at both ends
 * of its block, where it is worst; and what it cannot decide, whether a result is the correctly
 * rounded one, is asked of MPFR. Sines and cosines of large arguments start from the nearest of
 * 1024 points around the circle, at a distance found in 128-bit integers. */
#ifndef LS_TOOLS_MPFR_BLOCK_TRUTH_H
#define LS_TOOLS_MPFR_BLOCK_TRUTH_H

#include <stdint.h>

#include "mpfr_functions.h"

enum { BLOCK = 4096, SERIES_TERMS = 11 };

__extension__ typedef unsigned __int128 uint128;
__extension__ typedef __int128 int128;

typedef enum block_kind {
    BLOCK_SERIES = 0,
    BLOCK_CIRCLE, /* sin and cos of large arguments                                    */
    BLOCK_SAME,   /* every result is `same`: saturated, or NaN                         */
    BLOCK_DIRECT  /* MPFR for each: zero, infinity, the singularities of log and rsqrt */
} block_kind;

typedef struct block_truth {
    block_kind kind;
    series_rule rule;
    float same;
    double middle, scale;   /* t = (x - middle) * scale lies between -1 and 1         */
    double hi, lo;          /* the value there                                        */
    double c[SERIES_TERMS]; /* value = (hi + lo) + c[1] t + c[2] t^2 + ...            */
    double uncertainty;     /* bound for the absolute error of the series             */
    uint128 turn;           /* circle: 2^e / (2 pi) modulo 1, times 2^128; x = m 2^e  */
} block_truth;

/* Prepares the points around the circle; once, before any thread. */
void block_truth_setup(void);

/* The truth over the BLOCK arguments whose bits follow `first`, a multiple of BLOCK. */
void block_truth_begin(block_truth *truth, const tested_function *f, uint32_t first);

/* y - f(x) in units in the last place of f(x) as binary32; *ret_uncertainty bounds the error of
 * that. For BLOCK_SERIES and BLOCK_CIRCLE. */
double block_error(const block_truth *truth, float x, float y, double *ret_uncertainty);

#endif
