/* mpfr_functions.h - the functions under test, each beside MPFR's. */
#ifndef LS_TOOLS_MPFR_FUNCTIONS_H
#define LS_TOOLS_MPFR_FUNCTIONS_H

#include <mpfr.h>
#include <stddef.h>

/* How a function continues from a point: which rule gives its Taylor coefficients. */
typedef enum series_rule {
    SERIES_EXP = 0,
    SERIES_LOG,
    SERIES_TANH,
    SERIES_ERF,
    SERIES_SIN,
    SERIES_COS,
    SERIES_RSQRT
} series_rule;

/* Bounds are errors in ULPs from the exact value: a result within 1.5 is at most 1 ULP from the
 * correctly rounded one. */
typedef struct tested_function {
    const char *name;
    series_rule rule;
    float (*one_f32)(float x);
    double (*one_f64)(double x);
    void (*array_f32)(float *y, const float *x, size_t n); /* NULL: there is none */
    int (*truth)(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t round);
    double bound_f32, bound_f64;
    int rising;               /* must not fall from one binary32 argument to the next */
    double low_f64, high_f64; /* where half of the binary64 arguments are drawn from  */
} tested_function;

enum { TESTED_FUNCTIONS = 7 };
extern const tested_function tested_functions[TESTED_FUNCTIONS];

enum { TRUTH_BITS = 200 };

/* |y - f(x)| in units in the last place of f(x), for results of 24 or 53 bits. Both NaN, or the
 * right infinity: 0. One NaN: infinity. An infinite y counts as the power of two after the largest
 * number. */
double exact_error(const tested_function *f, double x, double y, int bits);

#endif
