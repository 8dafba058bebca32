#include "lockstep/comm/world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/thread_mode.h"
#include "comm/abort.h"
#include "comm/group_state.h"
#include "comm/unreceived.h"
#include "comm/isend.h"
#include "comm/trace_lane.h"
#include "comm/waiting.h"

enum {
    /* Looks before it sleeps, when every rank has a core: some 20 microseconds. With fewer
     * cores than ranks, the rank that is waited for may need this very core. */
    SPINS = 1000
};

static const uint64_t DEFAULT_TIMEOUT_NS = 600u * (uint64_t)1000000000u;
static const size_t STACK_BYTES = (size_t)8 << 20;

/* ---- one rank */

static ls_status rank_init(ls_rank *rank, ls_world *world, int index, ls_team *team)
{
    ls_status status = LS_OK;
    rank->world = world;
    rank->index = index;
    rank->delay_state = world->options.delay_seed + (uint64_t)index * 0xd1342543de82ef95u;
    atomic_init(&rank->ended, false);
    LS_TRY(ls_memory_create(&rank->memory));
    LS_TRY(ls_group_create(&rank->world_group, rank, team, index));
exit:
    return status;
}

static void rank_free(ls_rank *rank)
{
    ls_unreceived_free_all(rank);
    ls_isends_free(rank);
    while (rank->groups != NULL) {
        ls_group *group = rank->groups;
        rank->groups = group->next;
        ls_group_destroy(&group);
    }
    ls_memory_destroy(&rank->memory);
}

/* Ranks begin together: no rank runs unless all exist. */
static int wait_for_start(ls_world *world)
{
    pthread_mutex_lock(&world->mutex);
    while (world->go == 0) pthread_cond_wait(&world->start, &world->mutex);
    int go = world->go;
    pthread_mutex_unlock(&world->mutex);
    return go;
}

static void give_start(ls_world *world, int go)
{
    pthread_mutex_lock(&world->mutex);
    world->go = go;
    pthread_cond_broadcast(&world->start);
    pthread_mutex_unlock(&world->mutex);
}

static void *run_rank(void *argument)
{
    ls_rank *rank = argument;
    if (wait_for_start(rank->world) < 0) return NULL;
    ls_thread_mode_set(NULL);
    ls_trace_start(rank);
    rank->status = rank->world->function(rank, rank->world->argument);
    ls_trace_stop(rank);
    /* Before anything else: what its sends show may be gone now. */
    const ls_error first = *ls_error_current();
    ls_status closed = ls_isends_close(rank);
    if (rank->status == LS_OK)
        rank->status = closed;
    else if (closed != LS_OK)
        ls_error_adopt(&first, "");
    if (rank->status != LS_OK) ls_abort(rank, rank->status);
    atomic_store(&rank->ended, true);
    return NULL;
}

/* ---- the world */

static void world_destroy(ls_world **world, int n_parkings)
{
    ls_world *gone = *world;
    if (gone == NULL) return;
    for (int r = 0; gone->ranks != NULL && r < gone->n_ranks; r++) {
        rank_free(&gone->ranks[r]);
        if (r < n_parkings) ls_parking_destroy(&gone->ranks[r].parking);
    }
    while (gone->teams != NULL) {
        ls_team *team = gone->teams;
        gone->teams = team->next;
        ls_team_destroy(&team);
    }
    pthread_cond_destroy(&gone->start);
    pthread_mutex_destroy(&gone->mutex);
    free(gone->ranks);
    free(gone);
    *world = NULL;
}

static ls_status world_create(ls_world **ret_world, int n_ranks, const ls_world_options *options)
{
    ls_status status = LS_OK;
    int n_parkings = 0;
    int *everybody = NULL;
    ls_team *team = NULL;
    ls_world *world = NULL;
    LS_NEW(world, 1);
    pthread_mutex_init(&world->mutex, NULL);
    pthread_cond_init(&world->start, NULL);
    atomic_init(&world->aborted, 0);
    world->n_ranks = n_ranks;
    if (options != NULL) world->options = *options;
    world->timeout_ns =
        world->options.timeout_ns > 0 ? world->options.timeout_ns : DEFAULT_TIMEOUT_NS;
    world->spins = n_ranks <= ls_thread_cores() ? SPINS : 0;
    world->failed_rank = -1;

    size_t n = (size_t)n_ranks;
    LS_NEW(world->ranks, n);
    LS_ROOM(everybody, n);
    for (int r = 0; r < n_ranks; r++) everybody[r] = r;
    LS_TRY(ls_team_create(&team, world, "world", n_ranks, everybody));
    for (; n_parkings < n_ranks; n_parkings++)
        LS_TRY(ls_parking_init(&world->ranks[n_parkings].parking));
    for (int r = 0; r < n_ranks; r++) LS_TRY(rank_init(&world->ranks[r], world, r, team));
    if (world->options.trace != NULL) {
        ls_trace_lane *lanes = NULL;
        LS_TRY(ls_trace_open(world->options.trace, n_ranks, &lanes));
        for (int r = 0; r < n_ranks; r++) world->ranks[r].lane = &lanes[r];
    }
    *ret_world = world;
exit:
    free(everybody);
    if (status != LS_OK) world_destroy(&world, n_parkings);
    return status;
}

/* Hands the first failure on to the caller's record. */
static ls_status report(const ls_world *world)
{
    if (world->failed_rank < 0) {
        ls_status status = LS_OK;
        for (int r = 0; r < world->n_ranks && status == LS_OK; r++)
            status = ls_unreceived_check(&world->ranks[r]);
        return status;
    }
    char prefix[32] = "";
    /* No rank is to blame for Ctrl-C. */
    if (world->failure.status != LS_ERR_INTERRUPTED)
        snprintf(prefix, sizeof prefix, "rank %d: ", world->failed_rank);
    return ls_error_adopt(&world->failure, prefix);
}

ls_status ls_world_run(int n_ranks, const ls_world_options *options, ls_rank_function function,
                       void *argument)
{
    ls_status status = LS_OK;
    ls_world *world = NULL;
    int started = 0;
    ls_error_clear(); /* a run that ends well leaves no text of an earlier failure */
    if (n_ranks < 1 || n_ranks > LS_MAX_RANKS)
        LS_FAIL(LS_ERR_INPUT, "%d ranks: a world has 1 to %d", n_ranks, LS_MAX_RANKS);
    LS_TRY(world_create(&world, n_ranks, options));
    world->function = function;
    world->argument = argument;
    for (; started < n_ranks; started++)
        LS_TRY(ls_thread_start(&world->ranks[started].thread, STACK_BYTES, run_rank,
                               &world->ranks[started]));
exit:
    if (world != NULL) {
        give_start(world, status == LS_OK ? 1 : -1);
        for (int r = 0; r < started; r++) ls_thread_join(&world->ranks[r].thread);
        if (status == LS_OK) status = report(world);
        if (status == LS_OK && world->options.trace != NULL)
            status = ls_trace_close(world->options.trace, world);
        world_destroy(&world, n_ranks);
    }
    return status;
}
