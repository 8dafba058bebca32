/* own_tokens.c - the tokens of each sequence that a rank owns with sequence parallelism. */
#include "lockstep/parallel/layout/own_tokens.h"

ls_share ls_own_share(const ls_tensor_parallel *tp, size_t S)
{
    if (!tp->sequence_parallel) return (ls_share){0, S};
    return ls_share_of(S, (size_t)ls_group_size(tp->group), (size_t)ls_group_rank(tp->group));
}

ls_axis ls_own_tokens(const ls_tensor_parallel *tp, ls_axis tokens)
{
    return ls_axis_of(tokens.granules, ls_own_share(tp, tokens.granule).count);
}

ls_tensor_parallel ls_inside_block(const ls_tensor_parallel *tp)
{
    ls_tensor_parallel inside = *tp;
    inside.sequence_parallel = false;
    return inside;
}
