/* allocate.h - memory from the heap, with one text for when there is none.
 *
 *     double *values = NULL;
 *     LS_NEW(values, n);          n zeros
 *     ...
 *   exit:
 *     free(values);
 *
 * Each ends, as LS_FAIL does, at the label exit with LS_ERR_MEMORY when there is no memory or the
 * size does not fit into a size_t; the pointer is then NULL (LS_RESIZE, LS_GROW: as it was). The
 * text is "out of memory: 8000 bytes for values". A count of 0 gives a pointer that may not be
 * read. Alignment is that of the pointer's type. To be released with free(). */
#ifndef LS_BASE_ALLOCATE_H
#define LS_BASE_ALLOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/status.h"

/* count * size bytes, zeros if asked for; NULL. */
void *ls_allocate(size_t count, size_t size, size_t alignment, bool zeros);

/* A copy of a text; NULL. */
char *ls_text_copy(const char *text);

/* memory, resized to `count` elements. NULL: there is none, and memory is as it was. */
void *ls_resized(void *memory, size_t count, size_t size);

/* memory, resized to hold `count` + 1 elements at least when it has room for `count` only: room is
 * *room elements before and after. NULL: there is none, and memory is as it was. */
void *ls_grown(void *memory, size_t count, size_t *room, size_t size);

/* Records that there is no memory for count * size bytes. */
ls_status ls_no_memory(const char *file, int line, size_t count, size_t size, const char *what);

/* For memory that others take: a library, a stream. what: "the manifest". */
#define LS_NO_MEMORY(what) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for %s", what)

/* Fails when `pointer`, for count elements of `size` bytes, is NULL. */
#define LS_NEED_MEMORY(pointer, count, size, what)                                                 \
    do {                                                                                           \
        if ((pointer) == NULL) {                                                                   \
            status = ls_no_memory(__FILE__, __LINE__, count, size, what);                          \
            goto exit;                                                                             \
        }                                                                                          \
    } while (0)

#define LS_ALLOCATE(pointer, count, size, alignment, zeros, what)                                  \
    do {                                                                                           \
        const size_t count_ = (count);                                                             \
        (pointer) = ls_allocate(count_, size, alignment, zeros);                                   \
        LS_NEED_MEMORY(pointer, count_, size, what);                                               \
    } while (0)

/* pointer = count elements, all bytes zero. */
#define LS_NEW(pointer, count)                                                                     \
    LS_ALLOCATE(pointer, count, sizeof *(pointer), __alignof__(*(pointer)), true, #pointer)

/* pointer = count elements, contents unspecified. */
#define LS_ROOM(pointer, count)                                                                    \
    LS_ALLOCATE(pointer, count, sizeof *(pointer), __alignof__(*(pointer)), false, #pointer)

/* pointer = a number of bytes, whatever its type; contents unspecified. */
#define LS_BYTES(pointer, bytes) LS_ALLOCATE(pointer, bytes, 1, 1, false, #pointer)

/* pointer = a copy of a text. */
#define LS_COPY(pointer, text)                                                                     \
    do {                                                                                           \
        const char *text_ = (text);                                                                \
        (pointer) = ls_text_copy(text_);                                                           \
        LS_NEED_MEMORY(pointer, strlen(text_) + 1, 1, #pointer);                                   \
    } while (0)

/* pointer, NULL at first, is resized to `count` elements; those that were there stay. */
#define LS_RESIZE(pointer, count)                                                                  \
    do {                                                                                           \
        const size_t count_ = (count);                                                             \
        void *resized_ = ls_resized((pointer), count_, sizeof *(pointer));                         \
        LS_NEED_MEMORY(resized_, count_, sizeof *(pointer), #pointer);                             \
        (pointer) = resized_;                                                                      \
    } while (0)

/* Room for one element more after `count`; room: a size_t variable, 0 at first. */
#define LS_GROW(pointer, count, room)                                                              \
    do {                                                                                           \
        const size_t count_ = (count);                                                             \
        void *grown_ = ls_grown((pointer), count_, &(room), sizeof *(pointer));                    \
        LS_NEED_MEMORY(grown_, count_ + 1, sizeof *(pointer), #pointer);                           \
        (pointer) = grown_;                                                                        \
    } while (0)

#endif
