#include "lockstep/parallel/stage.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/kernels/rotary.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/vocab_cross_entropy.h"
#include "lockstep/parallel/vocab_embedding.h"
#include "parallel/layer.h"
#include "parallel/weight_gradient.h"

struct ls_stage {
    ls_stage_setup setup;
    ls_store *store;
    const ls_config *config;
    ls_memory *memory;
    ls_arena *lasting; /* cuts, tables, groups: as long as the stage */
    ls_arena *temporary;
    ls_tensor_parallel tp;
    ls_cuts cuts;
    ls_kv_sharing kv;
    ls_real *cos, *sin; /* rotary tables, or NULL */
    ls_layer *layers;
    ls_norm final_norm;
    ls_slot *token, *position; /* with the embedding */
    ls_slot *head;             /* with the head; the token slot when tied */
    int head_use;
};

struct ls_micro_batch {
    ls_arena *arena;
    ls_batch batch;
    ls_real *x; /* output of the embedding */
    ls_layer_kept *layers;
    ls_norm_kept final_norm;
    ls_real *z;                      /* own logits, then their gradient */
    ls_real *losses, *max, *sum_exp; /* per token */
    ls_real *sequence_losses;
    int64_t valid;
    ls_real *dx; /* gradient on its way back */
};

static ls_status bind(ls_stage *stage)
{
    ls_status status = LS_OK;
    const ls_config *config = stage->config;
    ls_arena *lasting = stage->lasting;

    if (config->position == LS_ROTARY) {
        size_t count = config->seq * (ls_config_head_width(config) / 2);
        LS_TRY(ls_arena_alloc(lasting, count, sizeof(ls_real), (void *)&stage->cos));
        LS_TRY(ls_arena_alloc(lasting, count, sizeof(ls_real), (void *)&stage->sin));
        ls_rotary_table(stage->cos, stage->sin, config->seq, ls_config_head_width(config),
                        config->rope_theta);
    }
    LS_TRY(ls_arena_alloc(lasting, stage->setup.layers, sizeof *stage->layers,
                          (void *)&stage->layers));
    for (size_t l = 0; l < stage->setup.layers; l++)
        ls_layer_bind(&stage->layers[l], stage->store, &stage->cuts, &stage->kv, stage->cos,
                      stage->sin, stage->setup.first_layer + l);
    if (stage->setup.embedding) {
        stage->token = ls_store_slot(stage->store, LS_TOKEN_EMBEDDING, 0);
        stage->position = ls_store_slot(stage->store, LS_POSITION_EMBEDDING, 0);
    }
    if (stage->setup.head) {
        ls_norm_bind(&stage->final_norm, stage->store, LS_FINAL_NORM_SCALE, LS_FINAL_NORM_SHIFT, 0);
        stage->head =
            ls_store_slot(stage->store, config->tied ? LS_TOKEN_EMBEDDING : LS_HEAD_WEIGHT, 0);
        stage->head_use = config->tied ? 1 : 0;
    }
exit:
    return status;
}

