/* stage.h - a tensor-parallel rank's part of a transformer: a run of layers, with the embedding
 * before the first and the head and loss after the last.
 *
 * One stage of one micro-batch at a time goes forward and later backward; what lies between is kept
 * in an ls_micro_batch, of which several may be alive at once. With all layers in one stage and the
 * whole batch in one micro-batch it is a tensor-parallel model. */
#ifndef LS_PARALLEL_STAGE_H
#define LS_PARALLEL_STAGE_H

#include "lockstep/model/batch.h"
#include "lockstep/model/store.h"
#include "lockstep/parallel/sharding.h"

LS_BEGIN_DECLS

#define ls_stage LS_TYPED(ls_stage)
typedef struct ls_stage ls_stage;
#define ls_micro_batch LS_TYPED(ls_micro_batch)
typedef struct ls_micro_batch ls_micro_batch;

typedef struct ls_stage_setup {
    ls_group *tp; /* the tensor-parallel group                                       */
    ls_engine engine;
    size_t first_layer, layers; /* this stage's run */
    bool embedding, head; /* whether it begins with the embedding / ends with head and loss  */
    bool gathered_loss;   /* gather the logits instead of the fused loss                     */
} ls_stage_setup;

/* A stage over the shards in `store` (ls_holdings_of), which it does not own. Charged to the rank's
 * memory account. Every member of tp calls it together: one split per shared kv head. Errors:
 * LS_ERR_INPUT (layers that the model does not have, a parameter of the stage that the store does
 * not hold as this rank should), LS_ERR_MEMORY, those of ls_group_split. */
#define ls_stage_create LS_TYPED(ls_stage_create)
LS_API ls_status ls_stage_create(ls_stage **ret_stage, const ls_stage_setup *setup,
                                 ls_store *store) LS_MUST_USE;
#define ls_stage_destroy LS_TYPED(ls_stage_destroy)
LS_API void ls_stage_destroy(ls_stage **stage);

/* Room for one micro-batch of at most B sequences of at most S tokens. Errors: LS_ERR_MEMORY. */
#define ls_micro_batch_create LS_TYPED(ls_micro_batch_create)
LS_API ls_status ls_micro_batch_create(ls_micro_batch **ret_micro_batch, const ls_stage *stage,
                                       size_t B, size_t S) LS_MUST_USE;
#define ls_micro_batch_destroy LS_TYPED(ls_micro_batch_destroy)
LS_API void ls_micro_batch_destroy(ls_micro_batch **micro_batch);

/* Forward. x: B S x D, the stage before's output (NULL with the embedding), must live until
 * backward. *ret_x: this stage's output (NULL with the head), kept in the micro-batch. The arrays
 * that `batch` points to must live until backward. A token or target outside the vocabulary, or a
 * batch that the micro-batch has no room for, is LS_ERR_INPUT on every rank. Per layer 2
 * all-reduces; embedding 1; loss 2 (gathered: 1 all-gather). */
#define ls_stage_forward LS_TYPED(ls_stage_forward)
LS_API ls_status ls_stage_forward(ls_stage *stage, ls_micro_batch *micro_batch,
                                  const ls_batch *batch, const ls_real *x,
                                  const ls_real **ret_x) LS_MUST_USE;

/* After forward, with the head: per sequence T(S) over its tokens' losses (rule 9), and the
 * micro-batch's number of valid targets. The global loss is T over all sequences, + (+0), divided
 * by all valid targets; 0 when there is none. */
#define ls_micro_batch_losses LS_TYPED(ls_micro_batch_losses)
LS_API const ls_real *ls_micro_batch_losses(const ls_micro_batch *micro_batch, int64_t *ret_valid);

/* Backward. dx: gradient of the output (NULL with the head). valid: valid targets of the global
 * batch, the same on every stage and rank; 0: every gradient is +0 (rule 15), nothing is computed
 * or sent. *ret_dx: gradient of the input (NULL with the embedding), kept in the micro-batch until
 * its next forward pass. Once after each forward pass, else LS_ERR_INPUT.
 * Overwrites the gradients of the stage's parameters; those of a tied parameter by use. Per layer 2
 * all-reduces and 2 per shared kv head; head 1. */
#define ls_stage_backward LS_TYPED(ls_stage_backward)
LS_API ls_status ls_stage_backward(ls_stage *stage, ls_micro_batch *micro_batch, const ls_real *dx,
                                   int64_t valid, const ls_real **ret_dx) LS_MUST_USE;

/* Ends the gradients once all micro-batches have gone backward: the masked sums of the embedding,
 * then the uses of the tied parameter, input first (rules 13 and 14). */
#define ls_stage_finish_gradients LS_TYPED(ls_stage_finish_gradients)
LS_API void ls_stage_finish_gradients(ls_stage *stage);

LS_END_DECLS

#endif
