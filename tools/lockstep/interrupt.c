#include "interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "train/train.h"

volatile int stop_wanted = 0;
static volatile sig_atomic_t came = 0, at_once = 1, patience = 0;

/* Removes what is half written, and ends. Signals come to any thread, one after another: the first
 * thread does it, and no other may end the program before that is done. */
static void end_now(int signal_number, bool say)
{
    static const char words[] = "lockstep: interrupted\n";
    static atomic_flag ending = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&ending)) pause();
    ls_train_abandon_files();
    /* Who closed the pipe has heard enough. */
    if (say && signal_number != SIGPIPE && write(STDERR_FILENO, words, sizeof words - 1) < 0) {
    }
    _exit(128 + signal_number);
}

static void ask_to_stop(int signal_number)
{
    /* Whoever prints to a pipe without a reader gets a signal for every line: that is no second
     * wish to end at once. */
    if (at_once || (came != 0 && signal_number != SIGPIPE)) end_now(signal_number, at_once != 0);
    if (came == 0) {
        came = signal_number;
        alarm((unsigned)patience);
    }
    stop_wanted = 1;
}

static void lose_patience(int signal_number)
{
    end_now(came != 0 ? (int)came : signal_number, true);
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
    sigemptyset(&action.sa_mask); /* one at a time in a thread: end_now would wait for itself */
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&action.sa_mask, signals[i]);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        action.sa_handler = signals[i] == SIGALRM ? lose_patience : ask_to_stop;
        listen_to(signals[i], &action);
    }
    signal(SIGXFSZ, SIG_IGN);
}

void interrupts_stop_ranks(void)
{
    at_once = 0;
}

void interrupts_end_after(int seconds)
{
    at_once = 0;
    patience = seconds;
}

int interrupt_signal(void)
{
    return (int)came;
}