ls_status ls_stage_create(ls_stage **ret_stage, const ls_stage_setup *setup, ls_store *store)
{
    ls_status status = LS_OK;
    ls_stage *stage = calloc(1, sizeof *stage);
    if (!stage) LS_FAIL(LS_ERR_MEMORY, "no memory for a stage");
    stage->setup = *setup;
    stage->store = store;
    stage->config = &store->table->config;
    stage->memory = ls_rank_memory(ls_group_owner(setup->tp));

    /* Tables and cuts are a few hundred bytes of bookkeeping, in nobody's account. */
    LS_TRY(ls_arena_create(&stage->lasting, NULL, LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_create(&stage->temporary, stage->memory, LS_MEM_TEMPORARY));
    stage->tp.group = setup->tp;
    stage->tp.engine = setup->engine;
    stage->tp.temporary = stage->temporary;
    LS_TRY(ls_cuts_create(stage->config, ls_group_size(setup->tp), stage->lasting, &stage->cuts));
    LS_TRY(ls_kv_sharing_create(setup->tp, &stage->cuts.heads, stage->config->kv_heads,
                                stage->lasting, &stage->kv));
    LS_TRY(bind(stage));
    *ret_stage = stage;
    stage = NULL;
exit:
    ls_stage_destroy(&stage);
    return status;
}

void ls_stage_destroy(ls_stage **stage)
{
    if (!stage || !*stage) return;
    ls_arena_destroy(&(*stage)->lasting);
    ls_arena_destroy(&(*stage)->temporary);
    free(*stage);
    *stage = NULL;
}

static size_t own_vocab(const ls_stage *stage)
{
    return ls_axis_extent(ls_cut_held(&stage->cuts.vocab, ls_group_rank(stage->tp.group)));
}

ls_status ls_micro_batch_create(ls_micro_batch **ret_micro_batch, const ls_stage *stage, size_t B,
                                size_t S)
{
    ls_status status = LS_OK;
    size_t n = B * S, D = stage->config->d_model;
    ls_micro_batch *mb = calloc(1, sizeof *mb);
    ls_arena *arena = NULL;

    if (!mb) LS_FAIL(LS_ERR_MEMORY, "no memory for a micro-batch");
    LS_TRY(ls_arena_create(&mb->arena, stage->memory, LS_MEM_ACTIVATIONS));
    arena = mb->arena;
    if (stage->setup.embedding)
        LS_TRY(ls_arena_alloc(arena, n * D, sizeof(ls_real), (void *)&mb->x));
    LS_TRY(ls_arena_alloc(arena, stage->setup.layers, sizeof *mb->layers, (void *)&mb->layers));
    for (size_t l = 0; l < stage->setup.layers; l++)
        LS_TRY(ls_layer_keep(&stage->tp, &stage->layers[l], B, S, arena, &mb->layers[l]));
    if (stage->setup.head) {
        LS_TRY(ls_norm_keep(&stage->final_norm, n, arena, &mb->final_norm));
        LS_TRY(ls_arena_alloc(arena, n * own_vocab(stage), sizeof(ls_real), (void *)&mb->z));
        LS_TRY(ls_arena_alloc(arena, n, sizeof(ls_real), (void *)&mb->losses));
        LS_TRY(ls_arena_alloc(arena, n, sizeof(ls_real), (void *)&mb->max));
        LS_TRY(ls_arena_alloc(arena, n, sizeof(ls_real), (void *)&mb->sum_exp));
        LS_TRY(ls_arena_alloc(arena, B, sizeof(ls_real), (void *)&mb->sequence_losses));
    }
    LS_TRY(ls_arena_alloc(arena, n * D, sizeof(ls_real), (void *)&mb->dx));
    *ret_micro_batch = mb;
    mb = NULL;
exit:
    ls_micro_batch_destroy(&mb);
    return status;
}

void ls_micro_batch_destroy(ls_micro_batch **micro_batch)
{
    if (!micro_batch || !*micro_batch) return;
    ls_arena_destroy(&(*micro_batch)->arena);
    free(*micro_batch);
    *micro_batch = NULL;
}

static void embedding_dropout(const ls_stage *stage, ls_real *y, const ls_real *x,
                              const ls_batch *batch)
{
    ls_stream stream = {batch->seed, LS_RANDOM_DROPOUT_EMBEDDING, 0, batch->step};
    size_t width = batch->S * stage->config->d_model;
    ls_dropout(y, x, batch->B * width, batch->dropout ? stage->config->dropout : 0, stream,
               (uint64_t)batch->first * width);
}

/* x = dropout(token row + position row) */
static ls_status embed(ls_stage *stage, ls_micro_batch *mb)
{
    ls_status status = LS_OK;
    const ls_batch *batch = &mb->batch;
    size_t D = stage->config->d_model, width = batch->S * D;

    LS_TRY(ls_vocab_embedding_forward(&stage->tp, mb->x, stage->token->value, batch->tokens,
                                      batch->B * batch->S, D, &stage->cuts.vocab));
    for (size_t b = 0; stage->position && b < batch->B; b++)
        ls_add(mb->x + b * width, mb->x + b * width, stage->position->value, width);
    embedding_dropout(stage, mb->x, mb->x, batch);
exit:
    return status;
}

static ls_status embed_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx)
{
    ls_status status = LS_OK;
    const ls_batch *batch = &mb->batch;
    size_t D = stage->config->d_model, width = batch->S * D;

    embedding_dropout(stage, dx, dx, batch);
    if (stage->position) {
        /* A position row meets one token of each sequence: T over the sequences. Rows beyond S meet
         * none. */
        ls_tree_sum_rows(stage->position->grad[0], dx, ls_axis_whole(batch->B), width, width);
        for (size_t i = width; i < stage->config->seq * D; i++) stage->position->grad[0][i] = 0;
    }
    LS_TRY(ls_vocab_embedding_backward(&stage->tp, stage->token->grad[0], dx, batch->tokens,
                                       ls_batch_tokens(batch), D, &stage->cuts.vocab));
exit:
    return status;
}

