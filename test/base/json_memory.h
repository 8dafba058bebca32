/* json_memory.h - for tests of readers: how many bytes jansson holds at most, and from which
 * allocation on it gets none. */
#ifndef TEST_BASE_JSON_MEMORY_H
#define TEST_BASE_JSON_MEMORY_H

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

static size_t json_live_bytes, json_peak_bytes;
static size_t json_allocations_left = SIZE_MAX; /* 0: each fails */

static inline void *json_counted_malloc(size_t bytes)
{
    size_t *block = json_allocations_left > 0 ? malloc(bytes + 16) : NULL; /* stays aligned */
    if (!block) return NULL;
    if (json_allocations_left < SIZE_MAX) json_allocations_left--;
    *block = bytes;
    json_live_bytes += bytes;
    if (json_live_bytes > json_peak_bytes) json_peak_bytes = json_live_bytes;
    return block + 2;
}

static inline void json_counted_free(void *pointer)
{
    size_t *block = pointer;
    if (!block) return;
    block -= 2;
    json_live_bytes -= *block;
    free(block);
}

/* From here on; before jansson holds anything. */
static inline void json_count_bytes(void)
{
    json_live_bytes = json_peak_bytes = 0;
    json_set_alloc_funcs(json_counted_malloc, json_counted_free);
}

#endif
