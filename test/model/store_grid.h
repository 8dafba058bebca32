/* store_grid.h - stores of the models and layouts of shard_grid.h. */
#ifndef TEST_MODEL_STORE_GRID_H
#define TEST_MODEL_STORE_GRID_H

#include <stdlib.h>

#include "lockstep/model/store.h"
#include "model/shard_grid.h"

#define ASSERT_OK(call) ck_assert_msg((call) == LS_OK, "%s", ls_error_text())

static inline ls_param_table *table_of(const ls_config *config)
{
    ls_param_table *table = NULL;
    ASSERT_OK(ls_param_table_create(&table, config));
    return table;
}

static inline ls_store *store_of(const ls_param_table *table, const ls_holding *holdings,
                                 ls_memory *memory)
{
    ls_store *store = NULL;
    ASSERT_OK(ls_store_create(&store, table, holdings, memory));
    return store;
}

/* What rank r of tp holds: its run of every parameter, all uses. */
static inline ls_holding *holdings_of(const ls_param_table *table, size_t tp, size_t r)
{
    ls_holding *holdings = calloc(table->count, sizeof *holdings);
    for (size_t i = 0; i < table->count; i++) {
        holdings[i].held = true;
        holdings[i].shard = grid_shard(&table->config, &table->params[i], tp, r);
        for (int use = 0; use < table->params[i].uses; use++) holdings[i].use_held[use] = true;
    }
    return holdings;
}

static inline ls_store *rank_store(const ls_param_table *table, size_t tp, size_t r,
                                   ls_memory *memory)
{
    ls_holding *holdings = holdings_of(table, tp, r);
    ls_store *store = store_of(table, holdings, memory);
    free(holdings);
    return store;
}

#endif
