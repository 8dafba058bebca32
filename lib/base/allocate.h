/* allocate.h - memory from the heap, with one text for when there is none.
 *
 *     double *values = NULL;
 *     LS_NEW(values, n);          n zeros
 *     ...
 *   exit:
 *     free(values);
 *
 * Each ends, as LS_FAIL does, at the label exit with LS_ERR_MEMORY when there is no memory or the
 * size does not fit into a size_t; the pointer is then NULL (LS_GROW: as it was). A count of 0
 * gives a pointer that may not be read. To be released with free(). */
#ifndef LS_BASE_ALLOCATE_H
#define LS_BASE_ALLOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "lockstep/base/status.h"

/* count * size bytes, zeros if asked for; NULL. */
void *ls_allocate(size_t count, size_t size, bool zeros);

/* A copy of a text; NULL. */
char *ls_text_copy(const char *text);

/* memory, resized to hold `count` + 1 elements at least when it has room for `count` only: room is
 * *room elements before and after. NULL: there is none, and memory is as it was. */
void *ls_grown(void *memory, size_t count, size_t *room, size_t size);

#define LS_NO_MEMORY(what) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for %s", what)

/* pointer = count elements, all bytes zero. */
#define LS_NEW(pointer, count)                                                                     \
    do {                                                                                           \
        (pointer) = ls_allocate((count), sizeof *(pointer), true);                                 \
        if ((pointer) == NULL) LS_NO_MEMORY(#pointer ", " #count " elements");                     \
    } while (0)

/* pointer = count elements, contents unspecified. */
#define LS_ROOM(pointer, count)                                                                    \
    do {                                                                                           \
        (pointer) = ls_allocate((count), sizeof *(pointer), false);                                \
        if ((pointer) == NULL) LS_NO_MEMORY(#pointer ", " #count " elements");                     \
    } while (0)

/* pointer = a copy of a text. */
#define LS_COPY(pointer, text)                                                                     \
    do {                                                                                           \
        (pointer) = ls_text_copy(text);                                                            \
        if ((pointer) == NULL) LS_NO_MEMORY("a copy of " #text);                                   \
    } while (0)

/* Room for one element more after `count`; room: a size_t variable. */
#define LS_GROW(pointer, count, room)                                                              \
    do {                                                                                           \
        void *grown_ = ls_grown((pointer), (count), &(room), sizeof *(pointer));                   \
        if (grown_ == NULL) LS_NO_MEMORY("one more of " #pointer);                                 \
        (pointer) = grown_;                                                                        \
    } while (0)

#endif
