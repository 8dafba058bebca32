#include "lockstep/base/memory.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/memory_account.h"
#include "base/allocate.h"

typedef struct held {
    size_t now, peak;
} held;

struct ls_memory {
    held categories[LS_MEM_CATEGORIES];
    held total; /* its peak is not the sum of the peaks: those may lie at different times */
    size_t arenas;
    bool abandoned; /* destroyed too early: the last arena frees it */
};

const char *ls_memory_category_name(ls_memory_category category)
{
    switch (category) {
    case LS_MEM_PARAMETERS:
        return "parameters";
    case LS_MEM_GRADIENTS:
        return "gradients";
    case LS_MEM_OPTIMIZER:
        return "optimizer";
    case LS_MEM_ACTIVATIONS:
        return "activations";
    case LS_MEM_TEMPORARY:
        return "temporary";
    case LS_MEM_COMMUNICATION:
        return "communication";
    case LS_MEM_CATEGORIES:
        break;
    }
    return "?";
}

ls_status ls_memory_create(ls_memory **ret_memory)
{
    ls_status status = LS_OK;
    ls_memory *memory = NULL;
    LS_NEW(memory, 1);
    *ret_memory = memory;
exit:
    return status;
}

void ls_memory_destroy(ls_memory **memory)
{
    ls_memory *gone = *memory;
    *memory = NULL;
    if (gone == NULL) return;
    if (gone->arenas > 0)
        gone->abandoned = true;
    else
        free(gone);
}

void ls_memory_hold(ls_memory *memory)
{
    if (memory != NULL) memory->arenas++;
}

void ls_memory_let_go(ls_memory *memory)
{
    if (memory != NULL && --memory->arenas == 0 && memory->abandoned) free(memory);
}

static void add(held *what, size_t bytes)
{
    what->now += bytes;
    if (what->now > what->peak) what->peak = what->now;
}

void ls_memory_charge(ls_memory *memory, ls_memory_category category, size_t bytes)
{
    if (memory == NULL) return;
    add(&memory->categories[category], bytes);
    add(&memory->total, bytes);
}

void ls_memory_discharge(ls_memory *memory, ls_memory_category category, size_t bytes)
{
    if (memory == NULL) return;
    memory->categories[category].now -= bytes;
    memory->total.now -= bytes;
}

size_t ls_memory_bytes(const ls_memory *memory, ls_memory_category category)
{
    return memory->categories[category].now;
}

size_t ls_memory_peak_bytes(const ls_memory *memory, ls_memory_category category)
{
    return memory->categories[category].peak;
}

size_t ls_memory_total_bytes(const ls_memory *memory)
{
    return memory->total.now;
}

size_t ls_memory_total_peak_bytes(const ls_memory *memory)
{
    return memory->total.peak;
}
