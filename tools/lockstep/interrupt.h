/* interrupt.h - Ctrl-C. */
#ifndef LOCKSTEP_INTERRUPT_H
#define LOCKSTEP_INTERRUPT_H

/* The first signal asks every rank to stop, the second ends the program at once. */
void listen_to_interrupts(void);

/* The signal that came, 0 if none. */
int interrupt_signal(void);

#endif
