#include "block_truth.h"

#include <math.h>
#include <string.h>

#include "numerics/double_double.h"

/* From here on sin and cos go by the circle; below, the series reaches over the whole block. */
static const double circle_from = 256.0;

enum { CIRCLE_POINTS = 1024, CIRCLE_BITS = 10, LONG_BITS = 512 };

static double circle[CIRCLE_POINTS][4]; /* sin in two parts, cos in two parts */
static mpfr_t inverse_turn;             /* 1 / (2 pi) */

/* value = hi + lo; value is used up. */
static void split_value(mpfr_ptr value, double *hi, double *lo)
{
    *hi = mpfr_get_d(value, MPFR_RNDN);
    mpfr_sub_d(value, value, *hi, MPFR_RNDN);
    *lo = mpfr_get_d(value, MPFR_RNDN);
}

void block_truth_setup(void)
{
    mpfr_t turn, angle, s, c;
    mpfr_inits2(LONG_BITS, inverse_turn, turn, angle, s, c, (mpfr_ptr)0);
    mpfr_const_pi(turn, MPFR_RNDN);
    mpfr_mul_2ui(turn, turn, 1, MPFR_RNDN);
    mpfr_ui_div(inverse_turn, 1, turn, MPFR_RNDN);
    for (int i = 0; i < CIRCLE_POINTS; i++) {
        mpfr_mul_si(angle, turn, i, MPFR_RNDN);
        mpfr_div_2ui(angle, angle, CIRCLE_BITS, MPFR_RNDN);
        mpfr_sin_cos(s, c, angle, MPFR_RNDN);
        split_value(s, &circle[i][0], &circle[i][1]);
        split_value(c, &circle[i][2], &circle[i][3]);
        if (i % (CIRCLE_POINTS / 4) == 0) { /* 0 and 1, up to the rounding of the angle */
            for (int j = 0; j < 4; j++) circle[i][j] = nearbyint(circle[i][j]);
        }
    }
    mpfr_clears(turn, angle, s, c, (mpfr_ptr)0);
}

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^exponent / (2 pi) modulo 1, as 128 bits after the point. */
static uint128 fraction_of_turn(int exponent)
{
    mpfr_t f;
    mpfr_init2(f, LONG_BITS);
    mpfr_mul_2si(f, inverse_turn, exponent, MPFR_RNDN);
    uint128 turn = 0;
    for (int i = 0; i < 4; i++) {
        mpfr_frac(f, f, MPFR_RNDN);
        mpfr_mul_2ui(f, f, 32, MPFR_RNDN);
        turn = turn << 32 | mpfr_get_ui(f, MPFR_RNDZ);
    }
    mpfr_clear(f);
    return turn;
}

/* c[1] ... of 1 - y^2 = y', where c[0] = y and first = 1 - y^2 at the middle. */
static void tanh_series(double *c, double first, double h)
{
    c[1] = h * first;
    for (int n = 1; n + 1 < SERIES_TERMS; n++) {
        double square = 0.0;
        for (int i = 0; i <= n; i++) square += c[i] * c[n - i];
        c[n + 1] = -h * square / (n + 1);
    }
}

/* c[1] ... of y' = slope e^(x^2 - (x + s)^2), whose own series u follows from u' = -2 (x + s) u. */
static void erf_series(double *c, double slope, double x, double h)
{
    double before = 0.0, u = 1.0;
    for (int n = 0; n + 1 < SERIES_TERMS; n++) {
        c[n + 1] = slope * h * u / (n + 1);
        double next = (-2.0 * x * h * u - 2.0 * h * h * before) / (n + 1);
        before = u;
        u = next;
    }
}

/* Coefficients of the function's series about the middle in t = (x - middle) / h. */
static void make_series(block_truth *truth, const tested_function *f, double h)
{
    mpfr_t x, v, w;
    mpfr_inits2(TRUTH_BITS, x, v, w, (mpfr_ptr)0);
    mpfr_set_d(x, truth->middle, MPFR_RNDN);
    f->truth(v, x, MPFR_RNDN);

    double *c = truth->c;
    c[0] = mpfr_get_d(v, MPFR_RNDN);
    const double q = h / truth->middle;
    switch (f->rule) {
    case SERIES_EXP:
        for (int n = 1; n < SERIES_TERMS; n++) c[n] = c[n - 1] * h / n;
        break;
    case SERIES_LOG:
        c[1] = q;
        for (int n = 2; n < SERIES_TERMS; n++) c[n] = -c[n - 1] * q * (n - 1) / n;
        break;
    case SERIES_RSQRT:
        for (int n = 1; n < SERIES_TERMS; n++) c[n] = -c[n - 1] * q * (2 * n - 1) / (2 * n);
        break;
    case SERIES_TANH: /* 1 - y^2 by MPFR: it cancels where y is near 1 */
        mpfr_sqr(w, v, MPFR_RNDN);
        mpfr_ui_sub(w, 1, w, MPFR_RNDN);
        tanh_series(c, mpfr_get_d(w, MPFR_RNDN), h);
        break;
    case SERIES_ERF:
        mpfr_sqr(w, x, MPFR_RNDN);
        mpfr_neg(w, w, MPFR_RNDN);
        mpfr_exp(w, w, MPFR_RNDN);
        erf_series(c, 1.1283791670955126 * mpfr_get_d(w, MPFR_RNDN), truth->middle, h);
        break;
    case SERIES_SIN:
    case SERIES_COS: {
        mpfr_sin(w, x, MPFR_RNDN);
        const double s = mpfr_get_d(w, MPFR_RNDN);
        mpfr_cos(w, x, MPFR_RNDN);
        const double k = mpfr_get_d(w, MPFR_RNDN);
        const double derivatives[5] = {s, k, -s, -k, s};
        double power = 1.0;
        for (int n = 1; n < SERIES_TERMS; n++) {
            power *= h / n;
            c[n] = derivatives[n % 4 + (f->rule == SERIES_COS)] * power;
        }
        break;
    }
    }
    split_value(v, &truth->hi, &truth->lo);
    double slope = 0.0;
    for (int n = 1; n < SERIES_TERMS; n++) slope += fabs(c[n]);
    truth->uncertainty = 0x1p-51 * slope;
    mpfr_clears(x, v, w, (mpfr_ptr)0);
}