/* Logits of own vocabulary rows, then the loss. */
static ls_status head_forward(ls_stage *stage, ls_micro_batch *mb, const ls_real *x)
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
static ls_status head_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx, const ls_real *x,
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
    ls_norm_backward(&stage->final_norm, &mb->final_norm, dx, dx, x, NULL, tokens);
exit:
    return status;
}

ls_status ls_stage_forward(ls_stage *stage, ls_micro_batch *mb, const ls_batch *batch,
                           const ls_real *x, const ls_real **ret_x)
{
    ls_status status = LS_OK;
    size_t n = batch->B * batch->S;

    mb->batch = *batch;
    if (batch->S > stage->config->seq)
        LS_FAIL(LS_ERR_INPUT, "sequences of %zu tokens: the model has positions for %zu", batch->S,
                stage->config->seq);
    /* Every rank looks at every id, so that a bad one is an error on all of them, before anybody
     * waits. */
    if (stage->setup.embedding)
        LS_TRY(ls_ids_check(batch->tokens, n, stage->config->vocab, 0, "token"));
    if (stage->setup.head)
        LS_TRY(ls_ids_check(batch->targets, n, stage->config->vocab, 1, "target"));

    if (stage->setup.embedding) {
        LS_TRY(embed(stage, mb));
        x = mb->x;
    }
    for (size_t l = 0; l < stage->setup.layers; l++) {
        mb->layers[l].x = x;
        LS_TRY(ls_layer_forward(&stage->tp, &stage->layers[l], &mb->layers[l], batch));
        x = mb->layers[l].x2;
        LS_TRY(ls_rank_check(ls_group_owner(stage->tp.group)));
    }
    if (stage->setup.head) LS_TRY(head_forward(stage, mb, x));
    if (ret_x) *ret_x = stage->setup.head ? NULL : x;
exit:
    return status;
}

const ls_real *ls_micro_batch_losses(const ls_micro_batch *micro_batch, int64_t *ret_valid)
{
    *ret_valid = micro_batch->valid;
    return micro_batch->sequence_losses;
}

/* No valid target anywhere: the loss is 0 whatever the parameters, so every gradient is +0 (rule
 * 15). Computed, some would be -0: sums of +0 times something negative. */
static void zero_gradients(const ls_stage *stage)
{
    for (size_t i = 0; i < stage->store->table->count; i++) {
        ls_slot *slot = &stage->store->slots[i];
        for (int use = 0; use < LS_MAX_USES; use++)
            if (slot->grad[use])
                memset(slot->grad[use], 0, slot->rows * slot->cols * sizeof *slot->grad[use]);
    }
}

ls_status ls_stage_backward(ls_stage *stage, ls_micro_batch *mb, const ls_real *dx, int64_t valid,
                            const ls_real **ret_dx)
{
    ls_status status = LS_OK;
    const ls_batch *batch = &mb->batch;
    size_t layers = stage->setup.layers, count = batch->B * batch->S * stage->config->d_model;

    if (valid == 0) {
        zero_gradients(stage);
        memset(mb->dx, 0, count * sizeof *mb->dx);
        goto exit;
    }
    if (stage->setup.head)
        LS_TRY(head_backward(stage, mb, mb->dx, layers ? mb->layers[layers - 1].x2 : mb->x, valid));
    else
        ls_scale(mb->dx, dx, 1, count);
    for (size_t l = layers; l-- > 0;) {
        LS_TRY(ls_layer_backward(&stage->tp, &stage->layers[l], &mb->layers[l], mb->dx, batch));
        LS_TRY(ls_rank_check(ls_group_owner(stage->tp.group)));
    }
    if (stage->setup.embedding) LS_TRY(embed_backward(stage, mb, mb->dx));
exit:
    if (ret_dx && status == LS_OK) *ret_dx = stage->setup.embedding ? NULL : mb->dx;
    return status;
}

void ls_stage_finish_gradients(ls_stage *stage)
{
    if (!stage->token) return;
    size_t count = stage->token->rows * stage->token->cols;
    ls_end_sum(stage->token->grad[0], count);
    if (stage->config->tied)
        ls_add(stage->token->grad[0], stage->token->grad[0], stage->token->grad[1], count);
}
