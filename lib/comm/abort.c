#include "comm/abort.h"

#include <stdio.h>

#include "comm/waiting.h"

ls_status ls_abort(ls_rank *rank, ls_status status)
{
    ls_world *world = rank->world;
    /* A failure without a text gets what can be said of it: the text of another status is of a
     * failure that this rank has handled. */
    if (ls_error_current()->status != status)
        ls_error_record(status, __FILE__, __LINE__,
                        "its function returned status %d without a text%s%s", (int)status,
                        ls_error_text()[0] != '\0' ? "; its failure before that: " : "",
                        ls_error_text());
    pthread_mutex_lock(&world->mutex);
    if (world->failed_rank < 0) {
        world->failed_rank = rank->index;
        world->failure = *ls_error_current();
        world->failure.status = status;
    }
    pthread_mutex_unlock(&world->mutex);
    if (atomic_exchange(&world->aborted, 1) == 0) {
        for (int i = 0; i < world->n_ranks; i++) ls_wake(&world->ranks[i]);
    }
    return status;
}

/* The status of a rank that gives up because of another, and its words. */
static ls_status give_up(ls_rank *rank)
{
    ls_status status = LS_OK;
    ls_world *world = rank->world;
    pthread_mutex_lock(&world->mutex);
    int first = world->failed_rank;
    ls_error failure = world->failure;
    pthread_mutex_unlock(&world->mutex);
    if (failure.status == LS_ERR_INTERRUPTED) LS_FAIL(LS_ERR_INTERRUPTED, "interrupted");
    if (first == rank->index)
        LS_FAIL(LS_ERR_ABORTED, "refused after this rank's failure: %s", failure.text);
    LS_FAIL(LS_ERR_ABORTED, "gave up after rank %d failed: %s", first, failure.text);
exit:
    return status;
}

bool ls_stop_wanted(const ls_world *world)
{
    const volatile int *stop = world->options.stop;
    /* The flag is a plain int because a signal handler sets it; read whole and unordered. */
    return stop != NULL && __atomic_load_n(stop, __ATOMIC_RELAXED) != 0;
}

ls_status ls_abort_check(ls_rank *rank)
{
    if (atomic_load(&rank->world->aborted)) return give_up(rank);
    if (!ls_stop_wanted(rank->world)) return LS_OK;
    ls_error_record(LS_ERR_INTERRUPTED, __FILE__, __LINE__, "interrupted");
    return ls_abort(rank, LS_ERR_INTERRUPTED);
}

ls_status ls_rank_check(ls_rank *rank)
{
    return ls_abort_check(rank);
}
