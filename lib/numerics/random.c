/* random.c - Philox4x32-10 and what is made of its words.
 *
 * Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011), section 3.3.
 */
#define LS_REAL_IS_F64 /* log and cos of this file are the binary64 ones */
#include "lockstep/numerics/random.h"

#include <math.h>

#include "lockstep/numerics/functions.h"
#include "numerics/keep_loop.h"
#include "numerics/philox.h"

/* A number in [0, 1) of 53 bits: all of `high`, then the upper 21 bits of `low`. */
static double unit_interval(uint32_t high, uint32_t low)
{
    return (double)((uint64_t)high << 21 | low >> 11) * 0x1p-53;
}

void ls_random_words(ls_stream stream, uint64_t index, uint32_t ret_words[4])
{
    ls_philox_words w = ls_philox(stream, index);
    ret_words[0] = w.w0;
    ret_words[1] = w.w1;
    ret_words[2] = w.w2;
    ret_words[3] = w.w3;
}

double ls_random_uniform(ls_stream stream, uint64_t index)
{
    uint32_t words[4];
    ls_random_words(stream, index, words);
    return unit_interval(words[0], words[1]);
}

double ls_random_normal(ls_stream stream, uint64_t index)
{
    const double two_pi = 0x1.921fb54442d18p+2;
    uint32_t words[4];
    ls_random_words(stream, index, words);
    double u = 1.0 - unit_interval(words[0], words[1]);
    double v = unit_interval(words[2], words[3]);
    return sqrt(-2.0 * ls_log(u)) * ls_cos(two_pi * v);
}

int ls_random_keep(ls_stream stream, uint64_t index, double p)
{
    uint32_t words[4];
    ls_random_words(stream, index, words);
    return words[0] >= (uint64_t)(p * 0x1p32);
}

LS_ISA_TABLE(ls_keep_loop, ls_random_keep_n)

void ls_random_keep_n(unsigned char *ret_keep, ls_stream stream, uint64_t first, size_t n, double p)
{
    LS_ISA_PICK(ls_random_keep_n)(ret_keep, stream, first, n, (uint64_t)(p * 0x1p32));
}
