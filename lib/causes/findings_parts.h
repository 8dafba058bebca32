/* findings_parts.h - what the files that make findings share. */
#ifndef LS_CAUSES_FINDINGS_PARTS_H
#define LS_CAUSES_FINDINGS_PARTS_H

#include "causes/findings.h"
#include "check/check_parts.h"

/* ---- findings_group.c ---- */

/* The finding that a root belongs to; NULL: none. examined: its cause was looked for. */
ls_finding *ls_findings_group(const ls_findings *findings, const ls_judged *root,
                              const ls_suspicion *suspicion, bool examined);
/* The finding with a cause that explains every tensor of one without; NULL. */
ls_finding *ls_findings_explaining(const ls_findings *findings, const ls_finding *unnamed);
/* Whether a root without a cause is in a step after one with a mistake. */
bool ls_findings_come_before(const ls_findings *findings, const ls_judged *root,
                             const ls_suspicion *suspicion);
/* The finding without a cause whose missing tensors another's share, cut down to those; NULL. */
ls_finding *ls_findings_share_missing(const ls_findings *findings, const ls_finding *other);

/* ---- findings_silent.c ---- */

/* Whether no cause can be read from a wrong tensor: NaN or infinity, or nothing but losses. Then
 * the evidence says so. */
bool ls_findings_say_nothing(const ls_judgement *judgement, const ls_judged *judged,
                             ls_suspicion *ret_suspicion);
/* Whether a tensor holds NaN or infinity, as another one before it does. */
bool ls_findings_follow_nan(const ls_judgement *judgement, const ls_judged *judged);
/* Whether it is one number whose inputs the candidate does not have. */
bool ls_findings_is_one_number(const ls_judged *judged);

#endif
