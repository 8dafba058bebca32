/* show.h - what error texts are made of: foreign bytes made harmless, and the word that was meant.
 */
#ifndef LS_BASE_SHOW_H
#define LS_BASE_SHOW_H

#include <stddef.h>

#include "lockstep/base/api.h"

LS_BEGIN_DECLS

/* A text from outside (a file name, a key, a tensor name) as one line that may be printed anywhere.
 * Printable UTF-8 is as it is; control characters, line and paragraph separators, marks that
 * turn the direction of writing, and bytes that are not UTF-8 are shown as \xNN per byte; a
 * backslash is doubled. What is longer than 400 bytes ends in "...". NULL shows as "(null)".
 *
 * The result belongs to the calling thread and stays valid until that thread's eighth next call of
 * a function of this header. */
LS_API const char *ls_show(const char *text);

/* The same for `count` bytes, zero bytes among them. */
LS_API const char *ls_show_bytes(const void *bytes, size_t count);

/* What the operating system says about errno value `error`; lives as long as ls_show's. */
LS_API const char *ls_show_errno(int error);

/* The one of `count` known words that is nearest to `word` by the number of letters to insert,
 * delete, replace or swap with their neighbour (case, and - against _, cost nothing); the first of
 * several; NULL when none is near: more than a third of the letters, rounded up, would change. */
LS_API const char *ls_nearest(const char *word, const char *const *known, size_t count);

LS_END_DECLS

#endif
