/* bench_check.c - how fast a candidate that is equal is found to be so: bytes of the candidate per
 * second and core, beside memcpy of as many, for each format. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/clock.h"
#include "check/check_parts.h"

enum { COUNT = 16 << 20, ROUNDS = 5 };

static double best_seconds(bool (*work)(void *), void *context)
{
    double best = 1e300;
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t began = ls_clock_ns();
        if (!work(context)) abort();
        const double seconds = (double)(ls_clock_ns() - began) * 1e-9;
        if (seconds < best) best = seconds;
    }
    return best;
}

typedef struct pair {
    ls_dtype golden_dtype, dtype;
    const void *golden;
    void *mine;
    size_t bytes; /* of the candidate's */
    void *copy;
} pair;

static bool compare(void *context)
{
    const pair *p = context;
    return ls_check_equal(p->golden_dtype, p->golden, p->dtype, p->dtype, p->mine, COUNT, false);
}

static bool copy(void *context)
{
    const pair *p = context;
    memcpy(p->copy, p->mine, p->bytes);
    return ((const volatile char *)p->copy)[p->bytes - 1] == ((const char *)p->mine)[p->bytes - 1];
}

static void put(ls_dtype dtype, void *values, size_t i, double value)
{
    const float narrow = (float)value;
    ls_check_round(dtype, &value, 1);
    if (dtype == LS_F32) ((float *)values)[i] = narrow;
    if (dtype == LS_F64) ((double *)values)[i] = (double)narrow;
    if (dtype == LS_BF16 || dtype == LS_F16) {
        uint16_t half = (uint16_t)ls_check_ulps(dtype, value < 0 ? -value : value, 0.0);
        ((uint16_t *)values)[i] = value < 0 ? half | 0x8000u : half;
    }
}

int main(void)
{
    static const ls_dtype dtypes[] = {LS_F32, LS_F64, LS_BF16, LS_F16};
    float *golden = malloc(COUNT * sizeof *golden);
    char *mine = malloc(COUNT * sizeof(double)), *to = malloc(COUNT * sizeof(double));
    if (!golden || !mine || !to) return 1;
    memset(to, 1, COUNT * sizeof(double));
    for (size_t i = 0; i < COUNT; i++)
        golden[i] = (float)((double)(i * 2654435761u % 1000003) / 500001.5 - 1);
    printf("%-10s %12s %12s %8s\n", "candidate", "compared", "memcpy", "ratio");
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        pair p = {LS_F32, dtypes[d], golden, mine, COUNT * ls_dtype_bytes(dtypes[d]), to};
        for (size_t i = 0; i < COUNT; i++) put(dtypes[d], mine, i, (double)golden[i]);
        const double compared = (double)p.bytes / best_seconds(compare, &p) * 1e-9;
        const double copied = (double)p.bytes / best_seconds(copy, &p) * 1e-9;
        printf("%-10s %7.2f GB/s %7.2f GB/s %8.2f\n", ls_dtype_name(dtypes[d]), compared, copied,
               compared / copied);
    }
    free(golden), free(mine), free(to);
    return 0;
}
