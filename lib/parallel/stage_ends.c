#include "parallel/stage_ends.h"

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/vocab_cross_entropy.h"
#include "lockstep/parallel/vocab_embedding.h"
#include "parallel/weight_gradient.h"

static void embedding_dropout(const ls_stage *stage, ls_real *y, const ls_real *x,
                              const ls_batch *batch)
{
    ls_stream stream = {batch->seed, LS_RANDOM_DROPOUT_EMBEDDING, 0, batch->step};
    size_t width = batch->S * stage->config->d_model;
    ls_dropout(y, x, batch->B * width, batch->dropout ? stage->config->dropout : 0, stream,
               (uint64_t)batch->first * width);
}

/* x = dropout(token row + position row) */
ls_status ls_embed_forward(ls_stage *stage, ls_micro_batch *mb)
{
    ls_status status = LS_OK;
    const ls_batch *batch = &mb->batch;
    size_t D = stage->config->d_model, width = batch->S * D;

    LS_TRY(ls_vocab_embedding_forward(&stage->tp, mb->x, stage->token->value, batch->tokens,
                                      ls_batch_tokens(batch), D, &stage->cuts.vocab));
    for (size_t b = 0; stage->position && b < batch->B; b++)
        ls_add(mb->x + b * width, mb->x + b * width, stage->position->value, width);
    embedding_dropout(stage, mb->x, mb->x, batch);
exit:
    return status;
}

ls_status ls_embed_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx)
{
    ls_status status = LS_OK;
    const ls_batch *batch = &mb->batch;
    size_t D = stage->config->d_model, width = batch->S * D;

    embedding_dropout(stage, dx, dx, batch);
    if (stage->position) {
        /* A position row meets one token of each sequence: T over the sequences. Rows beyond S meet
         * none. */
        for (size_t j = 0; j < ls_batch_sums_count(stage->tp.sums); j++) {
            ls_batch_sum sum = ls_batch_sums_get(stage->tp.sums, j, ls_batch_tokens(batch));
            ls_real *target = stage->position->grad[0] + sum.offset;
            ls_tree_sum_rows(target, dx + sum.first * width, ls_axis_whole(sum.tokens.granules),
                             width, width);
            for (size_t i = width; i < stage->config->seq * D; i++) target[i] = 0;
        }
    }
    LS_TRY(ls_vocab_embedding_backward(&stage->tp, stage->token->grad[0], dx, batch->tokens,
                                       ls_batch_tokens(batch), D, &stage->cuts.vocab));
exit:
    return status;
}

ls_status ls_head_keep(const ls_stage *stage, ls_micro_batch *mb)
{
    ls_status status = LS_OK;
    size_t n = mb->B * mb->S;
    ls_axis held = ls_cut_held(&stage->cuts.vocab, ls_group_rank(stage->tp.group));
    ls_real **const per_token[] = {&mb->losses, &mb->max, &mb->sum_exp};
    LS_TRY(ls_norm_keep(&stage->final_norm, ls_stage_rows(stage, mb->B, mb->S), mb->kept,
                        &mb->final_norm));
    LS_TRY(ls_arena_alloc(mb->kept, n * ls_axis_extent(held), sizeof(ls_real), (void *)&mb->z));
    for (size_t i = 0; i < 3; i++)
        LS_TRY(ls_arena_alloc(mb->kept, n, sizeof(ls_real), (void *)per_token[i]));
exit:
    return status;
}

/* Logits of own vocabulary rows, then the loss. */
ls_status ls_head_forward(ls_stage *stage, ls_micro_batch *mb, const ls_real *x)
{
    ls_status status = LS_OK;
    const ls_config *config = stage->config;
    const ls_batch *batch = &mb->batch;
    ls_axis tokens = ls_batch_tokens(batch);
    ls_axis held = ls_cut_held(&stage->cuts.vocab, ls_group_rank(stage->tp.group));
    size_t n = ls_axis_extent(tokens), D = config->d_model;

    ls_norm_forward(&stage->final_norm, &mb->final_norm, x, n);
    /* z = xf E^T: a column linear whose weight is stored by rows (f forward is the identity) */
    LS_TRY(ls_gemm(stage->tp.engine, LS_NO_TRANS, LS_TRANS, tokens, held, ls_axis_whole(D),
                   mb->final_norm.y, D, stage->head->value, D, mb->z, ls_axis_extent(held), false));
    if (stage->setup.gathered_loss)
        LS_TRY(ls_gathered_cross_entropy_forward(&stage->tp, mb->losses, mb->max, mb->sum_exp,
                                                 mb->z, batch->targets, n, &stage->cuts.vocab,
                                                 config->vocab, config->label_smoothing));
    else
        LS_TRY(ls_vocab_cross_entropy_forward(&stage->tp, mb->losses, mb->max, mb->sum_exp, mb->z,
                                              batch->targets, n, &stage->cuts.vocab, config->vocab,
                                              config->label_smoothing));
    for (size_t b = 0; b < batch->B; b++)
        mb->sequence_losses[b] = ls_tree_sum(mb->losses + b * batch->S, batch->S, 1);
    mb->valid = 0;
    for (size_t t = 0; t < n; t++) mb->valid += batch->targets[t] != LS_IGNORE;
exit:
    return status;
}

/* dx = gradient of the last layer's output x */
ls_status ls_head_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx, const ls_real *x,
                           int64_t valid)
{
    ls_status status = LS_OK;
    const ls_config *config = stage->config;
    const ls_batch *batch = &mb->batch;
    ls_axis tokens = ls_batch_tokens(batch);
    ls_axis held = ls_cut_held(&stage->cuts.vocab, ls_group_rank(stage->tp.group));
    size_t n = ls_axis_extent(tokens), D = config->d_model, width = ls_axis_extent(held);
    ls_real factor = 1 / (ls_real)valid;

    ls_vocab_cross_entropy_backward(&stage->tp, mb->z, mb->z, mb->max, mb->sum_exp, batch->targets,
                                    n, &stage->cuts.vocab, config->vocab, config->label_smoothing,
                                    factor);
    /* z = xf E^T: dE = dz^T xf over the tokens; dxf = sum over all ranks' vocabulary rows of dz E
     * (f backward) */
    LS_TRY(ls_weight_gradient(&stage->tp, stage->head->grad[stage->head_use], NULL, mb->z, held,
                              mb->final_norm.y, ls_axis_whole(D), tokens));
    ls_gemm_term term = {mb->z, width, stage->head->value, D, held.granule, 1, 0};
    LS_TRY(ls_reduced_product(&stage->tp, LS_NO_TRANS, tokens, ls_axis_whole(D), &stage->cuts.vocab,
                              &term, 1, dx));
    ls_norm_backward(&stage->tp, &stage->final_norm, &mb->final_norm, dx, dx, x, NULL, tokens);
exit:
    return status;
}
