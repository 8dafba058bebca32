/* mistake.h - the mistakes that people make in a training step: one table for all that names one.
 *
 * causes finds which of them a wrong tensor looks like, conformance which one a wrong output looks
 * like, and the gallery shows each by a fault put into a right program. How to add one:
 * lib/causes/README.md. */
#ifndef LS_STEP_GRAPH_MISTAKE_H
#define LS_STEP_GRAPH_MISTAKE_H

#include <stdbool.h>

#define LS_MISTAKE(name, ...) LS_CAUSE_##name,
typedef enum ls_cause {
    LS_CAUSE_NONE = 0, /* no mistake that is known */
#include "step_graph/mistakes.inc"
    LS_CAUSES
} ls_cause;
#undef LS_MISTAKE

/* Which wrong tensors without a cause of their own a mistake explains, once another tensor has it:
 * always those of the same name in other layers and steps, and besides */
typedef enum ls_mistake_reach {
    LS_REACH_ALIKE = 0,   /* none */
    LS_REACH_PARAMETER,   /* what reads the same parameter */
    LS_REACH_ARRANGEMENT, /* that, the weight's gradient, and all that attention computes */
    LS_REACH_ROWS,        /* gradients of what is added up to the same embedding */
    LS_REACH_ATTENTION,   /* the heads' outputs, and what goes back through the scores */
    LS_REACH_BACKWARD     /* of a mistake in the backward pass: the rest of that pass */
} ls_mistake_reach;

typedef struct ls_mistake {
    const char *key; /* "bias-per-rank": for JSON */
    int order;       /* the lower, the more specific: of several that fit the lowest is named */
    const char *sentence; /* "bias added once per rank" */
    const char *remedy;   /* what to look at in one's own code; NULL: nothing is suspected */
    bool needs_ranks;     /* several ranks or micro-batches */
    ls_mistake_reach reach;
    ls_cause includes; /* a less specific mistake that looks the same where nothing else shows */
} ls_mistake;

/* Of anything else than a mistake: the row of LS_CAUSE_NONE. */
const ls_mistake *ls_mistake_of(ls_cause cause);

#endif
