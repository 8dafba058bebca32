/* head_end.c - from the last layer to the losses, and back.
 *
 *     xf = norm(x)       z = xf E^T                         GPT
 *     xf = norm(x)       z = features(xf) E^T + bias        a masked-token model
 *
 * Where the norms come after the residual sums xf is x itself. E is the table of tokens once
 * more, or one of its own; a rank has its rows, and of the bias the same words. A model with
 * sentence order asks a second thing of xf (order_head.h); its loss comes second, and so does its
 * gradient. */
#include <string.h>

#include "lockstep/parallel/tensor/reduced_product.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/tensor/vocab_cross_entropy.h"
#include "parallel/transformer/stage_ends.h"
#include "parallel/tensor/weight_gradient.h"

static bool masked_token(const ls_stage *stage)
{
    return stage->config->objective == LS_MASKED_TOKEN;
}

static bool final_norm(const ls_stage *stage)
{
    return stage->config->norm_place == LS_NORM_PRE;
}

static ls_axis own_words(const ls_stage *stage)
{
    return ls_cut_held(&stage->cuts.vocab, ls_group_rank(stage->tp.group));
}

/* Words in the softmax: padding is none. */
static size_t words(const ls_stage *stage)
{
    return stage->config->vocab;
}

/* The input of the vocabulary product, own tokens. */
static const ls_real *features_of(const ls_stage *stage, const ls_micro_batch *mb)
{
    return masked_token(stage) ? mb->masked.norm.y : mb->xf;
}

static ls_point point_of_features(const ls_stage *stage)
{
    return masked_token(stage) ? LS_POINT_FEATURES : LS_POINT_FINAL_NORM;
}

ls_status ls_head_keep(const ls_stage *stage, ls_micro_batch *mb)
{
    ls_status status = LS_OK;
    size_t n = mb->B * mb->S, rows = ls_stage_rows(stage, mb->B, mb->S);
    ls_real **const per_token[] = {&mb->losses, &mb->max, &mb->sum_exp};
    if (final_norm(stage))
        LS_TRY(ls_norm_keep(&stage->final_norm, rows, mb->saved, &mb->final_norm));
    if (masked_token(stage))
        LS_TRY(ls_masked_head_keep(&stage->masked, rows, mb->saved, &mb->masked));
    LS_TRY(ls_arena_alloc(mb->saved, n * ls_axis_extent(own_words(stage)), sizeof(ls_real),
                          (void *)&mb->z));
    for (size_t i = 0; i < 3; i++)
        LS_TRY(ls_arena_alloc(mb->saved, n, sizeof(ls_real), (void *)per_token[i]));
    if (stage->config->sentence_order)
        LS_TRY(ls_order_head_keep(&stage->order, &mb->batch, mb->saved, &mb->order));
exit:
    return status;
}

/* Own words without the padding that may follow. */
static ls_status look_logits(const ls_stage *stage, const ls_micro_batch *mb, bool gradient)
{
    size_t V = stage->config->vocab, width = ls_axis_extent(own_words(stage));
    size_t first =
        stage->cuts.vocab.bounds[ls_group_rank(stage->tp.group)] * stage->cuts.vocab.whole.granule;
    size_t words = first >= V ? 0 : first + width > V ? V - first : width;
    if (first > V) first = V;
    return ls_observe_rows(&stage->tp, LS_POINT_LOGITS, gradient, (ls_view_run){V, first, words},
                           mb->z, width);
}

/* ---- forward ---- */

/* Logits of own words. */
static ls_status logits(ls_stage *stage, ls_micro_batch *mb)
{
    ls_status status = LS_OK;
    ls_axis tokens = ls_batch_tokens(&mb->batch), held = own_words(stage);
    size_t D = stage->config->d_model, width = ls_axis_extent(held);
    size_t mark = ls_arena_mark(stage->temporary);
    const ls_real *features;

    /* A column linear whose weight is stored by rows (f forward is the identity, or a gather). */
    ls_observe_next(&stage->tp, point_of_features(stage), false);
    LS_TRY(ls_gather_tokens(&stage->tp, features_of(stage, mb), tokens, D, &features));
    LS_TRY(ls_gemm(stage->tp.engine, LS_NO_TRANS, LS_TRANS, tokens, held, ls_axis_whole(D),
                   features, D, stage->head->value, D, mb->z, width, false));
    if (stage->vocab_bias)
        ls_add_bias(mb->z, stage->vocab_bias->value, ls_axis_extent(tokens), width, width);
    LS_TRY(look_logits(stage, mb, false));
exit:
    ls_arena_release(stage->temporary, mark);
    return status;
}

