/* interrupt.c - signals that end the program from outside, and leave nothing half written. */
#include "interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "train/train.h"

/* Signals come to any thread, several at a time. Lock-free atomics are all that a handler may share
 * with threads. */
volatile int stop_wanted = 0; /* read and written as an atomic, here and by its readers */
static atomic_int came, at_once = 1, patience;
static atomic_flag said = ATOMIC_FLAG_INIT, ending = ATOMIC_FLAG_INIT;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler cannot take a lock");

static void say_interrupted(void)
{
    static const char words[] = "lockstep: interrupted\n";
    /* The reader of a closed pipe has heard enough. */
    if (interrupt_signal() == SIGPIPE || atomic_flag_test_and_set(&said)) return;
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0) {
    }
}

/* Removes what is half written, and ends. The first thread to come here does it; signals in other
 * threads wait for the end of the process, and in this one all are blocked. */
static noreturn void end_now(void)
{
    while (atomic_flag_test_and_set(&ending)) pause();
    ls_train_abandon_files();
    say_interrupted();
    _exit(128 + interrupt_signal());
}

static void ask_to_stop(int signal_number)
{
    int none = 0;
    const bool first = atomic_compare_exchange_strong(&came, &none, signal_number);
    /* Printing to a pipe without a reader is a signal for every line: that is no second wish to end
     * at once. */
    if (atomic_load(&at_once) || (!first && signal_number != SIGPIPE)) end_now();
    if (first) alarm((unsigned)atomic_load(&patience));
    __atomic_store_n(&stop_wanted, 1, __ATOMIC_RELAXED);
}

static void lose_patience(int signal_number)
{
    int none = 0;
    atomic_compare_exchange_strong(&came, &none, signal_number);
    end_now();
}

static void listen_to(int signal_number, const struct sigaction *action)
{
    struct sigaction before;
    /* nohup has told the program to ignore SIGHUP, and that stays so. */
    if (signal_number == SIGHUP && sigaction(SIGHUP, NULL, &before) == 0 &&
        before.sa_handler == SIG_IGN)
        return;
    sigaction(signal_number, action, NULL);
}

void listen_to_interrupts(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGALRM};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigfillset(&action.sa_mask); /* one at a time in a thread: end_now would wait for itself */
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        action.sa_handler = signals[i] == SIGALRM ? lose_patience : ask_to_stop;
        listen_to(signals[i], &action);
    }
    signal(SIGXFSZ, SIG_IGN);
}

void interrupts_stop_ranks(void)
{
    interrupts_end_after(0);
}

void interrupts_end_after(int seconds)
{
    atomic_store(&patience, seconds);
    atomic_store(&at_once, 0);
}

int interrupt_signal(void)
{
    return atomic_load(&came);
}

void leave_interrupted(void)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    end_now();
}
