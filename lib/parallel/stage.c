#include "lockstep/parallel/stage.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/kernels/rotary.h"
#include "parallel/stage_ends.h"

/* Whether a parameter belongs to this stage. */
static bool is_own(const ls_stage_setup *setup, const ls_param *param)
{
    switch (param->stage) {
    case LS_STAGE_FIRST:
        return setup->embedding || (setup->head && param->also_last);
    case LS_STAGE_LAYER:
        return param->layer - setup->first_layer < setup->layers; /* false, too, below the first */
    case LS_STAGE_LAST:
        return setup->head;
    }
    return false;
}

/* The layers must be the model's, and the store must hold this rank's shard of everything in them.
 */
static ls_status check(const ls_stage *stage)
{
    ls_status status = LS_OK;
    const ls_stage_setup *setup = &stage->setup;
    const ls_param_table *table = stage->store->table;
    int tp = ls_group_size(setup->tp), rank = ls_group_rank(setup->tp);

    if (setup->layers > stage->config->layers ||
        setup->first_layer > stage->config->layers - setup->layers)
        LS_FAIL(LS_ERR_INPUT, "a stage of %zu layers from layer %zu on: the model has %zu",
                setup->layers, setup->first_layer, stage->config->layers);
    for (size_t i = 0; i < table->count; i++) {
        const ls_param *param = &table->params[i];
        const ls_slot *slot = &stage->store->slots[i];
        ls_shard shard = ls_shard_of(&table->config, param->kind, tp, rank);
        if (!is_own(setup, param)) continue;
        bool use_missing = (setup->head && param->also_last && !slot->grad[1]) ||
                           ((setup->embedding || param->stage != LS_STAGE_FIRST) && !slot->grad[0]);
        if (!slot->value || use_missing || slot->shard.first != shard.first ||
            slot->shard.count != shard.count)
            LS_FAIL(LS_ERR_INPUT, "%s: the store does not hold what rank %d of %d needs of it",
                    param->name, rank, tp);
    }
exit:
    return status;
}

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
    LS_TRY(check(stage));
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
    mb->B = B;
    mb->S = S;
    mb->layers = calloc(stage->setup.layers + 1, sizeof *mb->layers);
    if (!mb->layers) LS_FAIL(LS_ERR_MEMORY, "no memory for a micro-batch");
    LS_TRY(ls_arena_create(&mb->kept, stage->memory, LS_MEM_ACTIVATIONS));
    LS_TRY(ls_arena_create(&mb->going, stage->memory, LS_MEM_TEMPORARY));
    arena = mb->kept;
    if (stage->setup.embedding)
        LS_TRY(ls_arena_alloc(arena, n * D, sizeof(ls_real), (void *)&mb->x));
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
    *ret_micro_batch = mb;
    mb = NULL;
exit:
    ls_micro_batch_destroy(&mb);
    return status;
}

void ls_micro_batch_destroy(ls_micro_batch **micro_batch)
{
    if (!micro_batch || !*micro_batch) return;
    ls_arena_destroy(&(*micro_batch)->kept);
    ls_arena_destroy(&(*micro_batch)->going);
    free((*micro_batch)->layers);
    free(*micro_batch);
    *micro_batch = NULL;
}

ls_status ls_stage_forward(ls_stage *stage, ls_micro_batch *mb, const ls_batch *batch,
                           const ls_real *x, const ls_real **ret_x)
{
    ls_status status = LS_OK;
    size_t n = batch->B * batch->S;

    if (batch->S > stage->config->seq)
        LS_FAIL(LS_ERR_INPUT, "sequences of %zu tokens: the model has positions for %zu", batch->S,
                stage->config->seq);
    if (batch->B > mb->B || batch->S > mb->S)
        LS_FAIL(LS_ERR_INPUT,
                "%zu sequences of %zu tokens: the micro-batch has room for %zu of %zu", batch->B,
                batch->S, mb->B, mb->S);
    mb->batch = *batch;
    mb->forward_done = false;
    ls_arena_release(mb->going, 0);
    /* Every rank looks at every id, so that a bad one is an error on all of them, before anybody
     * waits. */
    if (stage->setup.embedding)
        LS_TRY(ls_ids_check(batch->tokens, n, stage->config->vocab, 0, "token"));
    if (stage->setup.head)
        LS_TRY(ls_ids_check(batch->targets, n, stage->config->vocab, 1, "target"));

    if (stage->setup.embedding) {
        LS_TRY(ls_embed_forward(stage, mb));
        x = mb->x;
    }
    for (size_t l = 0; l < stage->setup.layers; l++) {
        mb->layers[l].x = x;
        LS_TRY(ls_layer_forward(&stage->tp, &stage->layers[l], &mb->layers[l], batch));
        x = mb->layers[l].x2;
        LS_TRY(ls_rank_check(ls_group_owner(stage->tp.group)));
    }
    mb->end = x;
    if (stage->setup.head) LS_TRY(ls_head_forward(stage, mb, x));
    mb->forward_done = true;
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

    if (!mb->forward_done)
        LS_FAIL(LS_ERR_INPUT, "a backward pass without a forward pass before it");
    mb->forward_done = false;
    LS_TRY(ls_arena_alloc(mb->going, count, sizeof *mb->dx, (void *)&mb->dx));
    if (valid == 0) {
        zero_gradients(stage);
        memset(mb->dx, 0, count * sizeof *mb->dx);
        goto exit;
    }
    if (stage->setup.head)
        LS_TRY(ls_head_backward(stage, mb, mb->dx, mb->end, valid));
    else
        memcpy(mb->dx, dx, count * sizeof *mb->dx);
    for (size_t l = layers; l-- > 0;) {
        LS_TRY(ls_layer_backward(&stage->tp, &stage->layers[l], &mb->layers[l], mb->dx, batch));
        LS_TRY(ls_rank_check(ls_group_owner(stage->tp.group)));
    }
    if (stage->setup.embedding) LS_TRY(ls_embed_backward(stage, mb, mb->dx));
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
