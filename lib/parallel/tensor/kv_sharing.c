/* kv_sharing.c - one group of ranks for each key/value head that several ranks hold. */
#include "lockstep/parallel/tensor/attention_block.h"

#include <stdio.h>

/* The kv heads that member `r` uses. */
static ls_share kv_of_member(const ls_cut *heads, size_t group, size_t r)
{
    ls_share query = {heads->bounds[r], heads->bounds[r + 1] - heads->bounds[r]};
    return ls_share_of_kv(query, group);
}

static bool uses(ls_share kv, size_t j)
{
    return kv.first <= j && j < kv.first + kv.count;
}

ls_status ls_kv_sharing_create(ls_group *tp, const ls_cut *heads, size_t kv_heads, ls_arena *arena,
                               ls_kv_sharing *ret_sharing)
{
    ls_status status = LS_OK;
    size_t members = (size_t)ls_group_size(tp), own = (size_t)ls_group_rank(tp);
    size_t group = heads->whole.granules / kv_heads; /* query heads per kv head */
    ls_kv_sharing sharing = {kv_of_member(heads, group, own), NULL, NULL};

    LS_TRY(ls_arena_zalloc(arena, sharing.held.count, sizeof *sharing.sharers,
                           (void *)&sharing.sharers));
    LS_TRY(ls_arena_zalloc(arena, sharing.held.count, sizeof *sharing.bounds,
                           (void *)&sharing.bounds));
    for (size_t j = 0; j < kv_heads; j++) {
        size_t sharers = 0;
        for (size_t r = 0; r < members; r++) sharers += uses(kv_of_member(heads, group, r), j);
        if (sharers < 2) continue;

        /* Every rank splits, so that the calls match; one that does not hold head j gets no group.
         */
        bool here = uses(sharing.held, j);
        char name[32];
        ls_group *split;
        snprintf(name, sizeof name, "kv head %zu", j);
        LS_TRY(ls_group_split(tp, here ? 0 : -1, (int)own, name, &split));
        if (!here) continue;

        size_t *bounds, at = 0;
        LS_TRY(ls_arena_alloc(arena, sharers + 1, sizeof *bounds, (void *)&bounds));
        for (size_t r = 0; r < members; r++) {
            if (!uses(kv_of_member(heads, group, r), j)) continue;
            size_t lo = heads->bounds[r] > j * group ? heads->bounds[r] - j * group : 0;
            bounds[at++] = lo;
        }
        bounds[at] = group;
        sharing.sharers[j - sharing.held.first] = split;
        sharing.bounds[j - sharing.held.first] = bounds;
    }
    *ret_sharing = sharing;
exit:
    return status;
}
