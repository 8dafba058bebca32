/* gradient_slots.h - room for gradients that wait for those of other micro-batches. */
#ifndef LS_PIPELINE_GRADIENT_SLOTS_H
#define LS_PIPELINE_GRADIENT_SLOTS_H

#include "lockstep/pipeline/schedule.h"

/* Slots that a pipeline rank needs: ls_forest_sum_slots in the order of each chunk's backward
 * passes, the most over the chunks. first, sequences: the replica's run of the global batch's
 * `batch` sequences, cut into micro-batches by ls_share_of. Errors: LS_ERR_MEMORY. */
ls_status ls_gradient_slots_of(const ls_schedule *schedule, int pp_rank, size_t batch, size_t first,
                               size_t sequences, size_t *ret_slots) LS_MUST_USE;

/* Whether two pipeline ranks do their backward passes in the same order: then they need as many. */
bool ls_same_backward_order(const ls_schedule *schedule, int one, int other);

#endif
