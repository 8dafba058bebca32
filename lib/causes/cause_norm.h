/* cause_norm.h - squares of the gradients, granule by granule: every norm that a hypothesis is
 * about is a sum of some of them. */
#ifndef LS_CAUSES_CAUSE_NORM_H
#define LS_CAUSES_CAUSE_NORM_H

#include "causes/families.h"

enum { LS_NORM_RANKS = 16 };

struct ls_squares {
    uint64_t step;
    bool there;       /* every parameter's gradient was given, or is golden */
    size_t *first;    /* per parameter of the table: its first granule; one more at the end */
    double *granules; /* sum of squares of each granule; of a parameter that is not cut: its one */
    /* Of what each rank's file holds; 0 and false where there are no such files. */
    double file[LS_NORM_RANKS];
    bool has_file[LS_NORM_RANKS];
};

/* The squares of the case's step: those of an earlier search of the same judgement if it kept them
 * (ls_case.squares), else computed and kept. Errors: LS_ERR_MEMORY. */
ls_status ls_squares_take(ls_search *search, const ls_squares **ret_squares) LS_MUST_USE;

/* Of a clipped gradient: whether the candidate gives a norm, and that of its gradients: then it was
 * not scaled by another one that all ranks agree on. cause_norm.c */
ls_status ls_search_norm_is_right(ls_search *search, bool *ret_right) LS_MUST_USE;

#endif
