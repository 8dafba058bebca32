#include "lockstep/parallel/sharding.h"

#include <stdio.h>

#include "lockstep/partition/share.h"

/* Heads, feed-forward width and vocabulary are cut, and in the row-first MLP the model width: by
 * heads. */
static bool tp_fits(const ls_config *config, size_t tp)
{
    return tp >= 1 && config->heads % tp == 0 && ls_config_ff_axis(config).granules % tp == 0 &&
           ls_config_vocab_axis(config).granules % tp == 0;
}

size_t ls_legal_tp(const ls_config *config, int *ret_tp, size_t max)
{
    size_t found = 0;
    for (size_t tp = 1; tp <= config->heads; tp++) {
        if (!tp_fits(config, tp)) continue;
        if (found < max) ret_tp[found] = (int)tp;
        found++;
    }
    return found;
}

/* Why a degree that does not fit does not, and which would. */
static ls_status refuse_tp(const ls_config *config, int tp)
{
    ls_status status = LS_OK;
    enum { SHOWN = 32 };
    int legal[SHOWN];
    size_t n = ls_legal_tp(config, legal, SHOWN), used = 0;
    size_t granules = ls_config_ff_axis(config).granules;
    char list[SHOWN * 12 + 8] = "";

    for (size_t i = 0; i < n && i < SHOWN; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d",
                                 i == 0 ? "" : (i + 1 == n ? " or " : ", "), legal[i]);
    if (n > SHOWN) snprintf(list + used, sizeof list - used, ", ...");
    if (tp < 1 || config->heads % (size_t)tp)
        LS_FAIL(LS_ERR_INPUT, "--tp %d: %zu heads cannot be cut into %d equal parts; use %s", tp,
                config->heads, tp, list);
    LS_FAIL(
        LS_ERR_INPUT,
        "--tp %d: a feed-forward width of %zu is %zu granule%s (its greatest common divisor with "
        "%zu heads), which cannot be cut into %d equal parts; use %s",
        tp, config->d_ff, granules, granules == 1 ? "" : "s", config->heads, tp, list);
exit:
    return status;
}

ls_status ls_layout_check(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    if (config->objective == LS_MASKED_TOKEN || config->norm_place == LS_NORM_POST ||
        config->token_types > 0 || config->embedding_norm)
        LS_FAIL(
            LS_ERR_INPUT,
            "--model %s: hidden tokens, token types and norms behind the residual sums run with "
            "--serial alone in this version",
            config->name);
    if (layout->tp < 1 || !tp_fits(config, (size_t)layout->tp))
        LS_TRY(refuse_tp(config, layout->tp));
    if (layout->sp && config->mlp_cut == LS_MLP_ROW_FIRST)
        LS_FAIL(LS_ERR_INPUT,
                "--sp: the row-first MLP has no sequence parallelism; use it without --sp, or the "
                "column-first MLP");
    if (layout->cp != 1 || layout->dp != 1 || layout->pp != 1)
        LS_FAIL(LS_ERR_INPUT,
                "context, data and pipeline parallelism are not in this version: cp %d, "
                "dp %d, pp %d; use 1",
                layout->cp, layout->dp, layout->pp);
exit:
    return status;
}

static ls_status cut_create(const ls_config *config, ls_granule_kind kind, int tp, ls_arena *arena,
                            ls_cut *ret_cut)
{
    ls_status status = LS_OK;
    size_t *bounds;
    LS_TRY(ls_arena_alloc(arena, (size_t)tp + 1, sizeof *bounds, (void *)&bounds));
    ret_cut->whole = ls_granule_axis(config, kind);
    ls_share_bounds(ret_cut->whole.granules, (size_t)tp, bounds);
    ret_cut->bounds = bounds;
exit:
    return status;
}

ls_status ls_cuts_create(const ls_config *config, int tp, ls_arena *arena, ls_cuts *ret_cuts)
{
    ls_status status = LS_OK;
    ls_cuts cuts;
    LS_TRY(cut_create(config, LS_GRANULE_HEADS, tp, arena, &cuts.heads));
    LS_TRY(cut_create(config, LS_GRANULE_FF, tp, arena, &cuts.ff));
    LS_TRY(cut_create(config, LS_GRANULE_VOCAB, tp, arena, &cuts.vocab));
    LS_TRY(cut_create(config, LS_GRANULE_MODEL, tp, arena, &cuts.model));
    *ret_cuts = cuts;
exit:
    return status;
}

ls_shard ls_shard_of(const ls_config *config, ls_granule_kind kind, int tp, int rank)
{
    ls_share share = ls_share_of(ls_granule_axis(config, kind).granules, (size_t)tp, (size_t)rank);
    if (kind == LS_GRANULE_NONE) share = (ls_share){0, 1};
    if (kind == LS_GRANULE_KV_HEADS) {
        ls_share query = ls_share_of(config->heads, (size_t)tp, (size_t)rank);
        share = ls_share_of_kv(query, config->heads / config->kv_heads);
    }
    ls_shard shard = {share.first, share.count};
    return shard;
}

void ls_holdings_of(const ls_param_table *table, int tp, int rank, ls_holding *ret_holdings)
{
    for (size_t i = 0; i < table->count; i++) {
        const ls_param *param = &table->params[i];
        ls_holding holding = {true, {true, param->uses > 1}, {0, 0}};
        holding.shard = ls_shard_of(&table->config, param->kind, tp, rank);
        ret_holdings[i] = holding;
    }
}
