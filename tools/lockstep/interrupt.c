#include "interrupt.h"

#include <signal.h>
#include <string.h>

volatile int stop_wanted = 0;
static volatile sig_atomic_t came = 0;

static void ask_to_stop(int signal_number)
{
    came = signal_number;
    stop_wanted = 1;
}

void listen_to_interrupts(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = ask_to_stop;
    sigemptyset(&action.sa_mask);
    action.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int interrupt_signal(void)
{
    return (int)came;
}
