/* net_leaf_sums.c - the partial sums of a rank: of each of its nodes the sum of the leaves, in the
 * order of the tree. */
#include "parallel/spatial/net_leaves.h"

ls_status ls_net_leaf_sums(ls_real *values, size_t count, const ls_net_leaves *leaves,
                           ls_net_leaf_value *value, const void *context, ls_arena *temporary)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(temporary);
    ls_real *above = NULL; /* the stack but for its lowest place, which is the node's value */
    size_t held = 0;
    if (count == 0 || leaves->n_leaves == 0) goto exit;
    LS_TRY(ls_arena_alloc(temporary, leaves->stack * count, sizeof *above, (void *)&above));
    for (size_t j = 0; j < leaves->n_leaves; j++) {
        const ls_net_leaf *leaf = &leaves->leaves[j];
        value(held == 0 ? values : above + (held - 1) * count, context, leaf);
        held++;
        for (size_t k = leaf->closes; k > 0; k--, held--) {
            const ls_real *upper = above + (held - 2) * count;
            ls_real *lower = held == 2 ? values : above + (held - 3) * count;
            for (size_t i = 0; i < count; i++) lower[i] = lower[i] + upper[i];
        }
        if (!leaf->last) continue;
        values += count;
        held = 0;
    }
exit:
    ls_arena_release(temporary, mark);
    return status;
}