static ls_status token_losses(ls_stage *stage, ls_micro_batch *mb)
{
    ls_status status = LS_OK;
    const ls_config *config = stage->config;
    const ls_batch *batch = &mb->batch;
    size_t n = batch->B * batch->S;

    if (stage->setup.gathered_loss)
        LS_TRY(ls_gathered_cross_entropy_forward(&stage->tp, mb->losses, mb->max, mb->sum_exp,
                                                 mb->z, batch->targets, n, &stage->cuts.vocab,
                                                 words(stage), config->label_smoothing));
    else
        LS_TRY(ls_vocab_cross_entropy_forward(&stage->tp, mb->losses, mb->max, mb->sum_exp, mb->z,
                                              batch->targets, n, &stage->cuts.vocab, words(stage),
                                              config->label_smoothing));
    LS_TRY(ls_observe_dims(&stage->tp, LS_POINT_TOKEN_LOSS, false, 1,
                           (ls_view_run[]){ls_whole_run(batch->S)}, mb->losses));
    for (size_t b = 0; b < batch->B; b++)
        mb->sequence_losses.tokens[b] = ls_tree_sum(mb->losses + b * batch->S, batch->S, 1);
    mb->valid = (ls_valid){0, 0};
    for (size_t t = 0; t < n; t++) mb->valid.targets += batch->targets[t] != LS_IGNORE;
exit:
    return status;
}

ls_status ls_head_forward(ls_stage *stage, ls_micro_batch *mb, const ls_real *x)
{
    ls_status status = LS_OK;
    const ls_batch *batch = &mb->batch;
    ls_axis tokens = ls_batch_tokens(batch);

    mb->xf = x;
    if (final_norm(stage)) {
        ls_norm_forward(&stage->final_norm, &mb->final_norm, x, ls_stage_rows(stage, mb->B, mb->S));
        mb->xf = mb->final_norm.y;
        LS_TRY(
            ls_observe_own(&stage->tp, LS_POINT_FINAL_NORM, false, stage->config->d_model, mb->xf));
    }
    if (masked_token(stage))
        LS_TRY(ls_masked_head_forward(&stage->tp, &stage->masked, &mb->masked, mb->xf, tokens));
    LS_TRY(logits(stage, mb));
    LS_TRY(token_losses(stage, mb));
    if (stage->config->sentence_order) {
        LS_TRY(ls_order_head_forward(&stage->tp, &stage->order, &mb->order,
                                     mb->sequence_losses.order, mb->xf, batch));
        for (size_t b = 0; b < batch->B; b++) mb->valid.labels += mb->order.labels[b] != LS_IGNORE;
    }
exit:
    return status;
}

/* ---- backward ---- */

/* A loss without a term in the whole batch: its parameters get +0 (rule 15). */
static void nothing_for(const ls_stage *stage, ls_role role, int use)
{
    const ls_slot *slot = ls_store_slot(stage->store, role, 0);
    if (slot) ls_no_gradient(&stage->tp, slot->grad[use], slot->rows * slot->cols);
}

static void nothing_from_vocabulary(const ls_stage *stage)
{
    nothing_for(stage, stage->config->tied ? LS_TOKEN_EMBEDDING : LS_HEAD_WEIGHT, stage->head_use);
    for (int role = LS_MASKED_DENSE_WEIGHT; role <= LS_VOCAB_BIAS; role++)
        nothing_for(stage, (ls_role)role, 0);
}

static void nothing_from_order(const ls_stage *stage)
{
    for (int role = LS_POOLER_WEIGHT; role <= LS_ORDER_BIAS; role++)
        nothing_for(stage, (ls_role)role, 0);
}

