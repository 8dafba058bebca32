/* row_sum.c - sums along a row that no layout cuts (contract rule 10).
 *
 * The 16 lanes are an array that the compiler keeps in vector registers. With lanes of -0 to begin
 * with, every element is simply added, because x + (-0) = x for every x, -0 included. One addition
 * per lane is in flight at a time whatever the vector width, so wider instruction sets than the
 * base one gain nothing here: the time is 16 elements per latency of an addition. */
#include "lockstep/numerics/row_sum.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

/* T(16) by halves in place: neighbours first. */
#define TREE_OF_LANES(lane)                                                                        \
    do {                                                                                           \
        for (size_t width_ = LANES / 2; width_ > 0; width_ /= 2)                                   \
            for (size_t l_ = 0; l_ < width_; l_++) lane[l_] = lane[2 * l_] + lane[2 * l_ + 1];     \
    } while (0)

/* The three sums differ in their term only; `TERM(i)` is one rounded expression of element i. */
#define SUM_OF_LANES(n, TERM)                                                                      \
    do {                                                                                           \
        ls_real lane_[LANES];                                                                      \
        size_t i_ = 0;                                                                             \
        if ((n) == 0) return (ls_real)0;                                                           \
        for (size_t l_ = 0; l_ < LANES; l_++) lane_[l_] = (ls_real)-0.0;                           \
        for (; i_ + LANES <= (n); i_ += LANES)                                                     \
            for (size_t l_ = 0; l_ < LANES; l_++) lane_[l_] += TERM(i_ + l_);                      \
        for (size_t l_ = 0; i_ + l_ < (n); l_++) lane_[l_] += TERM(i_ + l_);                       \
        TREE_OF_LANES(lane_);                                                                      \
        return lane_[0];                                                                           \
    } while (0)

ls_real ls_row_sum(const ls_real *x, size_t n)
{
#define TERM(i) x[i]
    SUM_OF_LANES(n, TERM);
#undef TERM
}

ls_real ls_row_dot(const ls_real *x, const ls_real *y, size_t n)
{
#define TERM(i) (x[i] * y[i])
    SUM_OF_LANES(n, TERM);
#undef TERM
}

ls_real ls_row_squares(const ls_real *x, ls_real center, size_t n)
{
#define TERM(i) ((x[i] - center) * (x[i] - center))
    SUM_OF_LANES(n, TERM);
#undef TERM
}

/* ---- maximum (rule 3) ---- */

#ifdef LS_REAL_IS_F64
typedef int64_t key;
#define KEY_MAX INT64_MAX
#define KEY_MIN INT64_MIN
#define KEY_BITS 63
#define INFINITY_BITS INT64_C(0x7ff0000000000000)
#else
typedef int32_t key;
#define KEY_MAX INT32_MAX
#define KEY_MIN INT32_MIN
#define KEY_BITS 31
#define INFINITY_BITS INT32_C(0x7f800000)
#endif

/* An integer that is ordered as rule 3 orders numbers: the bits of x, with the magnitude turned
 * round when the sign is set (so -0, -1 in the integers, is just below +0), and every NaN on top.
 */
static key key_of(ls_real x)
{
    key bits;
    memcpy(&bits, &x, sizeof bits);
    key magnitude = bits & KEY_MAX;
    key ordered = bits >> KEY_BITS ^ magnitude;
    return magnitude > INFINITY_BITS ? KEY_MAX : ordered;
}

ls_real ls_row_max(const ls_real *x, size_t n, size_t *ret_index)
{
    key best = KEY_MIN;
    for (size_t i = 0; i < n; i++) {
        key k = key_of(x[i]);
        best = k > best ? k : best;
    }
    if (ret_index) {
        size_t i = 0;
        while (i + 1 < n && key_of(x[i]) != best) i++;
        *ret_index = i;
    }
    if (best == KEY_MAX) return (ls_real)NAN;

    key bits = best < 0 ? (best ^ KEY_MAX) : best; /* key_of backwards */
    ls_real max;
    memcpy(&max, &bits, sizeof max);
    return max;
}

/* ---- squares of a block in binary64 (rule 16) ---- */

static double square(ls_real x)
{
    return (double)x * (double)x;
}

double ls_block_squares(const ls_real *x, size_t rows, size_t cols, size_t ld)
{
    double lane[LANES];
    if (rows == 0 || cols == 0) return 0.0;
    for (size_t l = 0; l < LANES; l++) lane[l] = -0.0;

    for (size_t r = 0; r < rows; r++, x += ld) {
        /* Up to the next element of lane 0 one by one, then whole rounds of 16, then what is left.
         */
        size_t c = 0, l = r * cols % LANES;
        for (; l > 0 && l < LANES && c < cols; l++, c++) lane[l] += square(x[c]);
        if (c == cols) continue;
        for (; c + LANES <= cols; c += LANES)
            for (l = 0; l < LANES; l++) lane[l] += square(x[c + l]);
        for (l = 0; c < cols; l++, c++) lane[l] += square(x[c]);
    }
    TREE_OF_LANES(lane);
    return lane[0];
}
