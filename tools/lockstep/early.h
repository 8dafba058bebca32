/* early.h - what the program does before the libraries that it is linked with begin. */
#ifndef LOCKSTEP_EARLY_H
#define LOCKSTEP_EARLY_H

/* First in main: gives back what was taken away from the libraries. */
void early_end(void);

#endif
