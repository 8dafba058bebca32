/* wrap_steps.c - what goes wrong once a step or once a micro-batch: weights, targets, means, tied
 * parameters, clipping, the optimizer. */
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "lockstep/comm/channel.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/parallel/layout/placement.h"
#include "comm/all_reduce_owned.h"
#include "parallel/data/observe_step.h"
#include "parallel/transformer/stage_ends.h"
#include "parallel/transformer/stage_state.h"
#include "pipeline/executor_state.h"
#include "wrapped.h"
#include "wrong_values.h"
#include "base/allocate.h"

LS_RIGHT(count_valid_seen);
LS_RIGHT(executor_run);
LS_RIGHT(micro_batch_losses);
LS_RIGHT(stage_backward);
LS_RIGHT(embed_backward);
LS_RIGHT(executor_finish);
LS_RIGHT(send_receive);
LS_RIGHT(add_uses);
LS_RIGHT(shared_squares_seen);
LS_RIGHT(first_holder);
LS_RIGHT(all_reduce_owned);
LS_RIGHT(shard_step);

/* ---- targets ---- */

/* Every target becomes its successor; the last of a sequence none. *ret_targets: to be freed. */
static ls_status wrong_batch(const ls_batch *batch, ls_batch *ret_batch, int32_t **ret_targets)
{
    ls_status status = LS_OK;
    const size_t S = batch->S, n = batch->B * S;
    int32_t *targets = NULL;
    *ret_batch = *batch;
    *ret_targets = NULL;
    if (!ls_faulty(LS_FAULT_TARGET_SHIFT)) goto exit;
    LS_ROOM(targets, n + 1);
    for (size_t t = 0; t < n; t++) targets[t] = t % S + 1 < S ? batch->targets[t + 1] : LS_IGNORE;
    ret_batch->targets = *ret_targets = targets;
exit:
    return status;
}

ls_status ls_count_valid_seen(ls_step_observer look, ls_group *dp, const ls_config *config,
                              const ls_batch *batch, ls_valid *ret_valid)
{
    ls_status status = LS_OK;
    ls_batch wrong;
    int32_t *targets = NULL;
    LS_TRY(wrong_batch(batch, &wrong, &targets));
    LS_TRY(right_count_valid_seen(look, dp, config, &wrong, ret_valid));
exit:
    free(targets);
    return status;
}

ls_status ls_executor_run(ls_executor *e, const ls_batch *batch, ls_valid valid,
                          ls_sequence_losses losses)
{
    ls_status status = LS_OK;
    ls_batch wrong;
    int32_t *targets = NULL;
    LS_TRY(wrong_batch(batch, &wrong, &targets));
    if (!ls_call_now.spoiled) LS_TRY(ls_wrong_weights(e->setup.tp, e->store, e->incoming));
    ls_call_now.spoiled = true;
    ls_call_now.parts = e->setup.layout->micro_batches * e->setup.layout->dp;
    ls_call_now.valid = valid;
    LS_TRY(right_executor_run(e, &wrong, valid, losses));
exit:
    free(targets);
    return status;
}

/* ---- micro-batches ---- */

/* What a micro-batch divides by that takes a mean of its own, when all parts are averaged. */
static ls_valid own_valid(const ls_batch *micro_batch)
{
    ls_valid valid = ls_call_now.valid;
    valid.targets = 0;
    for (size_t t = 0; t < micro_batch->B * micro_batch->S; t++)
        valid.targets += micro_batch->targets[t] == LS_IGNORE ? 0 : ls_call_now.parts;
    return valid;
}

ls_sequence_losses ls_micro_batch_losses(const ls_micro_batch *mb, ls_valid *ret_valid)
{
    const ls_sequence_losses losses = right_micro_batch_losses(mb, ret_valid);
    const ls_valid own = own_valid(&mb->batch);
    if (ls_faulty(LS_FAULT_MEAN_OF_MEANS) && own.targets > 0)
        ls_scale(losses.tokens, losses.tokens,
                 (ls_real)ls_call_now.valid.targets / (ls_real)own.targets, mb->B);
    return losses;
}

