/* cause_attention.h - what the two files that name attention's mistakes share. */
#ifndef LS_CAUSES_CAUSE_ATTENTION_H
#define LS_CAUSES_CAUSE_ATTENTION_H

#include "causes/families.h"

/* Of variants that change nothing forward: */
#define LS_HEADS_BACK LS_KIND(HEADS)
#define LS_SCORES (LS_KIND(PROBABILITIES) | LS_KIND(HEADS))

/* The heads that the node is, whose probabilities it is, or into which it goes; -1. */
int ls_search_heads(const ls_search *search);

/* cause_keys.c: queries that see another run of keys. */
ls_status ls_search_keys(ls_search *search) LS_MUST_USE;

#endif
