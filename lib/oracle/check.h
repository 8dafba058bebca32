/* check.h - the judgement of a candidate: equal, explained or different, tensor by tensor, and of
 * the first that differs, where the mistake is and which one it looks like. */
#ifndef LS_ORACLE_CHECK_H
#define LS_ORACLE_CHECK_H

#include "oracle/candidate.h"
#include "oracle/cause.h"

typedef enum ls_verdict {
    LS_EQUAL = 0, /* same bits as the golden tensor, rounded to the candidate's dtype if that is
                     coarser */
    LS_EXPLAINED, /* within what another order of summation in its precision gives */
    LS_DIFFERENT_TENSOR
} ls_verdict;

/* The operation that makes a tensor, computed again from the candidate's own inputs. */
typedef enum ls_local {
    LS_LOCAL_UNKNOWN = 0, /* the candidate does not have all inputs */
    LS_LOCAL_WITHIN,      /* it is right by itself: what is wrong came in */
    LS_LOCAL_OUTSIDE      /* this operation is wrong */
} ls_local;

typedef struct ls_judged {
    const ls_candidate_tensor *candidate; /* NULL: missing (only with `complete`) */
    const ls_golden_tensor *golden;
    ls_verdict verdict;
    ls_local local;
    bool within;      /* the bound found by perturbed runs */
    size_t differing; /* elements that are not the golden bits */
    size_t outside;   /* ... that lie outside what explains them */
    size_t first;     /* the first of those (of `differing` when explained) */
    double candidate_value, golden_value, right_value; /* there */
    double error, bound; /* largest distance from the truth; what is allowed */
    uint64_t max_ulps;   /* in the candidate's dtype, from the golden value rounded to it */
} ls_judged;

typedef struct ls_check_options {
    const char *only; /* a pattern of names with * and ?; NULL: all */
    bool complete;    /* every golden tensor must be there */
    void *context;
    void (*advance)(void *context, uint64_t done, uint64_t of, const char *what);
} ls_check_options;

typedef struct ls_judgement {
    size_t count; /* in order of execution */
    ls_judged *tensors;
    size_t equal, explained, different;
    const ls_judged *first; /* the first that differs, in order of execution; NULL: none */
    /* Of the first that differs: the operation that is to blame. It is `first` itself, or before
     * it, among tensors that the candidate does not have (blame NULL). */
    const ls_judged *blame;
    ls_suspicion suspicion;
} ls_judgement;

/* Judges. Errors: LS_ERR_INPUT (nothing fits `only`; `complete` and a tensor is missing: names the
 * first and how many), LS_ERR_MEMORY, LS_ERR_INTERRUPTED. */
ls_status ls_check(ls_judgement **ret_judgement, const ls_golden *golden,
                   const ls_candidate *candidate, const ls_check_options *options) LS_MUST_USE;
void ls_judgement_destroy(ls_judgement **judgement);

#endif
