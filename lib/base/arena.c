/* An arena takes memory from the system in chunks and hands it out from the front. What was taken
 * is written down, one entry each, so that a release gives back exactly the bytes that were asked
 * for. Chunks that a release has emptied are kept for the next round: a training step asks for the
 * same sizes in the same order every time, and finds them where it left them.
 *
 * Built with AddressSanitizer, everything not handed out is poisoned, blocks have a poisoned gap
 * between them, and fresh memory is filled with NaN (all bits one), so that what the comment of
 * ls_arena_alloc leaves unspecified cannot be relied on unseen. */
#include "lockstep/base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory_account.h"
#include "base/allocate.h"

#if defined(__SANITIZE_ADDRESS__)
#define GUARDED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARDED 1
#endif
#endif
#ifdef GUARDED
#include <sanitizer/asan_interface.h>
#else
#define GUARDED 0
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

enum {
    ALIGNMENT = 64, /* a cache line, and the widest vector register */
    GAP = GUARDED ? ALIGNMENT : 0,
    SMALLEST_CHUNK = 64 * 1024,
    LARGEST_SHARED_CHUNK = 1024 * 1024 /* what needs more gets a chunk of its own size */
};

typedef struct chunk {
    unsigned char *bytes;
    size_t capacity;
    size_t used;
} chunk;

typedef struct taken {
    size_t bytes;  /* as asked for                                 */
    size_t chunk;  /* where it lies: the chunk, and how much of it */
    size_t before; /* was in use before                            */
} taken;

struct ls_arena {
    ls_memory *memory;
    ls_memory_category category;
    chunk *chunks; /* those before `current` are closed, those after it empty */
    size_t n_chunks, room_chunks, current;
    taken *log;
    size_t n_taken, room_taken;
};

/* What a request for zero bytes points to. */
static _Alignas(ALIGNMENT) unsigned char nothing[ALIGNMENT];

ls_status ls_arena_create(ls_arena **ret_arena, ls_memory *memory, ls_memory_category category)
{
    ls_status status = LS_OK;
    ls_arena *arena = NULL;
    LS_NEW(arena, 1);
    arena->memory = memory;
    arena->category = category;
    ls_memory_hold(memory);
    *ret_arena = arena;
exit:
    return status;
}

/* Makes room for one more entry in a growing array; false: no memory, the array as before. */
static int grow(void **array, size_t used, size_t *room, size_t entry_bytes)
{
    void *larger = ls_grown(*array, used, room, entry_bytes);
    if (larger != NULL) *array = larger;
    return larger != NULL;
}

/* Puts a chunk with room for `needed` bytes at place `at`, where the array may end: one of the
 * empty chunks from there on, else a new one. Returns false when there is no memory. */
static int open_chunk(ls_arena *arena, size_t at, size_t needed)
{
    for (size_t i = at; i < arena->n_chunks; i++) {
        if (arena->chunks[i].capacity >= needed) {
            chunk fits = arena->chunks[i];
            arena->chunks[i] = arena->chunks[at];
            arena->chunks[at] = fits;
            return 1;
        }
    }
    if (!grow((void **)&arena->chunks, arena->n_chunks, &arena->room_chunks, sizeof(chunk)))
        return 0;
    size_t capacity = at == 0 ? SMALLEST_CHUNK : 2 * arena->chunks[at - 1].capacity;
    if (capacity > LARGEST_SHARED_CHUNK) capacity = LARGEST_SHARED_CHUNK;
    if (capacity < needed) capacity = needed;
    void *bytes = NULL;
    if (posix_memalign(&bytes, ALIGNMENT, capacity) != 0) return 0;
    ASAN_POISON_MEMORY_REGION(bytes, capacity);
    memmove(&arena->chunks[at + 1], &arena->chunks[at], (arena->n_chunks - at) * sizeof(chunk));
    arena->chunks[at] = (chunk){bytes, capacity, 0};
    arena->n_chunks++;
    return 1;
}

/* The next `needed` bytes (a multiple of ALIGNMENT), or NULL; `bytes` of them were asked for. */
static void *take(ls_arena *arena, size_t needed, size_t bytes)
{
    if (!grow((void **)&arena->log, arena->n_taken, &arena->room_taken, sizeof(taken))) return NULL;
    size_t at = arena->current;
    if (arena->n_chunks == 0 || arena->chunks[at].capacity - arena->chunks[at].used < needed) {
        /* An empty chunk that is too small steps back after the one that fits. */
        if (arena->n_chunks > 0 && arena->chunks[at].used > 0) at++;
        if (!open_chunk(arena, at, needed)) return NULL;
    }
    chunk *from = &arena->chunks[at];
    void *block = from->bytes + from->used;
    arena->log[arena->n_taken++] = (taken){bytes, at, from->used};
    from->used += needed;
    arena->current = at;
    return block;
}

ls_status ls_arena_alloc(ls_arena *arena, size_t count, size_t size, void *ret_pointer)
{
    ls_status status = LS_OK;
    void *block = nothing;
    if (size != 0 && count > (SIZE_MAX / 2) / size)
        LS_FAIL(LS_ERR_MEMORY,
                "out of memory: %zu times %zu bytes of %s is more than can be addressed", count,
                size, ls_memory_category_name(arena->category));
    size_t bytes = count * size;
    if (bytes > 0) {
        size_t needed = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GAP;
        block = take(arena, needed, bytes);
        if (block == NULL)
            LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for %zu bytes of %s", bytes,
                    ls_memory_category_name(arena->category));
        ASAN_UNPOISON_MEMORY_REGION(block, bytes);
        if (GUARDED) memset(block, 0xff, bytes);
        ls_memory_charge(arena->memory, arena->category, bytes);
    }
    memcpy(ret_pointer, &block,
           sizeof block); /* whatever its type: all object pointers are alike here */
exit:
    return status;
}

ls_status ls_arena_zalloc(ls_arena *arena, size_t count, size_t size, void *ret_pointer)
{
    ls_status status = LS_OK;
    void *block = NULL;
    LS_TRY(ls_arena_alloc(arena, count, size, &block));
    memset(block, 0, count * size);
    memcpy(ret_pointer, &block, sizeof block);
exit:
    return status;
}

size_t ls_arena_mark(const ls_arena *arena)
{
    return arena->n_taken;
}

void ls_arena_release(ls_arena *arena, size_t mark)
{
    while (arena->n_taken > mark) {
        const taken *last = &arena->log[--arena->n_taken];
        chunk *from = &arena->chunks[last->chunk];
        ASAN_POISON_MEMORY_REGION(from->bytes + last->before, from->used - last->before);
        from->used = last->before;
        arena->current = last->chunk;
        ls_memory_discharge(arena->memory, arena->category, last->bytes);
    }
    /* The chunk of the oldest entry given back may now be empty while an older one has room. */
    if (arena->n_taken > 0) arena->current = arena->log[arena->n_taken - 1].chunk;
    if (arena->n_taken == 0) arena->current = 0;
}

void ls_arena_destroy(ls_arena **arena)
{
    ls_arena *gone = *arena;
    if (gone == NULL) return;
    ls_arena_release(gone, 0);
    for (size_t i = 0; i < gone->n_chunks; i++) {
        ASAN_UNPOISON_MEMORY_REGION(gone->chunks[i].bytes, gone->chunks[i].capacity);
        free(gone->chunks[i].bytes);
    }
    free(gone->chunks);
    free(gone->log);
    ls_memory_let_go(gone->memory);
    free(gone);
    *arena = NULL;
}
