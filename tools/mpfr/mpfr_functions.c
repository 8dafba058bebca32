#include "mpfr_functions.h"

#include <math.h>

#include "lockstep/base/api.h"

#define DECLARE(name)                                                                              \
    LS_API float ls_##name##_f32(float x);                                                         \
    LS_API double ls_##name##_f64(double x);
#define DECLARE_ARRAY(name) LS_API void ls_##name##_n_f32(float *y, const float *x, size_t n);
DECLARE(exp)
DECLARE(log)
DECLARE(tanh)
DECLARE(erf)
DECLARE(sin)
DECLARE(cos)
DECLARE(rsqrt)
DECLARE_ARRAY(exp)
DECLARE_ARRAY(tanh)
DECLARE_ARRAY(erf)

/* MPFR's 1 / sqrt(-0) is +infinity; IEEE 754's is -infinity. */
static int rsqrt_truth(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t round)
{
    const int minus_zero = mpfr_zero_p(x) && mpfr_signbit(x);
    int inexact = mpfr_rec_sqrt(y, x, round);
    if (minus_zero) mpfr_set_inf(y, -1);
    return inexact;
}

#define BOTH(name) ls_##name##_f32, ls_##name##_f64
const tested_function tested_functions[TESTED_FUNCTIONS] = {
    {"exp", SERIES_EXP, BOTH(exp), ls_exp_n_f32, mpfr_exp, 0.5001, 1.0, 1, -745.0, 710.0},
    {"log", SERIES_LOG, BOTH(log), NULL, mpfr_log, 0.5001, 1.0, 1, 0.0, 4.0},
    {"tanh", SERIES_TANH, BOTH(tanh), ls_tanh_n_f32, mpfr_tanh, 0.5001, 1.0, 1, -20.0, 20.0},
    {"erf", SERIES_ERF, BOTH(erf), ls_erf_n_f32, mpfr_erf, 0.5001, 1.0, 1, -6.0, 6.0},
    {"sin", SERIES_SIN, BOTH(sin), NULL, mpfr_sin, 0.5001, 1.0, 0, -1048576.0, 1048576.0},
    {"cos", SERIES_COS, BOTH(cos), NULL, mpfr_cos, 0.5001, 1.0, 0, -1048576.0, 1048576.0},
    {"rsqrt", SERIES_RSQRT, BOTH(rsqrt), NULL, rsqrt_truth, 1.5, 1.5, 0, 0.0, 16.0},
};

double exact_error(const tested_function *f, double x, double y, int bits)
{
    const int lowest = bits == 24 ? -149 : -1074, beyond = bits == 24 ? 128 : 1024;
    mpfr_t t, d;
    mpfr_init2(t, TRUTH_BITS);
    mpfr_init2(d, TRUTH_BITS);
    mpfr_set_d(d, x, MPFR_RNDN);
    f->truth(t, d, MPFR_RNDN);

    double error;
    const int large = mpfr_inf_p(t) || (mpfr_regular_p(t) && mpfr_get_exp(t) > beyond);
    if (mpfr_nan_p(t) || isnan(y)) {
        error = mpfr_nan_p(t) && isnan(y) ? 0.0 : (double)INFINITY;
    } else if (large && (isinf(y) || mpfr_inf_p(t))) {
        error = isinf(y) && (y < 0) == (mpfr_sgn(t) < 0) ? 0.0 : (double)INFINITY;
    } else {
        /* t = 0.1xxx * 2^exponent: the last of `bits` places weighs 2^(exponent - bits). */
        long unit = mpfr_zero_p(t) ? lowest : (long)mpfr_get_exp(t) - bits;
        if (unit < lowest) unit = lowest;
        if (unit > beyond - bits) unit = beyond - bits;
        if (isinf(y)) {
            mpfr_set_si_2exp(d, y > 0 ? 1 : -1, beyond, MPFR_RNDN);
            mpfr_sub(d, t, d, MPFR_RNDN);
        } else {
            mpfr_sub_d(d, t, y, MPFR_RNDN);
        }
        mpfr_mul_2si(d, d, -unit, MPFR_RNDN);
        error = fabs(mpfr_get_d(d, MPFR_RNDN));
    }
    mpfr_clear(t);
    mpfr_clear(d);
    return error;
}
