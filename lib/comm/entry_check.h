/* entry_check.h - whether all members make the same call. */
#ifndef LS_COMM_ENTRY_CHECK_H
#define LS_COMM_ENTRY_CHECK_H

#include "comm/world_state.h"

/* Compares the calls in the team's posts. Sets team->mismatch and, if so, team->verdict:
 * one line that says who called what. Run by the last member to arrive. */
void ls_entry_check(ls_team *team);

#endif