/* What is added to the seed while layers are computed again. */
static uint64_t wrong_seed(const ls_stage *stage)
{
    return ls_faulty(LS_FAULT_DROPOUT_MASK) && stage->setup.recompute == LS_RECOMPUTE_LAYER;
}

ls_status ls_stage_backward(ls_stage *stage, ls_micro_batch *mb, const ls_real *dx, ls_valid valid,
                            const ls_real **ret_dx)
{
    if (ls_faulty(LS_FAULT_MEAN_OF_MEANS)) valid = own_valid(&mb->batch);
    mb->batch.seed += wrong_seed(stage);
    const ls_status status = right_stage_backward(stage, mb, dx, valid, ret_dx);
    mb->batch.seed -= wrong_seed(stage);
    return status;
}

/* The embedding is not computed again: its mask is the right one. */
ls_status ls_embed_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx)
{
    mb->batch.seed -= wrong_seed(stage);
    const ls_status status = right_embed_backward(stage, mb, dx);
    mb->batch.seed += wrong_seed(stage);
    return status;
}

ls_status ls_executor_finish(ls_executor *e)
{
    if (ls_faulty(LS_FAULT_AVERAGED_MICRO_BATCHES))
        ls_wrong_scale(e->store, 1 / (ls_real)e->setup.layout->micro_batches);
    return right_executor_finish(e);
}

/* ---- a tied embedding ---- */

/* Of all messages this one has a negative tag. */
ls_status ls_send_receive(ls_group *group, int to, int send_tag, const void *send_buffer,
                          size_t send_count, int from, int receive_tag, void *receive_buffer,
                          size_t receive_count, ls_dtype dtype)
{
    ls_status status = LS_OK;
    LS_TRY(right_send_receive(group, to, send_tag, send_buffer, send_count, from, receive_tag,
                              receive_buffer, receive_count, dtype));
    if (ls_faulty(LS_FAULT_TIED_ONE_SIDE) && receive_tag < 0 &&
        ls_group_rank(group) == ls_group_size(group) - 1)
        memset(receive_buffer, 0, receive_count * ls_dtype_bytes(dtype));
exit:
    return status;
}

void ls_add_uses(ls_store *store)
{
    if (!ls_faulty(LS_FAULT_TIED_NOT_ADDED)) right_add_uses(store);
}

/* ---- clipping and update ---- */

ls_status ls_shared_squares_seen(ls_step_observer look, ls_group *model, const ls_layout *layout,
                                 const ls_store *store, ls_arena *temporary, double *ret_squares)
{
    ls_call_now.squares = true;
    ls_call_now.model_rank = ls_group_rank(model);
    const ls_status status =
        right_shared_squares_seen(look, model, layout, store, temporary, ret_squares);
    ls_call_now.squares = false;
    return status;
}

int ls_first_holder(const ls_param_table *table, const ls_layout *layout, size_t param,
                    size_t granule)
{
    if (ls_call_now.squares &&
        (ls_faulty(LS_FAULT_REPLICAS_COUNTED) || ls_faulty(LS_FAULT_CLIPPING_PER_RANK)))
        return ls_call_now.model_rank;
    return right_first_holder(table, layout, param, granule);
}

ls_status ls_all_reduce_owned(ls_group *group, void *out, const void *in, size_t count,
                              ls_dtype dtype, ls_arena *temporary)
{
    if (ls_call_now.squares && ls_faulty(LS_FAULT_CLIPPING_PER_RANK)) {
        memmove(out, in, count * ls_dtype_bytes(dtype));
        return LS_OK;
    }
    return right_all_reduce_owned(group, out, in, count, dtype, temporary);
}

void ls_shard_step(ls_store *store, const ls_update *update)
{
    ls_update again = *update;
    right_shard_step(store, update);
    again.t++;
    if (ls_faulty(LS_FAULT_UPDATE_TWICE)) right_shard_step(store, &again);
}
