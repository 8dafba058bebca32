/* store.c - what one rank holds of the parameters. */
#include "lockstep/model/store.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/thread_mode.h"
#include "lockstep/numerics/random.h"
#include "lockstep/numerics/row_sum.h"
#include "model/param_shard.h"
#include "base/allocate.h"

/* ---- memory ---- */

static ls_status check_holding(const ls_param *param, const ls_holding *holding)
{
    ls_status status = LS_OK;
    size_t granules = param->axis.granules;
    if (holding->shard.first > granules || holding->shard.count > granules - holding->shard.first) {
        LS_FAIL(LS_ERR_INPUT, "%s: granules %zu to %zu asked for, it has %zu", param->name,
                holding->shard.first, holding->shard.first + holding->shard.count, granules);
    }
    if (param->cut < 0 && holding->shard.count != granules)
        LS_FAIL(LS_ERR_INPUT, "%s: is never cut, so it is held whole", param->name);
    for (int use = param->uses; use < LS_MAX_USES; use++)
        if (holding->use_held[use] || holding->use_received[use])
            LS_FAIL(LS_ERR_INPUT, "%s: use %d asked for, it has %d", param->name, use, param->uses);
exit:
    return status;
}

static ls_status fill_slot(ls_store *store, ls_slot *slot, const ls_param *param,
                           const ls_holding *holding)
{
    ls_status status = LS_OK;
    LS_TRY(check_holding(param, holding));
    slot->shard = holding->shard;
    ls_param_shard_shape(param, slot->shard, &slot->rows, &slot->cols);
    /* Below the limits of ls_config_check, so the product stays inside size_t. */
    size_t elements = slot->rows * slot->cols, bytes = sizeof(ls_real);
    LS_TRY(ls_arena_alloc(store->parameters, elements, bytes, &slot->value));
    for (int use = 0; use < param->uses; use++) {
        slot->made[use] = holding->use_held[use];
        if (slot->made[use])
            store->gradient_count += elements;
        else if (holding->use_received[use])
            LS_TRY(ls_arena_alloc(store->received, elements, bytes, &slot->grad[use]));
    }
    if (param->state) goto exit;
    LS_TRY(ls_arena_zalloc(store->optimizer, elements, bytes, &slot->m));
    LS_TRY(ls_arena_zalloc(store->optimizer, elements, bytes, &slot->v));
exit:
    return status;
}

static ls_holding whole_of(const ls_param *param)
{
    ls_holding holding = {.held = true, .shard = {0, param->axis.granules}};
    for (int use = 0; use < param->uses; use++) holding.use_held[use] = true;
    return holding;
}

ls_status ls_store_create(ls_store **ret_store, const ls_param_table *table,
                          const ls_holding *holdings, ls_memory *memory)
{
    ls_status status = LS_OK;
    ls_store *store = NULL;
    LS_NEW(store, 1);
    store->table = table;
    LS_NEW(store->slots, table->count);
    LS_TRY(ls_arena_create(&store->parameters, memory, LS_MEM_PARAMETERS));
    LS_TRY(ls_arena_create(&store->gradients, memory, LS_MEM_GRADIENTS));
    LS_TRY(ls_arena_create(&store->received, memory, LS_MEM_GRADIENTS));
    LS_TRY(ls_arena_create(&store->optimizer, memory, LS_MEM_OPTIMIZER));
    for (size_t i = 0; i < table->count; i++) {
        ls_holding holding = holdings ? holdings[i] : whole_of(&table->params[i]);
        if (holding.held) LS_TRY(fill_slot(store, &store->slots[i], &table->params[i], &holding));
    }
    LS_TRY(ls_store_gradient_slots(store, 1));
    *ret_store = store;
    store = NULL;
exit:
    ls_store_destroy(&store);
    return status;
}

