/* memory.h - memory with an account: who holds how many bytes, and for what.
 *
 * A rank has one account (ls_memory) and takes its memory from arenas. An arena belongs to one
 * category and is emptied whole: parameters live as long as the rank, the activations of a
 * micro-batch until its backward pass. The account counts the bytes asked for, not what malloc
 * rounds them to, so that a prediction can be held to it byte for byte. An account and its arenas
 * belong to one thread at a time. */
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stddef.h>

#include "lockstep/base/status.h"

LS_BEGIN_DECLS

typedef enum ls_memory_category {
    LS_MEM_PARAMETERS = 0,
    LS_MEM_GRADIENTS,
    LS_MEM_OPTIMIZER,
    LS_MEM_ACTIVATIONS, /* kept from forward to backward      */
    LS_MEM_TEMPORARY,   /* gone when the operation is over    */
    LS_MEM_COMMUNICATION,
    LS_MEM_CATEGORIES
} ls_memory_category;

typedef struct ls_memory ls_memory;
typedef struct ls_arena ls_arena;

/* "parameters", "gradients", ... */
LS_API const char *ls_memory_category_name(ls_memory_category category);

LS_API ls_status ls_memory_create(ls_memory **ret_memory) LS_MUST_USE;

/* Destroys the account; its arenas must be gone. Takes a pointer to the pointer, NULL allowed. */
LS_API void ls_memory_destroy(ls_memory **memory);

/* Bytes held now, and the most ever held at once, in one category. */
LS_API size_t ls_memory_bytes(const ls_memory *memory, ls_memory_category category);
LS_API size_t ls_memory_peak_bytes(const ls_memory *memory, ls_memory_category category);

/* Bytes held now, and the most ever held at once, over all categories together. */
LS_API size_t ls_memory_total_bytes(const ls_memory *memory);
LS_API size_t ls_memory_total_peak_bytes(const ls_memory *memory);

/* An empty arena of one category; memory NULL: without an account. */
LS_API ls_status ls_arena_create(ls_arena **ret_arena, ls_memory *memory,
                                 ls_memory_category category) LS_MUST_USE;

/* Takes count * size bytes, aligned to 64, contents unspecified. *ret_pointer is any object
 * pointer's address, cast to void *. Zero bytes give a pointer that may not be read. Errors:
 * LS_ERR_MEMORY, also when count * size overflows; the arena is as before. */
LS_API ls_status ls_arena_alloc(ls_arena *arena, size_t count, size_t size,
                                void *ret_pointer) LS_MUST_USE;

/* As ls_arena_alloc, all bytes zero. */
LS_API ls_status ls_arena_zalloc(ls_arena *arena, size_t count, size_t size,
                                 void *ret_pointer) LS_MUST_USE;

/* Gives back everything taken since `mark`, a value that ls_arena_mark returned earlier (0: all).
 */
LS_API size_t ls_arena_mark(const ls_arena *arena);
LS_API void ls_arena_release(ls_arena *arena, size_t mark);

LS_API void ls_arena_destroy(ls_arena **arena);

LS_END_DECLS

#endif
