/* cause.h - which mistake a wrong tensor looks like.
 *
 * Each cause is a hypothesis: it says what the mistake would have given, from the operation's own
 * inputs, and is named when that explains the tensor within the operation's bound while the right
 * value does not. Where several do, the most specific one is named and the others are counted. One
 * number chooses among no hypotheses: where several explain it, none is named. What a hypothesis
 * must show before it is believed: cause_gate.c. */
#ifndef LS_CAUSES_CAUSE_H
#define LS_CAUSES_CAUSE_H

#include "check/candidate.h"
#include "step_graph/mistake.h"
#include "step_graph/operation.h"

/* The squares of all gradients of a step, which the searches of a judgement share. */
typedef struct ls_squares ls_squares;
void ls_squares_destroy(ls_squares **squares);

/* What is known of a wrong tensor. */
typedef struct ls_case {
    const ls_golden *golden;
    uint64_t step;
    int node;
    /* The candidate's own tensors, golden ones where it has none: what the operation reads, and
     * every parameter. What else a hypothesis needs is read from `whole` and `golden`. */
    ls_operands operands;
    bool own_inputs; /* all that the operation reads are the candidate's; else the mistake may lie
                        before it, and is looked for there too */
    ls_precision precision;
    const double *candidate;             /* the node's elements */
    const double *right;                 /* what the operation gives from the operands */
    const double *bound;                 /* of each element */
    const ls_candidate_tensor *as_given; /* its blocks and replicas */
    const ls_candidate *whole;           /* for a node's companions and the layout; may be NULL */
    /* Where own_inputs is false. A cause that explained another tensor of the candidate is looked
     * for first before the node, and alone when `brief` is set (without a hint: none is). */
    ls_cause hint;
    const char
        *hint_evidence; /* of that; only a hypothesis of the same words is tried. NULL: any */
    bool brief;
    /* Multiplications that are left for all searches of a judgement together; each takes from it.
     * NULL: this search has WORK by itself. */
    double *budget;
    ls_squares **squares; /* kept from one search to the next; NULL: each computes its own */
} ls_case;

enum { LS_EVIDENCE = 256, LS_ALSO = 4 };

typedef struct ls_suspicion {
    ls_cause cause;
    char evidence[LS_EVIDENCE]; /* "candidate - right = 3 x bias of layers.0.attention.out, so 4
                                   ranks added it; leaves at most 1.2e-7 (bound 4e-7)" */
    bool cut_short;             /* not every hypothesis was tried */
    size_t also;                /* further causes that fit as well */
    ls_cause others[LS_ALSO];
} ls_suspicion;

/* Tries every hypothesis that can concern the node's operation. A case that lies within its bounds,
 * on every rank, has no cause. Cost: some dozens to hundreds of evaluations of the node, as many as
 * a limit of some seconds leaves; where that cut the search short and nothing was found, the
 * evidence says so. Errors: LS_ERR_MEMORY. */
ls_status ls_cause_find(const ls_case *of, ls_suspicion *ret_suspicion) LS_MUST_USE;

#endif
