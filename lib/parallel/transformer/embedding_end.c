/* embedding_end.c - from tokens to vectors, and back to the gradients of the tables.
 *
 *     e = (token row + position row) + type row
 *     x = dropout(norm(e))
 *
 * Every model has the first; BERT all of them, a rotary one no positions. The table of tokens is
 * cut by rows, so its rows come together from the ranks that have them (vocab_embedding.h); the
 * other tables are small and whole on every rank, and each adds to the tokens that it has. */
#include <string.h>

#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/tensor/vocab_embedding.h"
#include "parallel/transformer/stage_ends.h"

/* Of own tokens; the gradient's is the same call. */
static void embedding_dropout(const ls_stage *stage, ls_real *y, const ls_real *x,
                              const ls_batch *batch)
{
    ls_stream stream = {batch->seed, LS_RANDOM_DROPOUT_EMBEDDING, 0, batch->step};
    ls_own_dropout(&stage->tp, y, x, ls_batch_tokens(batch), stage->config->d_model,
                   batch->training ? stage->config->dropout : 0, stream, batch->first);
}

ls_status ls_embed_keep(const ls_stage *stage, ls_micro_batch *mb)
{
    ls_status status = LS_OK;
    size_t n = ls_stage_rows(stage, mb->B, mb->S);
    mb->e = mb->x;
    if (stage->config->embedding_norm) {
        LS_TRY(
            ls_arena_alloc(mb->saved, n * stage->config->d_model, sizeof(ls_real), (void *)&mb->e));
        LS_TRY(
            ls_norm_keep_beside(&stage->embedding_norm, mb->x, n, mb->saved, &mb->embedding_norm));
    }
exit:
    return status;
}

/* e += the row of each own token's type. */
static void add_types(const ls_stage *stage, ls_real *e, const ls_batch *batch)
{
    ls_share own = ls_own_share(&stage->tp, batch->S);
    size_t D = stage->config->d_model;
    for (size_t b = 0; b < batch->B; b++)
        for (size_t s = 0; s < own.count; s++) {
            size_t place = b * batch->S + own.first + s;
            size_t type = batch->segments ? (size_t)batch->segments[place] : 0;
            ls_real *row = e + (b * own.count + s) * D;
            ls_add(row, row, stage->type->value + type * D, D);
        }
}

ls_status ls_embed_forward(ls_stage *stage, ls_micro_batch *mb)
{
    ls_status status = LS_OK;
    const ls_batch *batch = &mb->batch;
    ls_share own = ls_own_share(&stage->tp, batch->S);
    size_t D = stage->config->d_model, width = own.count * D;

    LS_TRY(ls_vocab_embedding_forward(&stage->tp, mb->e, stage->token->value, batch->tokens,
                                      ls_batch_tokens(batch), D, &stage->cuts.vocab));
    for (size_t b = 0; stage->position && b < batch->B; b++)
        ls_add(mb->e + b * width, mb->e + b * width, stage->position->value + own.first * D, width);
    if (stage->type) add_types(stage, mb->e, batch);
    if (stage->config->embedding_norm) {
        LS_TRY(ls_observe_own(&stage->tp, LS_POINT_EMBEDDING_SUM, false, D, mb->e));
        ls_norm_forward(&stage->embedding_norm, &mb->embedding_norm, mb->e, batch->B * own.count);
    }
    LS_TRY(ls_observe_own(&stage->tp, LS_POINT_EMBEDDING, false, D, mb->x));
    embedding_dropout(stage, mb->x, mb->x, batch);
    LS_TRY(ls_observe_own(&stage->tp, LS_POINT_EMBEDDED, false, D, mb->x));
exit:
    return status;
}

/* x = norm(e): de in place, and the norm's parameters. */
static ls_status norm_backward(ls_stage *stage, const ls_micro_batch *mb, ls_real *dx)
{
    ls_status status = LS_OK;
    ls_axis tokens = ls_batch_tokens(&mb->batch);
    size_t mark = ls_arena_mark(stage->temporary);
    ls_token_sums sums;

    LS_TRY(ls_token_sums_open(&sums, &stage->tp, tokens, stage->config->d_model,
                              ls_norm_sums(&stage->embedding_norm)));
    LS_TRY(ls_norm_backward(&stage->tp, &stage->embedding_norm, &mb->embedding_norm, dx, dx, mb->e,
                            NULL, tokens, &sums));
    LS_TRY(ls_token_sums_finish(&sums));
exit:
    ls_arena_release(stage->temporary, mark);
    return status;
}

