/* sweep.h - the layouts that a verification goes through.
 *
 * Every layout is a point of a grid with nine axes: dp, pp, tp, sp, schedule, virtual stages,
 * micro-batches, recomputation, partition. All points together are tens of thousands for a model
 * of four layers, so a sweep covers them:
 *
 *     - every (dp, pp, tp, sp) of at most so many ranks that the model and the batch allow, sp
 *       where tp > 1, pp up to the number of layers;
 *     - for each of these every schedule - GPipe, 1F1B, interleaved with 2 and with as many virtual
 *       stages as the layers allow - with each micro-batch count of {1, pp - 1, pp, pp + 1, the
 *       smallest that does not divide a replica's sequences}, as far as the sequences go;
 *       with one micro-batch GPipe and 1F1B are the same, the naive pipeline, and go once;
 *     - recomputation (none, selective, layer, stage) and partition (even, or one layer moved from
 *       the last stage to the first) are dealt out over these so that each value meets each value
 *       of every other axis, and each other's, at least once: a pairwise cover. Where the number of
 *       layouts is too small for that, the pairs that are missing are added as layouts.
 *
 * The choice is made without chance: the same model, batch and number of ranks give the same list.
 *
 * Of a convolutional network: see net_sweep.h. */
#ifndef LS_VERIFY_SWEEP_H
#define LS_VERIFY_SWEEP_H

#include "lockstep/model/config.h"
#include "lockstep/partition/layout.h"

typedef struct ls_sweep {
    ls_layout *layouts;
    size_t count, room;
} ls_sweep;

/* The sweep of a model (its batch is config->batch): fewest ranks first, layouts of one grid point
 * (ls_same_grid) together. All are legal (ls_layout_check) and all differ. */
ls_status ls_sweep_create(ls_sweep *ret_sweep, const ls_config *config, int max_ranks) LS_MUST_USE;

/* Puts one more layout at the end; a sweep may begin as {NULL, 0, 0}. */
ls_status ls_sweep_add(ls_sweep *sweep, const ls_layout *layout) LS_MUST_USE;

void ls_sweep_free(ls_sweep *sweep);

/* Whether two layouts are the same grid point: dp, pp, cp, tp, sp, down, across, channels. */
bool ls_same_grid(const ls_layout *a, const ls_layout *b);

#endif
