/* findings.h - the mistakes behind a judgement: which different tensors are wrong by themselves,
 * which of them are one mistake, and which mistake that looks like. */
#ifndef LS_CAUSES_FINDINGS_H
#define LS_CAUSES_FINDINGS_H

#include "causes/cause.h"
#include "check/check.h"

/* One mistake: the tensors whose own operation is wrong, or that nothing wrong came into. */
typedef struct ls_finding {
    const ls_judged *tensor; /* the first, in order of execution */
    size_t count;            /* all that look like the same mistake, it among them */
    const ls_judged **tensors;
    ls_suspicion suspicion;
    /* When an operation's inputs are not all there, the mistake is at the tensor or in what is
     * missing: what the candidate could add to narrow it, and the nearest tensors before that it
     * has. */
    size_t n_missing, n_before;
    const ls_golden_tensor **missing;
    const ls_judged **before;
} ls_finding;

typedef struct ls_findings {
    const ls_judgement *of;
    size_t count;     /* one or more when something differs */
    ls_finding *list; /* in order of execution */
    /* The earliest different tensor that is wrong by itself. NULL: the inputs of none are all
     * there, see list[0].missing. */
    const ls_judged *blame;
    ls_suspicion suspicion; /* of blame, or of list[0] */
    /* Tensors that are wrong by themselves for no known cause in steps after the first mistake:
     * what is not written down, the optimizer's state for one, may be wrong by then. */
    size_t later;
    size_t
        unexamined; /* wrong tensors beyond the LS_FINDINGS_EXAMINED whose cause was looked for */
} ls_findings;

/* Causes are looked for at so many tensors at most. */
enum { LS_FINDINGS_EXAMINED = 64 };

/* Looks for the causes of what is different; the judgement, and what it was made of, stay open as
 * long as the findings live. It is stopped, and tells how far it is, as the judgement was. Errors:
 * LS_ERR_MEMORY, LS_ERR_INTERRUPTED. */
ls_status ls_findings_create(ls_findings **ret_findings, const ls_judgement *judgement) LS_MUST_USE;
void ls_findings_destroy(ls_findings **findings);

/* Whether a tensor of it is `finer`. */
bool ls_finding_is_finer(const ls_finding *finding);

#endif