/* A position row is added to one token of each sequence: T over the sequences; past S to none.
 */
static void position_gradient(const ls_stage *stage, const ls_real *de, ls_axis tokens)
{
    size_t D = stage->config->d_model, width = tokens.granule * D;
    for (size_t j = 0; j < ls_batch_sums_count(stage->tp.sums); j++) {
        ls_batch_sum sum = ls_batch_sums_get(stage->tp.sums, j, tokens);
        ls_real *target = stage->position->grad[0] + sum.offset;
        ls_tree_sum_rows(target, de + sum.first * width, ls_axis_whole(sum.tokens.granules), width,
                         width);
        for (size_t i = width; i < stage->config->seq * D; i++) target[i] = 0;
    }
}

/* The rows of types are rows by index like those of tokens, held whole by every rank. */
static ls_status type_gradient(const ls_stage *stage, const ls_real *de, const ls_batch *batch)
{
    ls_status status = LS_OK;
    ls_axis tokens = ls_batch_tokens(batch);
    size_t D = stage->config->d_model, mark = ls_arena_mark(stage->temporary);
    const int32_t *types = batch->segments;
    int32_t *none_given;

    if (!types) {
        LS_TRY(ls_arena_alloc(stage->temporary, ls_axis_extent(tokens), sizeof *none_given,
                              (void *)&none_given));
        memset(none_given, 0, ls_axis_extent(tokens) * sizeof *none_given);
        types = none_given;
    }
    for (size_t j = 0; j < ls_batch_sums_count(stage->tp.sums); j++) {
        ls_batch_sum sum = ls_batch_sums_get(stage->tp.sums, j, tokens);
        size_t first = sum.first * tokens.granule;
        LS_TRY(ls_embedding_backward(stage->type->grad[0] + sum.offset, de + first * D,
                                     types + first, sum.tokens, D, 0, stage->type->rows));
    }
exit:
    ls_arena_release(stage->temporary, mark);
    return status;
}

ls_status ls_embed_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx)
{
    ls_status status = LS_OK;
    const ls_batch *batch = &mb->batch;
    ls_tensor_parallel inside = ls_inside_block(&stage->tp);
    ls_axis tokens = ls_batch_tokens(batch);
    size_t mark = ls_arena_mark(stage->temporary);
    size_t D = stage->config->d_model;
    const ls_real *de;

    /* x = dropout(norm(e)) */
    LS_TRY(ls_observe_own(&stage->tp, LS_POINT_EMBEDDED, true, D, dx));
    embedding_dropout(stage, dx, dx, batch);
    LS_TRY(ls_observe_own(&stage->tp, LS_POINT_EMBEDDING, true, D, dx));
    if (stage->config->embedding_norm) {
        LS_TRY(norm_backward(stage, mb, dx));
        LS_TRY(ls_observe_own(&stage->tp, LS_POINT_EMBEDDING_SUM, true, D, dx));
    }
    /* e = (token row + position row) + type row. The tables want whole sequences: rows of positions
     * meet one token of each, and the rows of tokens that a rank has may be read anywhere. */
    ls_observe_next(&stage->tp,
                    stage->config->embedding_norm ? LS_POINT_EMBEDDING_SUM : LS_POINT_EMBEDDING,
                    true);
    LS_TRY(ls_gather_tokens(&stage->tp, dx, tokens, D, &de));
    if (stage->position) position_gradient(stage, de, tokens);
    LS_TRY(ls_vocab_embedding_backward(&inside, stage->token->grad[0], de, batch->tokens, tokens, D,
                                       &stage->cuts.vocab));
    if (stage->type) LS_TRY(type_gradient(stage, de, batch));
exit:
    ls_arena_release(stage->temporary, mark);
    return status;
}
