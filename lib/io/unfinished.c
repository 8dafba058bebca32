/* unfinished.c - the names that a signal handler removes, and the holding of names. */
#include "io/unfinished.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "lockstep/base/show.h"

enum { MOST_LISTED = 16, MOST_WAITS = 3000 /* of a millisecond */ };

static _Atomic(char *) unfinished[MOST_LISTED];
static atomic_int holders;
static atomic_bool ending;

bool ls_names_hold(sigset_t *ret_mask)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, ret_mask);
    /* In this order, and the handler in the other: one of the two sees the other. */
    atomic_fetch_add(&holders, 1);
    if (!atomic_load(&ending)) return true;
    ls_names_release(ret_mask);
    return false;
}

void ls_names_release(const sigset_t *mask)
{
    atomic_fetch_sub(&holders, 1);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
}

ls_status ls_names_hold_for(const char *name, sigset_t *ret_mask, bool *ret_held)
{
    ls_status status = LS_OK;
    *ret_held = ls_names_hold(ret_mask);
    if (!*ret_held)
        LS_FAIL(LS_ERR_IO, "%s: cannot be written: the program is ending", ls_show(name));
exit:
    return status;
}

int ls_unfinished_list(char *path)
{
    for (int i = 0; i < MOST_LISTED; i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&unfinished[i], &none, path)) return i;
    }
    return -1;
}

bool ls_unfinished_take_off(int place, char *path)
{
    return place < 0 || atomic_compare_exchange_strong(&unfinished[place], &path, NULL);
}

void ls_unfinished_remove(void)
{
    const char *folders[MOST_LISTED];
    int n_folders = 0;
    atomic_store(&ending, true);
    for (int i = 0; i < MOST_WAITS && atomic_load(&holders) > 0; i++) poll(NULL, 0, 1);
    for (int i = 0; i < MOST_LISTED; i++) {
        const char *path = atomic_exchange(&unfinished[i], NULL);
        if (path && unlink(path) != 0) folders[n_folders++] = path;
    }
    for (int i = 0; i < n_folders; i++) rmdir(folders[i]);
}
