/* cause_targets.h - what the two files that name the loss's mistakes share. */
#ifndef LS_CAUSES_CAUSE_TARGETS_H
#define LS_CAUSES_CAUSE_TARGETS_H

#include "causes/families.h"

#define LS_TOKEN_LOSSES (LS_KIND(TOKEN_LOSS) | LS_KIND(MEAN))

/* The node of the token losses; -1. */
int ls_search_token_loss(const ls_search *search);

/* cause_target_set.c: targets lost, or counted though they are ignored. */
ls_status ls_search_target_set(ls_search *search) LS_MUST_USE;

#endif
