/* check.h - the judgement of a candidate: equal, explained or different, tensor by tensor. Which
 * mistakes are behind what is different: causes/findings.h. */
#ifndef LS_CHECK_CHECK_H
#define LS_CHECK_CHECK_H

#include "check/candidate.h"

typedef enum ls_verdict {
    LS_EQUAL = 0, /* same bits as the golden tensor, rounded to the candidate's format if that is
                     coarser; any NaN equals any NaN */
    LS_EXPLAINED, /* within what another order of summation in its precision gives */
    LS_DIFFERENT_TENSOR
} ls_verdict;

/* The operation that makes a tensor, computed again from the candidate's own inputs. */
typedef enum ls_local {
    LS_LOCAL_UNKNOWN = 0, /* the candidate does not have all inputs; or not asked, when equal */
    LS_LOCAL_WITHIN,      /* it is right by itself: what is wrong came in */
    LS_LOCAL_OUTSIDE      /* this operation is wrong */
} ls_local;

typedef struct ls_judged {
    const ls_candidate_tensor *candidate;
    const ls_golden_tensor *golden;
    /* Of the candidate's values: their dtype; of an F32 tensor BF16 or F16 where every value is one
     * of that format, as of a tensor that was widened only to be written. */
    ls_dtype format;
    ls_dtype precision; /* it was computed in: the coarsest format of all that it depends on */
    const ls_golden_tensor *source; /* the tensor that has that format; NULL: --computed says it */
    bool assumed; /* ... not because its dtype is that, but because all its numbers are of it */
    ls_verdict verdict;
    ls_local local;
    bool within;   /* ... the bound found by perturbed runs, if that says anything */
    bool useless;  /* that bound allows 1.1 times the tensor, or is not known */
    bool unjudged; /* explained only as far as a useless bound tells, its operation's inputs not all
                      being there: nothing says that it is right */
    bool zero_on_paper; /* rounding noise, or a step of AdamW's made of it: graph_paper.c. Its bound
                           is as large as it is, and is no useless one */
    bool sound;     /* equal, or made by a right operation from sound inputs: right by induction */
    bool finer;     /* different, written in a finer format than `mostly`, and what it is made of
                       missing or in `mostly`: it may have been computed in that */
    bool aside;     /* different, but what reads it is right: only the tensor as written is off */
    bool misplaced; /* NaN or infinity stand elsewhere than in the golden tensor */
    size_t differing; /* elements that are not the golden bits */
    size_t outside;   /* ... that lie outside what explains them */
    size_t first;     /* the first of those (of `differing` when explained) */
    /* There. right: what the operation gives from the candidate's own inputs, or the truth. */
    double candidate_value, golden_value, right_value;
    double error, bound; /* largest distance from the truth; what is allowed, infinity: unknown */
    /* Root mean square of all distances; what is allowed, infinity: unknown. size: what rounding
     * may change of the tensor, as a share of itself, as far as whole runs tell. */
    double error_rms, bound_rms, size;
    /* Unless local is UNKNOWN: where the distance from the right value is largest in units of what
     * is allowed there, and both. */
    size_t worst;
    double local_error, local_bound;
    /* In the candidate's format, from the golden value rounded to it; UINT64_MAX where one of two
     * is NaN. */
    uint64_t max_ulps;
} ls_judged;

typedef struct ls_check_options {
    const char *only; /* a pattern of names, with step or without, * and ?; NULL: all */
    bool complete;    /* every golden tensor must be there */
    /* The candidate computed in `computed` wherever that is coarser than what it wrote: F32 files
     * of products in TF32 are judged as F16. */
    bool has_computed;
    ls_dtype computed;
    /* Computes an operation again only where the tensor lies outside the bound of whole runs: a
     * mistake that a whole run's rounding hides is not seen. */
    bool quick;
    /* By dtype, LS_BF16 + 1 of them: what earlier judgements of the same golden directory found by
     * runs, and where this one leaves what it finds. The caller destroys them (bounds.h). NULL:
     * none are kept. */
    struct ls_truth **truths;
    int threads;              /* 0: as many as there are cores */
    const volatile int *stop; /* *stop != 0 ends it: LS_ERR_INTERRUPTED; NULL: never */
    void *context;
    /* Called by one thread at a time; may be NULL. */
    void (*advance)(void *context, uint64_t done, uint64_t of, const char *what);
} ls_check_options;