/* Whether every result of the block, whose arguments begin at low in magnitude, is known without
 * observation; then *ret_same is it. */
static int is_saturated(series_rule rule, int negative, double low, float *ret_same)
{
    switch (rule) {
    case SERIES_EXP: /* e^96 > 2^129, e^-128 < 2^-151 */
        *ret_same = negative ? 0.0f : INFINITY;
        return low >= (negative ? 128.0 : 96.0);
    case SERIES_TANH: /* 1 - tanh 16 < 2^-45; of erf still less */
    case SERIES_ERF:
        *ret_same = negative ? -1.0f : 1.0f;
        return low >= 16.0;
    case SERIES_LOG:
    case SERIES_RSQRT:
        *ret_same = NAN;
        return negative;
    case SERIES_SIN:
    case SERIES_COS:
        break;
    }
    return 0;
}

void block_truth_begin(block_truth *truth, const tested_function *f, uint32_t first)
{
    memset(truth, 0, sizeof *truth);
    truth->rule = f->rule;
    const uint32_t magnitude = first & 0x7fffffffu;
    const int negative = first >> 31 != 0;
    const int circular = f->rule == SERIES_SIN || f->rule == SERIES_COS;
    const int singular = f->rule == SERIES_LOG || f->rule == SERIES_RSQRT;
    const double low = (double)float_of_bits(magnitude);
    const int exponent = (int)(magnitude >> 23);
    const int unit = (exponent > 0 ? exponent : 1) - 150; /* neighbours are 2^unit apart */
    const double h = ldexp(BLOCK / 2, unit);
    truth->middle = negative ? -(low + h) : low + h;
    truth->scale = 1.0 / h;

    if (magnitude == 0 || magnitude == 0x7f800000u) {
        truth->kind = BLOCK_DIRECT;
    } else if (exponent == 255) {
        truth->kind = BLOCK_SAME;
        truth->same = NAN;
    } else if (is_saturated(f->rule, negative, low, &truth->same)) {
        truth->kind = BLOCK_SAME;
    } else if (singular && (h > low * 0x1p-9 || fabs(low + h - 1.0) < 0x1p-10)) {
        truth->kind = BLOCK_DIRECT;
    } else if (circular && low >= circle_from) {
        truth->kind = BLOCK_CIRCLE;
        truth->turn = fraction_of_turn(unit);
    } else {
        truth->kind = BLOCK_SERIES;
        make_series(truth, f, h);
    }
}

/* The value at x as hi (returned) and a smaller rest. */
static double series_value(const block_truth *truth, double x, double *ret_rest)
{
    const double t = (x - truth->middle) * truth->scale;
    double p = truth->c[SERIES_TERMS - 1];
    for (int n = SERIES_TERMS - 2; n > 0; n--) p = p * t + truth->c[n];
    *ret_rest = truth->lo + p * t;
    return truth->hi;
}

static double circle_value(const block_truth *truth, float x, double *ret_rest)
{
    const double radians = 0x1.921fb54442d18p+2 * 0x1p-128; /* 2 pi / 2^128 */
    const int after = 128 - CIRCLE_BITS;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint128 turn = truth->turn * ((bits & 0x7fffffu) | 0x800000u);
    const uint128 nearest = (turn + ((uint128)1 << (after - 1))) >> after; /* the top 10 bits */
    const double *point = circle[(unsigned)nearest];
    const double d = (double)(int128)(turn - (nearest << after)) * radians; /* |d| <= pi / 1024 */

    const double z = d * d;
    const double sin_d = d - d * z * (1.0 / 6 - z * (1.0 / 120 - z * (1.0 / 5040)));
    const double versin_d = z * (1.0 / 2 - z * (1.0 / 24 - z * (1.0 / 720 - z * (1.0 / 40320))));
    const double s = point[0], c = point[2];
    if (truth->rule == SERIES_COS) {
        *ret_rest = point[3] - (s * sin_d + c * versin_d);
        return c;
    }
    const double sign = bits >> 31 ? -1.0 : 1.0;
    *ret_rest = sign * (point[1] + (c * sin_d - s * versin_d));
    return sign * s;
}

double block_error(const block_truth *truth, float x, float y, double *ret_uncertainty)
{
    const int series = truth->kind == BLOCK_SERIES;
    double rest;
    const double hi =
        series ? series_value(truth, (double)x, &rest) : circle_value(truth, x, &rest);
    const double value = hi + rest;
    int exponent = (int)(ls_bits_of(value) >> 52 & 0x7ff) - 1023;
    if (exponent < -126) exponent = -126;
    if (exponent > 127) exponent = 127;
    const double per_unit = ls_power_of_two((uint64_t)(1023 + 23 - exponent));
    *ret_uncertainty = 0x1p-24 + (series ? truth->uncertainty : 0x1p-58) * per_unit;
    if (isinf(y)) {
        if ((y > 0) == (value > 0) && fabs(value) >= 0x1p128) return 0.0;
        y = y > 0 ? 0x1.fffffep127f : -0x1.fffffep127f;
        return ((double)y - hi - rest) * per_unit + (y > 0 ? 1.0 : -1.0);
    }
    return (((double)y - hi) - rest) * per_unit;
}
