/* interrupt.h - Ctrl-C. */
#ifndef LOCKSTEP_INTERRUPT_H
#define LOCKSTEP_INTERRUPT_H

/* The first signal asks every rank to stop, the second ends the program at once. */
void listen_to_interrupts(void);

/* Set to 1 by Ctrl-C (and by a polite request to end); for ls_world_options.stop. */
extern volatile int stop_wanted;

/* The signal that came, 0 if none. */
int interrupt_signal(void);

#endif
