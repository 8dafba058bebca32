/* memory_account.h - charging an account for memory that does not come from an arena. */
#ifndef LS_BASE_MEMORY_ACCOUNT_H
#define LS_BASE_MEMORY_ACCOUNT_H

#include "lockstep/base/memory.h"

/* Adds to / takes from what `memory` holds in `category`; memory NULL: nothing is kept. */
void ls_memory_charge(ls_memory *memory, ls_memory_category category, size_t bytes);
void ls_memory_discharge(ls_memory *memory, ls_memory_category category, size_t bytes);

#endif
