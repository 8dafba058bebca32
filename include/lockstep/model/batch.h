/* batch.h - the sequences or images of one step, or a run of them. */
#ifndef LS_MODEL_BATCH_H
#define LS_MODEL_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/api.h"
#include "lockstep/numerics/axis.h"
#include "lockstep/numerics/ignore.h"

LS_BEGIN_DECLS

typedef struct ls_batch {
    size_t B, S;  /* sequences or images held here; tokens of each (S <= the configuration's seq) */
    size_t first; /* global number of the first: a micro-batch is a run of the global batch */
    const int32_t *tokens;  /* B x S                                                             */
    const int32_t *targets; /* B x S, LS_IGNORE where there is none                              */
    /* Masked-token models; each may be NULL. */
    const int32_t *segments; /* B x S token types; NULL: all 0                                   */
    const int32_t *lengths; /* B: tokens of each sequence, the rest of S being padding that no query
                               attends to; NULL: all S                                          */
    const int32_t *order; /* B: 0 spans in order, 1 swapped, LS_IGNORE; NULL: no sentence has one */
    /* Of a convolutional network; S is 0. */
    size_t pixels;         /* of an image, all channels */
    const float *images;   /* B x channels x height x width; the same values in both precisions */
    const int32_t *labels; /* B */
    uint64_t seed;         /* of dropout                                                        */
    uint32_t step;         /* number of the training step                                       */
    bool training;         /* with dropout and the statistics of the batch; off: evaluation     */
} ls_batch;

/* The sequences or images first .. first + count of a batch, in its arrays. */
static inline ls_batch ls_batch_part(const ls_batch *batch, size_t first, size_t count)
{
    ls_batch part = *batch;
    size_t skipped = first * batch->S;
    part.B = count;
    part.first += first;
    if (part.tokens) part.tokens += skipped;
    if (part.targets) part.targets += skipped;
    if (part.segments) part.segments += skipped;
    if (part.lengths) part.lengths += first;
    if (part.order) part.order += first;
    if (part.images) part.images += first * batch->pixels;
    if (part.labels) part.labels += first;
    return part;
}

/* The token axis: B granules, one per sequence (contract rule 9). */
static inline ls_axis ls_batch_tokens(const ls_batch *batch)
{
    return ls_axis_of(batch->B, batch->S);
}

LS_END_DECLS

#endif