/* z += bias: the sum over the tokens of own words. */
static void bias_gradient(const ls_stage *stage, const ls_real *dz, ls_axis tokens)
{
    size_t width = ls_axis_extent(own_words(stage));
    for (size_t j = 0; j < ls_batch_sums_count(stage->tp.sums); j++) {
        ls_batch_sum sum = ls_batch_sums_get(stage->tp.sums, j, tokens);
        ls_tree_sum_rows(stage->vocab_bias->grad[0] + sum.offset,
                         dz + sum.first * tokens.granule * width, sum.tokens, width, width);
    }
}

/* dx = gradient of the vocabulary product's input, own tokens x D. */
static ls_status vocabulary_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx,
                                     int64_t valid)
{
    ls_status status = LS_OK;
    const ls_config *config = stage->config;
    const ls_batch *batch = &mb->batch;
    ls_axis tokens = ls_batch_tokens(batch), held = own_words(stage);
    size_t n = ls_axis_extent(tokens), D = config->d_model, width = ls_axis_extent(held);
    size_t mark = ls_arena_mark(stage->temporary);
    const ls_real *features;

    ls_vocab_cross_entropy_backward(&stage->tp, mb->z, mb->z, mb->max, mb->sum_exp, batch->targets,
                                    n, &stage->cuts.vocab, words(stage), config->label_smoothing,
                                    1 / (ls_real)valid);
    LS_TRY(look_logits(stage, mb, true));
    /* z = features E^T + bias: dE = dz^T features over the tokens; dfeatures = sum over all ranks'
     * vocabulary rows of dz E (f backward) */
    ls_observe_next(&stage->tp, point_of_features(stage), false);
    LS_TRY(ls_gather_tokens(&stage->tp, features_of(stage, mb), tokens, D, &features));
    LS_TRY(ls_weight_gradient(&stage->tp, stage->head->grad[stage->head_use], NULL, mb->z, held,
                              features, ls_axis_whole(D), tokens));
    ls_arena_release(stage->temporary, mark);
    if (stage->vocab_bias) bias_gradient(stage, mb->z, tokens);
    ls_gemm_term term = {mb->z, width, stage->head->value, D, held.granule, 1, 0};
    ls_observe_next(&stage->tp, point_of_features(stage), true);
    LS_TRY(ls_reduced_product(&stage->tp, LS_NO_TRANS, tokens, ls_axis_whole(D), &stage->cuts.vocab,
                              &term, 1, dx));
exit:
    ls_arena_release(stage->temporary, mark);
    return status;
}

ls_status ls_head_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx, const ls_real *x,
                           ls_valid valid)
{
    ls_status status = LS_OK;
    ls_axis tokens = ls_batch_tokens(&mb->batch);
    size_t D = stage->config->d_model, mark = ls_arena_mark(stage->temporary);
    bool masked = masked_token(stage) && valid.targets > 0;
    ls_token_sums sums;

    LS_TRY(ls_token_sums_open(&sums, &stage->tp, tokens, D,
                              (masked ? ls_norm_sums(&stage->masked.norm) : 0) +
                                  (final_norm(stage) ? ls_norm_sums(&stage->final_norm) : 0)));
    if (valid.targets > 0) {
        LS_TRY(vocabulary_backward(stage, mb, dx, valid.targets));
        if (masked)
            LS_TRY(ls_masked_head_backward(&stage->tp, &stage->masked, &mb->masked, dx, mb->xf,
                                           tokens, &sums));
    } else {
        nothing_from_vocabulary(stage);
        memset(dx, 0, ls_stage_rows(stage, mb->B, mb->S) * D * sizeof *dx);
    }
    if (valid.labels > 0)
        LS_TRY(ls_order_head_backward(&stage->tp, &stage->order, &mb->order, dx,
                                      1 / (ls_real)valid.labels, &mb->batch));
    else
        nothing_from_order(stage);
    if (final_norm(stage)) {
        LS_TRY(ls_observe_own(&stage->tp, LS_POINT_FINAL_NORM, true, D, dx));
        LS_TRY(ls_norm_backward(&stage->tp, &stage->final_norm, &mb->final_norm, dx, dx, x, NULL,
                                tokens, &sums));
    }
    LS_TRY(ls_token_sums_finish(&sums));
exit:
    ls_arena_release(stage->temporary, mark);
    return status;
}
