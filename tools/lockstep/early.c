/* early.c - before main, and before the constructors of shared libraries.
 *
 * OpenBLAS starts a thread for each further core when it is loaded. Where the system has none left
 * it prints two lines and ends the process, also for a command that calls no OpenBLAS; and it is
 * told to use one thread anyway (numerics/blas.c). So until main it sees one core. The handlers of
 * signals, too, are there from the start, since loading takes longer than many a command.
 *
 * This is Linux with glibc. Elsewhere main does what it can. */
#include "early.h"

#include <sched.h> /* and whose library this is */
#include <stdbool.h>

#include "interrupt.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED /* the sanitizers' own start comes later */
#endif

#if defined(__linux__) && defined(__GLIBC__) && !defined(IS_SANITIZED)

static cpu_set_t cores;
static bool narrowed;

static void begin_early(void)
{
    listen_to_interrupts();
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return;
    for (size_t core = 0; core < CPU_SETSIZE && !narrowed; core++) {
        cpu_set_t one;
        if (!CPU_ISSET(core, &cores)) continue;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        narrowed = sched_setaffinity(0, sizeof one, &one) == 0;
    }
}

__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = begin_early;

void early_end(void)
{
    if (narrowed) sched_setaffinity(0, sizeof cores, &cores);
}

#else

void early_end(void)
{
    listen_to_interrupts();
}

#endif
