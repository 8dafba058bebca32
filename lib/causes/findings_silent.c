/* findings_silent.c - wrong tensors from which no cause can be read: those that hold NaN or
 * infinity, one number, and lists of losses. What is said instead. */
#include <math.h>
#include <stdio.h>

#include "lockstep/base/widen.h"
#include "base/append.h"
#include "causes/findings_parts.h"

/* The first element that is no number where the golden one is; count: there is none. */
static size_t first_nan(const ls_judged *judged)
{
    const size_t width = ls_dtype_bytes(judged->candidate->dtype), n = judged->golden->count;
    const size_t golden = ls_dtype_bytes(judged->golden->dtype);
    for (size_t i = 0; i < n; i++) {
        double mine, theirs;
        ls_widen(LS_F64, &mine, judged->candidate->dtype,
                 (const char *)judged->candidate->values + i * width, 1);
        if (isfinite(mine)) continue;
        ls_widen(LS_F64, &theirs, judged->golden->dtype,
                 (const char *)judged->golden->values + i * golden, 1);
        if (isfinite(theirs)) return i;
    }
    return n;
}

static bool has_nan(const ls_judged *judged)
{
    return judged->misplaced && first_nan(judged) < judged->golden->count;
}

bool ls_findings_follow_nan(const ls_judgement *judgement, const ls_judged *judged)
{
    if (!has_nan(judged)) return false;
    for (const ls_judged *before = judgement->tensors; before < judged; before++)
        if (has_nan(before)) return true;
    return false;
}

bool ls_findings_is_one_number(const ls_judged *judged)
{
    return judged->golden->count == 1 && judged->local == LS_LOCAL_UNKNOWN &&
           !judged->golden->given;
}

static bool has_losses_only(const ls_judgement *judgement)
{
    const ls_graph *graph = judgement->inside->graph;
    for (size_t i = 0; i < judgement->count; i++)
        if (graph->nodes[judgement->tensors[i].golden->node].make != LS_MAKE_MEAN) return false;
    return true;
}

static void say_where(const ls_graph *graph, const ls_judged *judged, char *text, size_t size)
{
    const ls_graph_node *node = &graph->nodes[judged->golden->node];
    size_t at[LS_NODE_DIMS] = {0}, rest = first_nan(judged), length;
    for (int d = node->n_dims; d-- > 0; rest /= node->dims[d]) at[d] = rest % node->dims[d];
    length = ls_append(text, size, 0, "not a number from %s", judged->golden->name);
    for (int d = 0; d < node->n_dims; d++)
        length = ls_append(text, size, length, "%s%zu%s", d ? ", " : " [", at[d],
                           d + 1 < node->n_dims ? "" : "]");
    ls_append(text, size, length, " on: no cause can be read from it");
}

bool ls_findings_say_nothing(const ls_judgement *judgement, const ls_judged *judged,
                             ls_suspicion *ret_suspicion)
{
    char *text = ret_suspicion->evidence;
    if (has_nan(judged)) {
        say_where(judgement->inside->graph, judged, text, LS_EVIDENCE);
        return true;
    }
    if (!has_losses_only(judgement)) return false;
    snprintf(text, LS_EVIDENCE,
             "the loss lies outside the envelope of right runs from step %llu on; losses by "
             "themselves name no mistake: add gradients",
             (unsigned long long)judged->golden->step);
    return true;
}
