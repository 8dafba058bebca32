#include "lockstep/comm/group.h"

#include <stdlib.h>
#include <string.h>

#include "comm/abort.h"
#include "comm/collective.h"
#include "comm/group_state.h"
#include "base/allocate.h"

/* ---- teams and handles */

void ls_team_destroy(ls_team **team)
{
    ls_team *gone = *team;
    if (gone == NULL) return;
    for (int m = 0; gone->mailboxes != NULL && m < gone->size; m++)
        pthread_mutex_destroy(&gone->mailboxes[m].mutex);
    free(gone->mailboxes);
    free(gone->name);
    free(gone->world_ranks);
    free(gone->posts);
    free(gone);
    *team = NULL;
}

ls_status ls_team_create(ls_team **ret_team, ls_world *world, const char *name, int size,
                         const int *world_ranks)
{
    ls_status status = LS_OK;
    ls_team *team = NULL;
    size_t n = (size_t)size;
    LS_NEW(team, 1);
    LS_COPY(team->name, name);
    LS_ROOM(team->world_ranks, n);
    LS_NEW(team->posts, n);
    LS_NEW(team->mailboxes, n);
    memcpy(team->world_ranks, world_ranks, n * sizeof *team->world_ranks);
    for (size_t m = 0; m < n; m++) {
        atomic_init(&team->posts[m].arrivals, 0);
        atomic_init(&team->posts[m].gone, false);
        pthread_mutex_init(&team->mailboxes[m].mutex, NULL); /* without attributes it cannot fail */
    }
    atomic_init(&team->arrivals, 0);
    atomic_init(&team->generation, 0);
    team->world = world;
    team->size = size;
    pthread_mutex_lock(&world->mutex);
    team->next = world->teams;
    team->number = world->n_teams++;
    world->teams = team;
    pthread_mutex_unlock(&world->mutex);
    *ret_team = team;
exit:
    if (status != LS_OK) ls_team_destroy(&team);
    return status;
}

void ls_group_destroy(ls_group **group)
{
    ls_group *gone = *group;
    if (gone == NULL) return;
    free(gone->forest);
    free(gone->scratch);
    free(gone);
    *group = NULL;
}

ls_status ls_group_create(ls_group **ret_group, ls_rank *rank, ls_team *team, int member)
{
    ls_status status = LS_OK;
    ls_group *group = NULL;
    LS_NEW(group, 1);
    LS_ROOM(group->forest, LS_FOREST_MAX);
    group->team = team;
    group->rank = rank;
    group->member = member;
    group->next = rank->groups;
    rank->groups = group;
    rank->n_groups++;
    *ret_group = group;
exit:
    if (status != LS_OK) ls_group_destroy(&group);
    return status;
}

/* ---- split */

typedef struct split_wish {
    int color, key;
} split_wish;

typedef struct candidate {
    int key, member; /* of the parent */
} candidate;

static int by_key_then_member(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->member < y->member ? -1 : x->member > y->member;
}

/* Writes the members of `parent` that chose `color`, in order, and returns how many. */
static int members_of_color(const ls_team *parent, int color, candidate *ret_members)
{
    int n = 0;
    for (int m = 0; m < parent->size; m++) {
        const split_wish *wish = parent->posts[m].in;
        if (wish->color == color) ret_members[n++] = (candidate){wish->key, m};
    }
    qsort(ret_members, (size_t)n, sizeof *ret_members, by_key_then_member);
    return n;
}

ls_status ls_group_split(ls_group *parent, int color, int key, const char *name,
                         ls_group **ret_group)
{
    ls_status status = LS_OK;
    ls_team *team = parent->team;
    ls_group *group = NULL;
    split_wish wish = {color, key};
    size_t n = (size_t)team->size;
    candidate *members = NULL;
    int *world_ranks = NULL;
    LS_ROOM(members, n);
    LS_ROOM(world_ranks, n);
    LS_TRY(ls_collective_enter(parent, (ls_call){.kind = LS_CALL_SPLIT}, &wish, NULL, 0));

    int size = 0, own = 0;
    ls_status made = LS_OK;
    if (color >= 0) {
        size = members_of_color(team, color, members);
        while (members[own].member != parent->member) own++;
        for (int i = 0; i < size; i++) world_ranks[i] = team->world_ranks[members[i].member];
        /* The first of each color makes the team; the others find it in that member's post. It
         * stays there until the next split, which no rank enters before all have left this one.
         */
        if (own == 0) {
            ls_post *post = &team->posts[parent->member];
            post->split = NULL;
            made = ls_team_create(&post->split, team->world, name, size, world_ranks);
            if (made != LS_OK)
                ls_abort(parent->rank, made);
            else
                post->split->met = parent->rank->n_groups;
        }
    }
    LS_TRY(ls_collective_leave(parent));
    LS_TRY(made);
    if (color >= 0) {
        ls_team *split = team->posts[members[0].member].split;
        if (split == NULL) LS_TRY(ls_abort_check(parent->rank)); /* its first member has failed */
        LS_TRY(ls_group_create(&group, parent->rank, split, own));
    }
    *ret_group = group;
exit:
    free(members);
    free(world_ranks);
    return ls_collective_end(parent, status);
}

/* ---- what a member sees */

int ls_group_rank(const ls_group *group)
{
    return group->member;
}

int ls_group_size(const ls_group *group)
{
    return group->team->size;
}

const char *ls_group_name(const ls_group *group)
{
    return group->team->name;
}

int ls_group_world_rank(const ls_group *group, int member)
{
    return group->team->world_ranks[member];
}

ls_rank *ls_group_owner(const ls_group *group)
{
    return group->rank;
}

ls_comm_count ls_group_count(const ls_group *group, ls_operation operation)
{
    return group->counts[operation];
}
