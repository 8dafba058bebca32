#include "base/allocate.h"

#include <string.h>

#include "base/size.h"

void *ls_allocate(size_t count, size_t size, size_t alignment, bool zeros)
{
    size_t bytes = ls_size_product(count, size);
    if (bytes > LS_SIZE_MOST) return NULL;
    if (bytes == 0) bytes = alignment;
    if (alignment <= _Alignof(max_align_t)) return zeros ? calloc(bytes, 1) : malloc(bytes);
    void *aligned = aligned_alloc(alignment, bytes);
    return aligned && zeros ? memset(aligned, 0, bytes) : aligned;
}

char *ls_text_copy(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void *ls_resized(void *memory, size_t count, size_t size)
{
    const size_t bytes = ls_size_product(count, size);
    return bytes > LS_SIZE_MOST ? NULL : realloc(memory, bytes > 0 ? bytes : 1);
}

void *ls_grown(void *memory, size_t count, size_t *room, size_t size)
{
    if (memory != NULL && count < *room) return memory;
    const size_t wanted = ls_size_plus(ls_size_product(2, count), 8);
    void *grown = ls_resized(memory, wanted, size);
    if (grown != NULL) *room = wanted;
    return grown;
}

ls_status ls_no_memory(const char *file, int line, size_t count, size_t size, const char *what)
{
    const size_t bytes = ls_size_product(count, size);
    if (bytes > LS_SIZE_MOST)
        return ls_error_record(LS_ERR_MEMORY, file, line,
                               "out of memory: %zu times %zu bytes for %s", count, size, what);
    return ls_error_record(LS_ERR_MEMORY, file, line, "out of memory: %zu bytes for %s", bytes,
                           what);
}