ls_status ls_store_gradient_slots(ls_store *store, size_t slots)
{
    ls_status status = LS_OK;
    ls_real *slab = NULL;
    if (store->gradient_count != 0 && slots > SIZE_MAX / store->gradient_count)
        LS_FAIL(LS_ERR_MEMORY, "%zu slots of %zu gradients are more than can be addressed", slots,
                store->gradient_count);
    ls_arena_release(store->gradients, 0);
    LS_TRY(ls_arena_alloc(store->gradients, slots * store->gradient_count, sizeof *slab, &slab));
    for (size_t i = 0, at = 0; i < store->table->count; i++)
        for (int use = 0; use < LS_MAX_USES; use++) {
            ls_slot *slot = &store->slots[i];
            if (!slot->made[use]) continue;
            slot->grad[use] = slab + at;
            at += slot->rows * slot->cols;
        }
    store->gradient_slab = slab;
    store->gradient_slots = slots;
exit:
    return status;
}

void ls_store_destroy(ls_store **store)
{
    if (!*store) return;
    ls_arena_destroy(&(*store)->parameters);
    ls_arena_destroy(&(*store)->gradients);
    ls_arena_destroy(&(*store)->received);
    ls_arena_destroy(&(*store)->optimizer);
    free((*store)->slots);
    free(*store);
    *store = NULL;
}

ls_slot *ls_store_slot(const ls_store *store, ls_role role, size_t layer)
{
    size_t i = ls_param_find(store->table, role, layer);
    if (i == (size_t)-1 || !store->slots[i].value) return NULL;
    return &store->slots[i];
}

/* ---- initial values ---- */

static void draw(ls_real *value, const ls_param *param, ls_shard shard, ls_stream stream)
{
    ls_shard_window w = ls_param_window(param, shard);
    for (size_t r = 0; r < w.rows; r++) {
        for (size_t c = 0; c < w.cols; c++) {
            ls_real *x = &value[r * w.cols + c];
            if (r >= w.real_rows || c >= w.real_cols) {
                *x = (ls_real)0;
            } else if (param->init == LS_INIT_NORMAL) {
                uint64_t row = w.first_row + r, col = w.first_col + c;
                double normal = ls_random_normal(stream, row * param->dims[1] + col);
                *x = (ls_real)(float)(param->std * normal);
            } else {
                *x = param->init == LS_INIT_ONE ? (ls_real)1 : (ls_real)0;
            }
        }
    }
}

void ls_store_init(ls_store *store, uint64_t seed)
{
    ls_thread_mode mode;
    ls_thread_mode_set(&mode);
    for (size_t i = 0; i < store->table->count; i++) {
        ls_slot *slot = &store->slots[i];
        ls_stream stream = {
            .seed = seed, .purpose = LS_RANDOM_INIT, .layer = (uint32_t)i, .step = 0};
        if (slot->value) draw(slot->value, &store->table->params[i], slot->shard, stream);
    }
    ls_thread_mode_restore(&mode);
}

/* ---- squares of the gradient ---- */

/* One granule of a slot's gradient: its logical rows and columns, padding left out. */
static double granule_squares(const ls_slot *slot, const ls_param *param, size_t granule)
{
    ls_shard_window w = ls_param_window(param, (ls_shard){slot->shard.first + granule, 1});
    size_t above = param->cut == 0 ? granule * param->axis.granule : 0;
    size_t before = param->cut == 1 ? granule * param->axis.granule : 0;
    if (param->n_dims == 1) /* along a row in memory */
        return ls_block_squares(slot->grad[0] + above, 1, w.real_rows, slot->cols);
    return ls_block_squares(slot->grad[0] + above * slot->cols + before, w.real_rows, w.real_cols,
                            slot->cols);
}

void ls_store_squares(const ls_store *store, double *ret_squares)
{
    size_t offset = 0;
    for (size_t i = 0; i < store->table->count; i++) {
        const ls_param *param = &store->table->params[i];
        const ls_slot *slot = &store->slots[i];
        for (size_t g = 0; slot->grad[0] && g < slot->shard.count; g++)
            ret_squares[offset + slot->shard.first + g] = granule_squares(slot, param, g);
        if (!param->state) offset += param->axis.granules;
    }
}
