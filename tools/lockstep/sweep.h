/* sweep.h - every legal layout of a model up to a number of ranks. */
#ifndef LOCKSTEP_SWEEP_H
#define LOCKSTEP_SWEEP_H

#include "lockstep/lockstep.h"

typedef struct sweep {
    ls_layout *layouts; /* fewest ranks first */
    size_t count;
} sweep;

ls_status sweep_create(sweep *ret_sweep, const ls_config *config, int max_ranks) LS_MUST_USE;

/* The sweep of one layout. */
ls_status sweep_of(sweep *ret_sweep, ls_layout layout) LS_MUST_USE;

void sweep_free(sweep *s);

#endif
