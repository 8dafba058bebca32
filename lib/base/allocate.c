#include "base/allocate.h"

#include <string.h>

#include "base/size.h"

void *ls_allocate(size_t count, size_t size, bool zeros)
{
    const size_t bytes = ls_size_product(count, size);
    if (bytes > LS_SIZE_MOST) return NULL;
    return zeros ? calloc(bytes > 0 ? bytes : 1, 1) : malloc(bytes > 0 ? bytes : 1);
}

char *ls_text_copy(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void *ls_grown(void *memory, size_t count, size_t *room, size_t size)
{
    if (memory != NULL && count < *room) return memory;
    const size_t wanted = ls_size_plus(ls_size_product(2, count), 8);
    const size_t bytes = ls_size_product(wanted, size);
    if (wanted == LS_SIZE_NONE || bytes > LS_SIZE_MOST) return NULL;
    void *grown = realloc(memory, bytes);
    if (grown != NULL) *room = wanted;
    return grown;
}
