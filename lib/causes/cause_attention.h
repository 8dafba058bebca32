/* cause_attention.h - what the two files that name attention's mistakes share. */
#ifndef LS_CAUSES_CAUSE_ATTENTION_H
#define LS_CAUSES_CAUSE_ATTENTION_H

#include "causes/families.h"

enum {
    LS_HEADS_BACK = 1u << LS_MAKE_HEADS, /* only of variants that change nothing forward */
    LS_SCORES = 1u << LS_MAKE_PROBABILITIES | 1u << LS_MAKE_HEADS
};

/* The heads that the node is, whose probabilities it is, or into which it goes; -1. */
int ls_search_heads(const ls_search *search);

/* cause_keys.c: queries that see another run of keys. */
ls_status ls_search_keys(ls_search *search) LS_MUST_USE;

#endif
