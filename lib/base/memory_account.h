/* memory_account.h - charging an account for memory that does not come from an arena. */
#ifndef LS_BASE_MEMORY_ACCOUNT_H
#define LS_BASE_MEMORY_ACCOUNT_H

#include "lockstep/base/memory.h"

/* Adds to / takes from what `memory` holds in `category`; memory NULL: nothing is kept. */
void ls_memory_charge(ls_memory *memory, ls_memory_category category, size_t bytes);
void ls_memory_discharge(ls_memory *memory, ls_memory_category category, size_t bytes);

/* An arena says that it uses `memory`, and that it does not any more. An account that was destroyed
 * too early lives until then: a rank that leaves an arena behind when it fails leaks it, but does
 * no worse. */
void ls_memory_hold(ls_memory *memory);
void ls_memory_let_go(ls_memory *memory);

#endif
