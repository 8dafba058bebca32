/* stage.h - a tensor-parallel rank's part of a transformer: a run of layers, with the embedding
 * before the first and the head and loss after the last.
 *
 * One stage of one micro-batch at a time goes forward and later backward; what lies between is kept
 * in an ls_micro_batch, of which several may be alive at once. With all layers in one stage and the
 * whole batch in one micro-batch it is a tensor-parallel model. In a step:
 * ls_stage_begin_gradients, forward and backward of every micro-batch, ls_stage_settle_gradients,
 * (the data-parallel reduction,) ls_stage_finish_gradients, ls_add_uses. */
#ifndef LS_PARALLEL_TRANSFORMER_STAGE_H
#define LS_PARALLEL_TRANSFORMER_STAGE_H

#include "lockstep/model/batch.h"
#include "lockstep/model/store.h"
#include "lockstep/parallel/tensor/attention_block.h"
#include "lockstep/parallel/layout/losses.h"
#include "lockstep/parallel/layout/sharding.h"
#include "lockstep/parallel/hooks/observer.h"

LS_BEGIN_DECLS

#define ls_stage LS_TYPED(ls_stage)
typedef struct ls_stage ls_stage;
#define ls_micro_batch LS_TYPED(ls_micro_batch)
typedef struct ls_micro_batch ls_micro_batch;

typedef struct ls_stage_setup {
    ls_group *tp; /* the tensor-parallel group                                       */
    ls_engine engine;
    size_t first_layer, layers; /* this stage's run */
    bool embedding, head;       /* whether it begins with the embedding / ends with head and loss */
    bool gathered_loss;         /* gather the logits instead of the fused loss                    */
    bool sequence_parallel;     /* own tokens only outside the blocks (sequence_parallel.h)      */
    ls_recompute recompute;     /* what the backward pass computes again                          */
    size_t batch; /* sequences of the global batch, of which micro-batches bring parts; 0: each
                     micro-batch is the whole of it */
    const ls_kv_sharing
        *kv; /* of the tp group, when several stages share it; NULL: makes its own */
    const ls_observer *observer; /* NULL: none. Outlives the stage */
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

/* Rows of what goes into this rank's part of a stage and comes out of it, for B sequences of S
 * tokens: B S, sequence parallel B S_r. */
#define ls_stage_rows LS_TYPED(ls_stage_rows)
LS_API size_t ls_stage_rows(const ls_stage *stage, size_t B, size_t S);

/* Room for one micro-batch: its memory is taken in the forward pass and given back in the backward
 * pass. Errors: LS_ERR_MEMORY. */
#define ls_micro_batch_create LS_TYPED(ls_micro_batch_create)
LS_API ls_status ls_micro_batch_create(ls_micro_batch **ret_micro_batch,
                                       const ls_stage *stage) LS_MUST_USE;
#define ls_micro_batch_destroy LS_TYPED(ls_micro_batch_destroy)
LS_API void ls_micro_batch_destroy(ls_micro_batch **micro_batch);

/* Forward. x: B S x D (sequence parallel: own tokens x D), the stage before's output (NULL with the
 * embedding), must live until backward. *ret_x: this stage's output (NULL with the head), to be
 * sent on: it lives until ls_micro_batch_sent, or else the backward pass. The arrays that `batch`
 * points to must live until backward. A token or target outside the vocabulary, a token type,
 * length or order label that is none, or sequences that the global batch does not have, are
 * LS_ERR_INPUT on every rank. Kept until backward (LS_MEM_ACTIVATIONS): by recompute, everything;
 * everything but the probabilities; every layer's input and what the head keeps; nothing. Per layer
 * 2 all-reduces; embedding 1; loss 2 (gathered: 1 all-gather). Sequence parallel: per layer 2
 * all-gathers and 2 reduce-scatters; embedding 1 reduce-scatter; before the loss 1 all-gather, with
 * a masked-token head 2; with sentence order 1 broadcast of the first tokens. */
#define ls_stage_forward LS_TYPED(ls_stage_forward)
LS_API ls_status ls_stage_forward(ls_stage *stage, ls_micro_batch *micro_batch,
                                  const ls_batch *batch, const ls_real *x,
                                  const ls_real **ret_x) LS_MUST_USE;

/* Gives back the memory of the output of the last pass, once it is sent. */
#define ls_micro_batch_sent LS_TYPED(ls_micro_batch_sent)
LS_API void ls_micro_batch_sent(ls_micro_batch *micro_batch);

/* After forward, with the head: the losses of the micro-batch's sequences (rule 9), to be read
 * until backward, and how many targets and labels it has. The loss of the global batch is made of
 * those of all sequences: ls_reduce_loss. */
#define ls_micro_batch_losses LS_TYPED(ls_micro_batch_losses)
LS_API ls_sequence_losses ls_micro_batch_losses(const ls_micro_batch *micro_batch,
                                                ls_valid *ret_valid);

/* Backward. dx: gradient of the output (NULL with the head). valid: valid targets and labels of the
 * global batch, the same on every stage and rank; without any every gradient is +0 (rule 15) and
 * nothing is computed or sent. *ret_dx: gradient of the input (NULL with the embedding), to be sent
 * back: it lives until ls_micro_batch_sent or the next forward pass. Once after each forward pass,
 * else LS_ERR_INPUT.
 *
 * The gradients of the stage's parameters, those of a tied parameter by use: with setup.batch 0
 * they are overwritten. Else each complete node of T(batch) that the micro-batch makes goes to a
 * slot of the store, and what finds its sibling there is added; micro-batches may come in any
 * order, each sequence once after ls_stage_begin_gradients; the store must have as many slots as
 * ls_forest_sum_slots says.
 *
 * Per layer 2 all-reduces and 2 per shared kv head; head 1. What is computed again sends again:
 * with recompute layer 2 more per layer, with stage those of a whole forward pass. Sequence
 * parallel: per layer 4 all-gathers and 2 reduce-scatters, head 1 and 1, with a masked-token head 3
 * and 1, embedding 1 all-gather; and for the parameters of the norms 1 all-reduce per layer, 1 for
 * the head and 1 for the embedding, where these have a norm. */
#define ls_stage_backward LS_TYPED(ls_stage_backward)
LS_API ls_status ls_stage_backward(ls_stage *stage, ls_micro_batch *micro_batch, const ls_real *dx,
                                   ls_valid valid, const ls_real **ret_dx) LS_MUST_USE;

/* Forgets the gradients of the step before; nothing to do with setup.batch 0. */
#define ls_stage_begin_gradients LS_TYPED(ls_stage_begin_gradients)
LS_API void ls_stage_begin_gradients(ls_stage *stage);

/* After the last backward pass: brings the nodes of T(batch) that this rank's sequences make into
 * slots 0, 1, ... in ascending order, which is what ls_all_reduce_forest takes. With all sequences
 * here it is one, in slot 0. */
#define ls_stage_settle_gradients LS_TYPED(ls_stage_settle_gradients)
LS_API void ls_stage_settle_gradients(ls_stage *stage);

/* Ends the masked sums of the embedding (rule 14), once they are summed over the whole batch, over
 * data-parallel ranks too. Then the uses of a tied parameter are added: ls_add_uses. */
#define ls_stage_finish_gradients LS_TYPED(ls_stage_finish_gradients)
LS_API void ls_stage_finish_gradients(ls_stage *stage);

LS_END_DECLS

#endif
