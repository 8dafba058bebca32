/* interrupt.h - Ctrl-C and the other signals that end a program from outside. */
#ifndef LOCKSTEP_INTERRUPT_H
#define LOCKSTEP_INTERRUPT_H

#include <stdnoreturn.h>

/* A signal ends the program at once, until interrupts_stop_ranks() is called: from then on the
 * first one asks every rank to stop, and the second ends the program without waiting for a rank
 * that is in the middle of a long product. Before the end what is not complete is removed and
 * "lockstep: interrupted" is printed, once; further signals, however many, do not cut that short.
 * Only SIGKILL does. A pipe without a reader (`lockstep train | head -1`) counts as a
 * signal. A file that grows beyond a limit on its size is none: writing it is an error like a full
 * disk. */
void listen_to_interrupts(void);

/* For a command whose ranks look at stop_wanted, before anything that it would have to leave tidy.
 */
void interrupts_stop_ranks(void);

/* The same, and so many seconds after the first signal the program ends anyway: for a command that
 * writes nothing and may be in the middle of a product of minutes. */
void interrupts_end_after(int seconds);

/* Set to 1 by Ctrl-C (and by a polite request to end); for ls_world_options.stop. */
extern volatile int stop_wanted;

/* The signal that came first, 0 if none. */
int interrupt_signal(void);

/* Ends the program after such a signal, when every rank has stopped. */
noreturn void leave_interrupted(void);

#endif
