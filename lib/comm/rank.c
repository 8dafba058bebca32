/* What a rank knows of itself. */
#include "comm/world_state.h"

int ls_rank_index(const ls_rank *rank)
{
    return rank->index;
}

int ls_rank_world_size(const ls_rank *rank)
{
    return rank->world->n_ranks;
}

ls_memory *ls_rank_memory(ls_rank *rank)
{
    return rank->memory;
}

ls_group *ls_rank_world_group(ls_rank *rank)
{
    return rank->world_group;
}

ls_comm_count ls_rank_count(const ls_rank *rank, ls_operation operation)
{
    return rank->counts[operation];
}

const char *ls_operation_name(ls_operation operation)
{
    switch (operation) {
    case LS_OP_BARRIER:
        return "barrier";
    case LS_OP_BROADCAST:
        return "broadcast";
    case LS_OP_ALL_REDUCE:
        return "all_reduce";
    case LS_OP_REDUCE_SCATTER:
        return "reduce_scatter";
    case LS_OP_ALL_GATHER:
        return "all_gather";
    case LS_OP_ALL_TO_ALL:
        return "all_to_all";
    case LS_OP_SEND:
        return "send";
    case LS_OP_RECEIVE:
        return "receive";
    case LS_OP_COUNT:
        break;
    }
    return "?";
}
