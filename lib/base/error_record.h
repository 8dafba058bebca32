/* error_record.h - a thread's failure record as the library itself sees it.
 *
 * Only what carries a failure from one thread to another needs this: a rank's record dies with its
 * thread, so the code that runs the ranks copies the first failure out and adopts it in the
 * caller's thread. */
#ifndef LS_BASE_ERROR_RECORD_H
#define LS_BASE_ERROR_RECORD_H

#include "lockstep/base/status.h"

enum { LS_ERROR_TEXT_BYTES = 1024, LS_ERROR_PLACE_BYTES = 96 };

typedef struct ls_error {
    ls_status status; /* LS_OK: nothing recorded */
    char place[LS_ERROR_PLACE_BYTES];
    char text[LS_ERROR_TEXT_BYTES];
} ls_error;

/* The calling thread's record; valid until the thread ends. */
const ls_error *ls_error_current(void);

/* Records `error` in the calling thread in place of what was there, its text after `prefix`, its
 * place kept; returns error->status. `error` may be the thread's record: its text gets the prefix.
 * A clean-up that can fail itself uses this to restore the first failure: a copy taken before, no
 * prefix. */
ls_status ls_error_adopt(const ls_error *error, const char *prefix);

/* In the calling thread's text, if any: path `from`, as ls_show shows it, becomes `to`, wherever it
 * is named. */
void ls_error_rename(const char *from, const char *to);

#endif
