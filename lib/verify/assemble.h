/* assemble.h - whole logical tensors from what an observer sees of them.
 *
 * Every rank shows its blocks, micro-batch by micro-batch. Put together they are what one rank
 * would have: every element is there, an element that several ranks have is the same to the bit on
 * all of them, and none is shown twice by one rank. What goes into reductions (partial views) is
 * not kept.
 */
#ifndef LS_VERIFY_ASSEMBLE_H
#define LS_VERIFY_ASSEMBLE_H

#include "lockstep/parallel/hooks/observer.h"

typedef struct ls_assembly ls_assembly;

/* A tensor put together. */
typedef struct ls_assembled {
    ls_view_kind kind;
    int param, use; /* -1 */
    char of[96];    /* name of the parameter; empty */
    ls_point point; /* LS_POINTS unless kind is LS_VIEW_POINT */
    bool gradient;
    int layer;
    uint32_t step;
    int n_dims;
    size_t dims[LS_VIEW_DIMS];
    size_t count; /* their product */
    ls_dtype dtype;
    void *values;   /* row-major */
    int32_t *owner; /* per element: the first rank that showed it; -1: none */
} ls_assembled;

/* Errors: LS_ERR_MEMORY. */
ls_status ls_assembly_create(ls_assembly **ret_assembly) LS_MUST_USE;
void ls_assembly_destroy(ls_assembly **assembly);

/* What to hand to a run; lives as long as the assembly. Its `look` takes one rank at a time. Errors
 * that end the run: LS_DIFFERENT, ranks that should agree do not, with tensor, index, ranks and
 * both values; LS_ERR_INTERNAL, a block outside its tensor, of another shape than the tensor had
 * before, or shown twice by one rank; LS_ERR_MEMORY. Memory: 4 bytes per element next to the
 * values. */
const ls_observer *ls_assembly_observer(const ls_assembly *assembly);

/* After a run: LS_ERR_INTERNAL when an element of a tensor seen was shown by no rank. */
ls_status ls_assembly_check(const ls_assembly *assembly) LS_MUST_USE;

/* Tensors in the order in which their first blocks came, which with several ranks is no fixed one.
 */
size_t ls_assembly_count(const ls_assembly *assembly);
const ls_assembled *ls_assembly_get(const ls_assembly *assembly, size_t i);
/* A point's tensor; another kind's (param and use -1 where the kind has none). NULL: not seen. */
const ls_assembled *ls_assembly_find(const ls_assembly *assembly, ls_point point, bool gradient,
                                     int layer, uint32_t step);
const ls_assembled *ls_assembly_find_other(const ls_assembly *assembly, ls_view_kind kind,
                                           int param, int use, uint32_t step);

/* "step 0, layer 3, gradient of query", "step 0, clipped gradient of tokens.weight", "step 0,
 * loss". */
enum { LS_ASSEMBLED_NAME = 192 };
void ls_assembled_name(const ls_assembled *tensor, char name[LS_ASSEMBLED_NAME]);

#endif
