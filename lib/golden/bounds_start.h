/* bounds_start.h - what the runs behind a bound begin with: the weights of a run, rounded to a
 * precision, and moved. */
#ifndef LS_GOLDEN_BOUNDS_START_H
#define LS_GOLDEN_BOUNDS_START_H

#include "train/train.h"

typedef struct ls_bounds_start {
    const ls_param_table *table;
    uint64_t seed;      /* of the run: a checkpoint's own unless one was given */
    ls_initial initial; /* the first three arrays below */
    double **values, **moment1, **moment2;
    double **given; /* the weights before they were rounded; NULL: they were not */
    double **moved; /* see ls_bounds_move */
} ls_bounds_start;

/* The unit roundoff of a format: 2^-24, 2^-53, 2^-11 (F16), 2^-8 (BF16). */
double ls_unit_roundoff(ls_dtype dtype);

/* x in a format of floating point, to nearest, ties to even; beyond its range infinity. */
double ls_rounded_to(ls_dtype dtype, double x);

/* What `run` begins with; its weights rounded to `dtype` where that is coarser than F32. Errors:
 * those of loading, LS_ERR_MEMORY. */
ls_status ls_bounds_start_create(ls_bounds_start *ret_start, const ls_run *run,
                                 const ls_param_table *table, ls_dtype dtype) LS_MUST_USE;
void ls_bounds_start_free(ls_bounds_start *start);

/* start->moved: every weight times 1 + amount or 1 - amount, which of them by Philox (seed 0,
 * purpose TEST, layer = place of the parameter, step = probe). */
void ls_bounds_move(ls_bounds_start *start, double amount, uint32_t probe);

#endif
