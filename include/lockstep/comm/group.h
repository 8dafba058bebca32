/* group.h - subsets of the world: each with a barrier, posts and numbering of its own. */
#ifndef LS_COMM_GROUP_H
#define LS_COMM_GROUP_H

#include "lockstep/comm/world.h"

LS_BEGIN_DECLS

/* Splits `parent` into groups of equal color, members in order of (key, parent rank). Every member
 * of parent calls it together. color < 0: in no group, *ret_group NULL. name: for error texts and
 * traces ("tp", "dp"), copied. The group belongs to the rank and ends with it. Two barriers.
 * Errors: LS_ERR_MEMORY, LS_ERR_RANK, LS_ERR_ABORTED. */
LS_API ls_status ls_group_split(ls_group *parent, int color, int key, const char *name,
                                ls_group **ret_group) LS_MUST_USE;

LS_API int ls_group_rank(const ls_group *group); /* of the calling member, 0 .. size - 1 */
LS_API int ls_group_size(const ls_group *group);
LS_API const char *ls_group_name(const ls_group *group);
LS_API int ls_group_world_rank(const ls_group *group, int member); /* world rank of a member */
LS_API ls_rank *ls_group_owner(const ls_group *group);             /* the calling member's rank */

/* Returns when every member has called it. */
LS_API ls_status ls_barrier(ls_group *group) LS_MUST_USE;

LS_END_DECLS

#endif
