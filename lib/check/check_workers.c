/* check_workers.c - the tensors of a judgement, dealt out to threads one by one. */
#include <pthread.h>
#include <stdio.h>

#include "base/thread.h"
#include "base/thread_mode.h"
#include "check/check_parts.h"

enum { MOST_THREADS = 64, STACK_BYTES = 1 << 20 };

/* Under the lock: everything. */
typedef struct deal {
    const struct ls_check *check;
    ls_check_task *task;
    void *context;
    size_t next, done, count;
    const char *what;
    pthread_mutex_t lock;
    ls_status status; /* of the first that failed */
    char text[512];
} deal;

static bool stop_wanted(const deal *d)
{
    const volatile int *stop = d->check->options.stop;
    /* A plain int because a signal handler sets it; read whole and unordered. */
    return stop && __atomic_load_n(stop, __ATOMIC_RELAXED) != 0;
}

/* The next one; false when there is none, or it makes no sense any more. */
static bool take(deal *d, size_t *ret_i)
{
    pthread_mutex_lock(&d->lock);
    if (d->status == LS_OK && stop_wanted(d)) {
        d->status = LS_ERR_INTERRUPTED;
        snprintf(d->text, sizeof d->text, "interrupted");
    }
    const bool more = d->status == LS_OK && d->next < d->count;
    if (more) *ret_i = d->next++;
    pthread_mutex_unlock(&d->lock);
    return more;
}

static void finish(deal *d, ls_status status)
{
    pthread_mutex_lock(&d->lock);
    d->done++;
    if (status != LS_OK && d->status == LS_OK) {
        d->status = status;
        snprintf(d->text, sizeof d->text, "%s", ls_error_text());
    }
    if (d->check->options.advance)
        d->check->options.advance(d->check->options.context, d->done, d->count, d->what);
    pthread_mutex_unlock(&d->lock);
}

static void *work(void *argument)
{
    deal *d = argument;
    size_t i;
    ls_thread_mode mode; /* one of these threads is the caller's */
    ls_thread_mode_set(&mode);
    while (take(d, &i)) finish(d, d->task(d->context, i));
    ls_thread_mode_restore(&mode);
    return NULL;
}

/* The error record of a thread ends with it: the text is recorded again here. */
ls_status ls_check_work(struct ls_check *check, ls_check_task *task, size_t count, const char *what)
{
    ls_status status = LS_OK;
    deal d = {.check = check, .task = task, .context = check, .count = count, .what = what};
    ls_thread threads[MOST_THREADS];
    int wanted = check->options.threads > 0 ? check->options.threads : ls_thread_cores();
    int started = 0;
    if (wanted > MOST_THREADS) wanted = MOST_THREADS;
    if ((size_t)wanted > count) wanted = (int)count;
    pthread_mutex_init(&d.lock, NULL);
    while (started + 1 < wanted) /* one of them is this thread */
        if (ls_thread_start(&threads[started], STACK_BYTES, work, &d) == LS_OK)
            started++;
        else
            break;
    if (started + 1 < wanted) ls_error_clear(); /* fewer will do */
    work(&d);
    for (int i = 0; i < started; i++) ls_thread_join(&threads[i]);
    pthread_mutex_destroy(&d.lock);
    if (d.status != LS_OK) {
        ls_error_clear();
        LS_FAIL(d.status, "%s", d.text);
    }
exit:
    return status;
}
