#include "parallel/stage_ends.h"

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/sequence_parallel.h"
#include "lockstep/parallel/vocab_cross_entropy.h"
#include "lockstep/parallel/vocab_embedding.h"
#include "parallel/weight_gradient.h"

/* Of own tokens; the gradient's is the same call. */
static void embedding_dropout(const ls_stage *stage, ls_real *y, const ls_real *x,
                              const ls_batch *batch)
{
    ls_stream stream = {batch->seed, LS_RANDOM_DROPOUT_EMBEDDING, 0, batch->step};
    ls_own_dropout(&stage->tp, y, x, ls_batch_tokens(batch), stage->config->d_model,
                   batch->dropout ? stage->config->dropout : 0, stream, batch->first);
}

/* x = dropout(token row + position row) */
ls_status ls_embed_forward(ls_stage *stage, ls_micro_batch *mb)
{
    ls_status status = LS_OK;
    const ls_batch *batch = &mb->batch;
    ls_share own = ls_own_share(&stage->tp, batch->S);
    size_t D = stage->config->d_model, width = own.count * D;

    LS_TRY(ls_vocab_embedding_forward(&stage->tp, mb->x, stage->token->value, batch->tokens,
                                      ls_batch_tokens(batch), D, &stage->cuts.vocab));
    for (size_t b = 0; stage->position && b < batch->B; b++)
        ls_add(mb->x + b * width, mb->x + b * width, stage->position->value + own.first * D, width);
    embedding_dropout(stage, mb->x, mb->x, batch);
exit:
    return status;
}

ls_status ls_embed_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx)
{
    ls_status status = LS_OK;
    const ls_batch *batch = &mb->batch;
    ls_tensor_parallel inside = ls_inside_block(&stage->tp);
    ls_axis tokens = ls_batch_tokens(batch);
    size_t mark = ls_arena_mark(stage->temporary);
    size_t D = stage->config->d_model, width = batch->S * D;
    const ls_real *whole;

    embedding_dropout(stage, dx, dx, batch);
    /* Both tables want whole sequences: rows of positions meet one token of each, and the rows of
     * tokens that a rank has may be read anywhere. */
    LS_TRY(ls_gather_tokens(&stage->tp, dx, tokens, D, &whole));
    if (stage->position) {
        /* A position row meets one token of each sequence: T over the sequences. Rows beyond S meet
         * none. */
        for (size_t j = 0; j < ls_batch_sums_count(stage->tp.sums); j++) {
            ls_batch_sum sum = ls_batch_sums_get(stage->tp.sums, j, tokens);
            ls_real *target = stage->position->grad[0] + sum.offset;
            ls_tree_sum_rows(target, whole + sum.first * width, ls_axis_whole(sum.tokens.granules),
                             width, width);
            for (size_t i = width; i < stage->config->seq * D; i++) target[i] = 0;
        }
    }
    LS_TRY(ls_vocab_embedding_backward(&inside, stage->token->grad[0], whole, batch->tokens, tokens,
                                       D, &stage->cuts.vocab));
exit:
    ls_arena_release(stage->temporary, mark);
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
    size_t mark = ls_arena_mark(stage->temporary);
    const ls_real *xf;

    ls_norm_forward(&stage->final_norm, &mb->final_norm, x,
                    ls_axis_extent(ls_own_tokens(&stage->tp, tokens)));
    /* z = xf E^T: a column linear whose weight is stored by rows (f forward is the identity, or a
     * gather) */
    LS_TRY(ls_gather_tokens(&stage->tp, mb->final_norm.y, tokens, D, &xf));
    LS_TRY(ls_gemm(stage->tp.engine, LS_NO_TRANS, LS_TRANS, tokens, held, ls_axis_whole(D), xf, D,
                   stage->head->value, D, mb->z, ls_axis_extent(held), false));
    ls_arena_release(stage->temporary, mark);
    if (stage->setup.gathered_loss)
        LS_TRY(ls_gathered_cross_entropy_forward(&stage->tp, mb->losses, mb->max, mb->sum_exp,
                                                 mb->z, batch->targets, n, &stage->cuts.vocab,
                                                 config->vocab, config->label_smoothing));
    else
        LS_TRY(ls_vocab_cross_entropy_forward(&stage->tp, mb->losses, mb->max, mb->sum_exp, mb->z,
                                              batch->targets, n, &stage->cuts.vocab, config->vocab,
                                              config->label_smoothing));
    for (size_t b = 0; b < batch->B; b++)
        mb->sequence_losses.tokens[b] = ls_tree_sum(mb->losses + b * batch->S, batch->S, 1);
    mb->valid = (ls_valid){0, 0};
    for (size_t t = 0; t < n; t++) mb->valid.targets += batch->targets[t] != LS_IGNORE;
exit:
    ls_arena_release(stage->temporary, mark);
    return status;
}

/* dx = gradient of the last layer's output x */
ls_status ls_head_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx, const ls_real *x,
                           ls_valid valid)
{
    ls_status status = LS_OK;
    const ls_config *config = stage->config;
    const ls_batch *batch = &mb->batch;
    ls_axis tokens = ls_batch_tokens(batch);
    ls_axis held = ls_cut_held(&stage->cuts.vocab, ls_group_rank(stage->tp.group));
    size_t n = ls_axis_extent(tokens), D = config->d_model, width = ls_axis_extent(held);
    size_t mark = ls_arena_mark(stage->temporary);
    ls_real factor = 1 / (ls_real)valid.targets;
    ls_token_sums sums;
    const ls_real *xf;

    ls_vocab_cross_entropy_backward(&stage->tp, mb->z, mb->z, mb->max, mb->sum_exp, batch->targets,
                                    n, &stage->cuts.vocab, config->vocab, config->label_smoothing,
                                    factor);
    /* z = xf E^T: dE = dz^T xf over the tokens; dxf = sum over all ranks' vocabulary rows of dz E
     * (f backward) */
    LS_TRY(ls_gather_tokens(&stage->tp, mb->final_norm.y, tokens, D, &xf));
    LS_TRY(ls_weight_gradient(&stage->tp, stage->head->grad[stage->head_use], NULL, mb->z, held, xf,
                              ls_axis_whole(D), tokens));
    ls_arena_release(stage->temporary, mark);
    ls_gemm_term term = {mb->z, width, stage->head->value, D, held.granule, 1, 0};
    LS_TRY(ls_reduced_product(&stage->tp, LS_NO_TRANS, tokens, ls_axis_whole(D), &stage->cuts.vocab,
                              &term, 1, dx));
    LS_TRY(ls_token_sums_open(&sums, &stage->tp, tokens, D, ls_norm_sums(&stage->final_norm)));
    ls_norm_backward(&stage->tp, &stage->final_norm, &mb->final_norm, dx, dx, x, NULL, tokens,
                     &sums);
    LS_TRY(ls_token_sums_finish(&sums));
exit:
    ls_arena_release(stage->temporary, mark);
    return status;
}
