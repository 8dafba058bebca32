/* append.h - a text in parts: each part after what is there, cut off where the buffer ends.
 *
 *     size_t used = 0;
 *     for (size_t i = 0; i < n; i++)
 *         used = ls_append(text, sizeof text, used, "%s%zu", i ? ", " : "", values[i]);
 */
#ifndef LS_BASE_APPEND_H
#define LS_BASE_APPEND_H

#include <stdarg.h>
#include <stddef.h>

#include "lockstep/base/api.h"

/* Writes at text[used], used < size, and returns the number of bytes that are there now: at most
 * size - 1, so that a further part finds an end. size 0: nothing is written, 0. */
size_t ls_append(char *text, size_t size, size_t used, const char *format, ...) LS_PRINTF(4, 5);
size_t ls_append_list(char *text, size_t size, size_t used, const char *format, va_list arguments)
    LS_PRINTF(4, 0);

/* What goes before item i of n in a list of alternatives: "a, b or c". */
static inline const char *ls_or(size_t i, size_t n)
{
    return i == 0 ? "" : i + 1 < n ? ", " : " or ";
}

#endif
