/* thread_mode.h - the state of a thread that numbers depend on, other than the numbers themselves.
 *
 * A program may compute in another rounding mode, flush subnormals to zero, trap on floating-point
 * exceptions, or write a decimal comma. Each changes what the same source gives. So whatever
 * computes, reads or writes numbers on behalf of a caller does it in one mode: round to nearest,
 * subnormals kept, no traps, a decimal point (contract rule 1). An entry sets the mode and gives
 * the caller's back at its exit label:
 *
 *     ls_thread_mode mode;
 *     ls_thread_mode_set(&mode);
 *     ...
 *   exit:
 *     ls_thread_mode_restore(&mode);
 *
 * A new thread inherits the first three on some systems and never a locale: it sets its own. */
#ifndef LS_BASE_THREAD_MODE_H
#define LS_BASE_THREAD_MODE_H

#include <fenv.h>
#include <locale.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

typedef struct ls_thread_mode {
    fenv_t floating; /* with the exception flags: what we raise stays unseen */
    locale_t locale;
} ls_thread_mode;

/* Sets the mode of the calling thread; *ret_before, unless NULL, is what ls_thread_mode_restore
 * takes. Calls nest. Cost: some 100 ns. */
void ls_thread_mode_set(ls_thread_mode *ret_before);
void ls_thread_mode_restore(const ls_thread_mode *before);

#endif
