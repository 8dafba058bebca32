#define LS_REAL_IS_F64 /* the store of this file is in binary64 */
#include "golden/bounds_start.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/model/store.h"
#include "lockstep/numerics/random.h"
#include "train/checkpoint.h"
#include "train/checkpoint_metadata.h"
#include "base/allocate.h"

double ls_unit_roundoff(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F64:
        return 0x1p-53;
    case LS_F16:
        return 0x1p-11;
    case LS_BF16:
        return 0x1p-8;
    default:
        return 0x1p-24;
    }
}

double ls_rounded_to(ls_dtype dtype, double x)
{
    if (dtype == LS_F32) return (double)(float)x;
    if (dtype != LS_F16 && dtype != LS_BF16) return x;
    const int digits = dtype == LS_F16 ? 11 : 8, least = dtype == LS_F16 ? -14 : -126;
    int exponent;
    if (!isfinite(x) || x == 0) return x;
    frexp(x, &exponent); /* |x| = m 2^exponent, m in [1/2, 1) */
    if (exponent - 1 < least) exponent = least + 1;
    const double unit = ldexp(1, exponent - digits), rounded = rint(x / unit) * unit;
    const double most = dtype == LS_F16 ? 65504 : 0x1.fep127;
    return fabs(rounded) > most ? copysign((double)INFINITY, x) : rounded;
}

static ls_status make(const ls_param_table *table, double ***ret_arrays)
{
    ls_status status = LS_OK;
    LS_NEW(*ret_arrays, table->count);
    for (size_t p = 0; p < table->count; p++)
        LS_NEW((*ret_arrays)[p], ls_param_elements(&table->params[p]));
exit:
    return status;
}

/* As a run on one rank would begin. */
static ls_status begin(ls_bounds_start *s, const ls_run *run)
{
    ls_status status = LS_OK;
    ls_store *store = NULL;
    ls_run wide = *run;
    wide.dtype = LS_F64;
    LS_TRY(ls_store_create(&store, s->table, NULL, NULL));
    LS_TRY(ls_checkpoint_begin(&wide, store, &s->initial.step));
    for (size_t p = 0; p < s->table->count; p++) {
        const ls_slot *slot = &store->slots[p];
        const ls_real *const from[] = {slot->value, slot->m, slot->v};
        double *const to[] = {s->values[p], s->moment1[p], s->moment2[p]};
        for (int a = 0; a < 3 && from[a]; a++) /* a state has no moments */
            ls_param_shard_out(&s->table->params[p], slot->shard, sizeof(double), to[a], from[a]);
    }
exit:
    ls_store_destroy(&store);
    return status;
}

ls_status ls_bounds_start_create(ls_bounds_start *ret_start, const ls_run *run,
                                 const ls_param_table *table, ls_dtype dtype)
{
    ls_status status = LS_OK;
    ls_bounds_start s = {.table = table, .seed = run->seed};

    LS_TRY(make(table, &s.values));
    LS_TRY(make(table, &s.moment1));
    LS_TRY(make(table, &s.moment2));
    LS_TRY(make(table, &s.moved));
    if (run->load && !run->initial && !run->seed_given)
        LS_TRY(ls_checkpoint_seed(run->load, run->seed, &s.seed));
    LS_TRY(begin(&s, run));
    const bool narrow = dtype == LS_F16 || dtype == LS_BF16;
    if (narrow) LS_TRY(make(table, &s.given));
    for (size_t p = 0; p < table->count && narrow; p++)
        for (size_t i = 0; i < ls_param_elements(&table->params[p]); i++) {
            s.given[p][i] = s.values[p][i];
            s.values[p][i] = ls_rounded_to(dtype, s.values[p][i]);
        }
    s.initial.values = (const double *const *)s.values;
    s.initial.moment1 = (const double *const *)s.moment1;
    s.initial.moment2 = (const double *const *)s.moment2;
    *ret_start = s;
    memset(&s, 0, sizeof s);
exit:
    ls_bounds_start_free(&s);
    return status;
}

void ls_bounds_start_free(ls_bounds_start *start)
{
    double **const arrays[] = {start->values, start->moment1, start->moment2, start->given,
                               start->moved};
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++) {
        for (size_t p = 0; arrays[a] && p < start->table->count; p++) free(arrays[a][p]);
        free(arrays[a]);
    }
    memset(start, 0, sizeof *start);
}

void ls_bounds_move(ls_bounds_start *start, double amount, uint32_t probe)
{
    for (size_t p = 0; p < start->table->count; p++) {
        const ls_stream stream = {0, LS_RANDOM_TEST, (uint32_t)p, probe};
        for (size_t i = 0; i < ls_param_elements(&start->table->params[p]); i++) {
            uint32_t words[4];
            ls_random_words(stream, i, words);
            start->moved[p][i] = start->values[p][i] * (words[0] >> 31 ? 1 + amount : 1 - amount);
        }
    }
}