typedef struct ls_judgement {
    size_t count; /* in order of execution */
    ls_judged *tensors;
    size_t equal, explained, different;
    size_t wanted;   /* golden tensors that `only` asks for, given or not */
    size_t unjudged; /* of the explained */
    ls_dtype mostly; /* BF16 or F16, when most of the candidate's forward and backward tensors are
                        in that or were taken for rounded to it; else F32 */
    const ls_judged *first; /* the first that differs, in order of execution; NULL: none */
    /* Most operations that could be computed again are wrong by themselves: this is no run from
     * these weights on this batch. */
    bool unrelated;
    struct ls_check *inside; /* for check*.c and findings*.c */
} ls_judgement;

/* Judges. Both stay open as long as the judgement lives.
 *
 * A tensor whose bits are the golden ones costs one memcmp. Of the others the operation is computed
 * again from the candidate's own tensors (operation.h), those of a step before for what it trained
 * itself; parameters are rounded to the format that was computed in. Where no golden bound is for
 * that precision, the runs that find one are done once per precision (bounds.h).
 *
 *     different   NaN or infinity misplaced, replicas that differ, or local OUTSIDE, but for a
 *                 tensor within the bound of perturbed runs that reads a different one: it was made
 *                 from something else than what was written; or not within that bound, unless all
 *                 that it is made of is sound and local is WITHIN
 *     explained   everything else that is not equal. Where the bound of perturbed runs says nothing
 *                 (bounds.h) and the operation's inputs are not there it is `unjudged` besides
 *
 * Of integers (LS_GOLDEN_INTEGERS) nothing is explained: it is equal or different. Memory: a
 * thread's operands and results of one operation in binary64. Errors: LS_ERR_INPUT (nothing fits
 * `only`; `complete` and a tensor is missing: names the first and how many; a golden tensor that
 * the candidate's is not equal to is not what the manifest says), LS_ERR_MEMORY,
 * LS_ERR_INTERRUPTED; those of ls_truth_find. */
ls_status ls_check(ls_judgement **ret_judgement, const ls_golden *golden,
                   const ls_candidate *candidate, const ls_check_options *options) LS_MUST_USE;
void ls_judgement_destroy(ls_judgement **judgement);

/* "equal", "explained", "different"; "unknown", "within", "outside". */
const char *ls_verdict_name(ls_verdict verdict);
const char *ls_local_name(ls_local local);

/* The judged tensor of a name, with its step or without (then the first step that has it); NULL. */
const ls_judged *ls_judgement_find(const ls_judgement *judgement, const char *name);

/* Whether `name` fits a pattern in which * stands for any text and ? for one character. */
bool ls_name_fits(const char *pattern, const char *name);

/* ---- one tensor's whole story ---- */

enum { LS_INSPECTION_WORST = 5, LS_INSPECTION_ROWS = 16, LS_INSPECTION_COLUMNS = 64 };

/* Which indices of a dimension have an element that is off. */
typedef struct ls_inspection_dimension {
    size_t touched;     /* how many have one */
    size_t first, last; /* the lowest and the highest */
    size_t period;      /* > 1: all of first, first + period, ..., last and no others; 1: every one
                           from first to last; 0: neither */
    size_t blocks;      /* granules, heads for instance, if the dimension has some; else 0 */
    size_t *in_block;   /* per block: elements that are off */
} ls_inspection_dimension;

typedef struct ls_inspection {
    const ls_judged *judged;
    size_t count;
    double *candidate, *golden;
    double *right, *bound; /* as the judgement has them: the operation's own result, or the truth;
                              NULL where neither is known */
    bool right_is_local;
    size_t off; /* elements that lie outside, or that differ when none does: what is looked at */
    bool off_is_outside;
    ls_inspection_dimension dimensions[LS_NODE_DIMS];
    /* The tensor as a matrix, its last dimension across, in cells of so many rows and columns: per
     * cell the share of elements that are off. Of images the matrix is one image, and `layers` all
     * images and channels, whose elements a cell has together. */
    size_t layers, rows, columns, cell_rows, cell_columns, grid_rows, grid_columns;
    double share[LS_INSPECTION_ROWS * LS_INSPECTION_COLUMNS];
    size_t n_worst, worst[LS_INSPECTION_WORST]; /* elements, the worst first */
} ls_inspection;

/* Errors: LS_ERR_MEMORY. */
ls_status ls_inspection_create(ls_inspection **ret_look, const ls_judgement *judgement,
                               const ls_judged *judged) LS_MUST_USE;
void ls_inspection_destroy(ls_inspection **look);

#endif
