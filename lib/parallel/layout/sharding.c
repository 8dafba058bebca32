/* sharding.c - how each parameter is cut over the tensor-parallel ranks. */
#include "lockstep/parallel/layout/sharding.h"

#include "lockstep/partition/share.h"

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
