/* group_state.h - making and freeing groups, for the world and for a split. */
#ifndef LS_COMM_GROUP_STATE_H
#define LS_COMM_GROUP_STATE_H

#include "comm/world_state.h"

/* A team of `size` members with these world ranks (copied); the world frees it. */
ls_status ls_team_create(ls_team **ret_team, ls_world *world, const char *name, int size,
                         const int *world_ranks) LS_MUST_USE;
void ls_team_destroy(ls_team **team);

/* The handle of member `member` of `team`, in the list of its rank, which frees it. */
ls_status ls_group_create(ls_group **ret_group, ls_rank *rank, ls_team *team,
                          int member) LS_MUST_USE;
void ls_group_destroy(ls_group **group);

#endif
