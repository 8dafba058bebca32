/* stage.c - creates a pipeline stage: which parameters and gradients it has. */
#include "lockstep/parallel/transformer/stage.h"

#include <stdlib.h>

#include "lockstep/kernels/rotary.h"
#include "parallel/transformer/stage_ends.h"
#include "base/allocate.h"

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

/* Whether this stage makes the gradient of one use of a parameter that is its own. */
static bool is_own_use(const ls_stage_setup *setup, const ls_param *param, int use)
{
    if (use == 1) return setup->head && param->also_last;
    return setup->embedding || param->stage != LS_STAGE_FIRST;
}

/* The layers must be the model's, and the store must hold this rank's shard of everything in them.
 */
static ls_status check(const ls_stage *stage)
{
    ls_status status = LS_OK;
    const ls_stage_setup *setup = &stage->setup;
    const ls_param_table *table = stage->store->table;
    int tp = ls_group_size(setup->tp), rank = ls_group_rank(setup->tp);

    LS_TRY(ls_config_require(stage->config, LS_MODEL_TRANSFORMER, "a stage of layers"));
    if (setup->layers > stage->config->layers ||
        setup->first_layer > stage->config->layers - setup->layers)
        LS_FAIL(LS_ERR_INPUT, "a stage of %zu layers from layer %zu on: the model has %zu",
                setup->layers, setup->first_layer, stage->config->layers);
    for (size_t i = 0; i < table->count; i++) {
        const ls_param *param = &table->params[i];
        const ls_slot *slot = &stage->store->slots[i];
        ls_shard shard = ls_shard_of(&table->config, param->kind, tp, rank);
        if (!is_own(setup, param)) continue;
        bool use_missing = false;
        for (int use = 0; use < LS_MAX_USES; use++)
            use_missing |= is_own_use(setup, param, use) && !slot->grad[use];
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
                      stage->sin, stage->setup.first_layer + l, stage->setup.recompute);
    if (stage->setup.embedding) {
        stage->token = ls_store_slot(stage->store, LS_TOKEN_EMBEDDING, 0);
        stage->position = ls_store_slot(stage->store, LS_POSITION_EMBEDDING, 0);
        stage->type = ls_store_slot(stage->store, LS_TYPE_EMBEDDING, 0);
        if (config->embedding_norm)
            ls_norm_bind(&stage->embedding_norm, stage->store, LS_EMBEDDING_NORM_SCALE,
                         LS_EMBEDDING_NORM_SHIFT, 0);
    }
    if (stage->setup.head) {
        if (config->norm_place == LS_NORM_PRE)
            ls_norm_bind(&stage->final_norm, stage->store, LS_FINAL_NORM_SCALE, LS_FINAL_NORM_SHIFT,
                         0);
        stage->head =
            ls_store_slot(stage->store, config->tied ? LS_TOKEN_EMBEDDING : LS_HEAD_WEIGHT, 0);
        stage->head_use = config->tied ? 1 : 0;
        stage->vocab_bias = ls_store_slot(stage->store, LS_VOCAB_BIAS, 0);
        if (config->objective == LS_MASKED_TOKEN) ls_masked_head_bind(&stage->masked, stage->store);
        if (config->sentence_order) ls_order_head_bind(&stage->order, stage->store);
    }
exit:
    return status;
}

static ls_status list_gradients(ls_stage *stage)
{
    ls_status status = LS_OK;
    const ls_param_table *table = stage->store->table;
    LS_TRY(ls_arena_alloc(stage->lasting, table->count * LS_MAX_USES, sizeof *stage->gradients,
                          (void *)&stage->gradients));
    for (size_t i = 0; i < table->count; i++) {
        const ls_slot *slot = &stage->store->slots[i];
        if (!is_own(&stage->setup, &table->params[i])) continue;
        for (int use = 0; use < LS_MAX_USES; use++)
            if (is_own_use(&stage->setup, &table->params[i], use))
                stage->gradients[stage->n_gradients++] =
                    (ls_own_gradient){slot->grad[use], slot->rows * slot->cols};
    }
exit:
    return status;
}

ls_status ls_stage_create(ls_stage **ret_stage, const ls_stage_setup *setup, ls_store *store)
{
    ls_status status = LS_OK;
    ls_stage *stage = NULL;
    LS_NEW(stage, 1);
    stage->setup = *setup;
    stage->store = store;
    stage->config = &store->table->config;
    stage->memory = ls_rank_memory(ls_group_owner(setup->tp));

    /* Tables and cuts are a few hundred bytes of bookkeeping, in no account. */
    LS_TRY(ls_arena_create(&stage->lasting, NULL, LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_create(&stage->temporary, stage->memory, LS_MEM_TEMPORARY));
    stage->tp.group = setup->tp;
    stage->tp.engine = setup->engine;
    stage->tp.temporary = stage->temporary;
    stage->tp.sequence_parallel = setup->sequence_parallel;
    LS_TRY(check(stage));
    LS_TRY(ls_cuts_create(stage->config, ls_group_size(setup->tp), stage->lasting, &stage->cuts));
    if (setup->kv)
        stage->kv = *setup->kv;
    else
        LS_TRY(ls_kv_sharing_create(setup->tp, &stage->cuts.heads, stage->config->kv_heads,
                                    stage->lasting, &stage->kv));
    LS_TRY(bind(stage));
    LS_TRY(list_gradients(stage));
    if (setup->batch)
        LS_TRY(ls_forest_sum_create(&stage->sum, setup->batch, store->gradient_slots));
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
    ls_forest_sum_destroy(&(*stage)->sum);
    free(*stage);
    *stage = NULL;
}

size_t ls_stage_rows(const ls_stage *stage, size_t B, size_t S)
{
    return ls_axis_extent(ls_own_tokens(&stage->tp, ls_axis_of(B, S)));
}
