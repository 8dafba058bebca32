/* findings_group.c - which of the wrong tensors are one mistake.
 *
 * Those with the same cause are, as a bias that is added once per rank is in every layer. A tensor
 * without a cause of its own belongs to a mistake that is known when that explains why it is wrong:
 *
 *     the same tensor of another layer or step has the cause
 *     a weight is held in another arrangement: everything that reads it, and what it becomes
 *     heads in another arrangement: all that attention computes from them
 *     another dropout mask in the backward pass: what was computed again from it
 *     shifted targets: which token losses the mean counts
 *
 * or comes later: in a step after one that was wrong, whose optimizer state or padding, which
 * is not written down, is wrong too. What is left is one mistake per kind of tensor, and where
 * inputs are missing, per region that what is missing may share. */
#include <ctype.h>

#include "causes/findings_parts.h"

/* Names are alike but for the step and the layer's number. */
static bool same_kind(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        while (isdigit((unsigned char)*a)) a++;
        while (isdigit((unsigned char)*b)) b++;
        if (*a != *b) return false;
        if (*a == '\0') return true;
    }
    return *a == *b;
}

/* ... or made by the same operation of the update. */
static bool alike(const ls_graph *graph, const ls_judged *a, const ls_judged *b)
{
    const ls_graph_node *x = &graph->nodes[a->golden->node], *y = &graph->nodes[b->golden->node];
    return same_kind(x->name, y->name) || (x->phase == LS_GRAPH_UPDATE && x->make == y->make);
}

static bool may_be(const ls_suspicion *suspicion, ls_cause cause)
{
    for (size_t i = 0; i < suspicion->also && i < LS_ALSO; i++)
        if (suspicion->others[i] == cause) return true;
    return suspicion->cause == cause;
}

/* ---- consequences ---- */

static bool has_alike(const struct ls_check *check, const ls_finding *finding,
                      const ls_judged *root)
{
    for (size_t i = 0; i < finding->count; i++)
        if (alike(check->graph, finding->tensors[i], root)) return true;
    return false;
}

static bool share_parameter(const struct ls_check *check, const ls_finding *finding,
                            const ls_judged *root)
{
    size_t count, others;
    const int *mine = ls_check_reads(check, root->golden->node, &count);
    for (size_t i = 0; i < finding->count; i++) {
        const int *theirs = ls_check_reads(check, finding->tensors[i]->golden->node, &others);
        for (size_t k = 0; k < count * others; k++)
            if (mine[k / others] == theirs[k % others]) return true;
    }
    return false;
}

/* Both have gradients from one embedding, as of the rows that are added up to it: what is left out
 * of the one is left out of the other. A tied embedding's use as head is another place. */
static bool share_embedding(const struct ls_check *check, const ls_finding *finding,
                            const ls_judged *root)
{
    const ls_graph *graph = check->graph;
    const int own = ls_check_embedding_of(graph, &graph->nodes[root->golden->node]);
    for (size_t i = 0; own >= 0 && i < finding->count; i++)
        if (ls_check_embedding_of(graph, &graph->nodes[finding->tensors[i]->golden->node]) == own)
            return true;
    return false;
}

/* The mean of token losses that are of other targets: which of them count is the same mistake. */
static bool is_mean_of_targets(const struct ls_check *check, const ls_finding *finding,
                               const ls_judged *root)
{
    const ls_graph_node *mean = &check->graph->nodes[root->golden->node];
    if (mean->make != LS_MAKE_MEAN || finding->suspicion.cause != LS_CAUSE_TARGET_SHIFT)
        return false;
    for (size_t i = 0; i < finding->count; i++)
        if (finding->tensors[i]->golden->node == mean->inputs[0] &&
            finding->tensors[i]->golden->step == root->golden->step)
            return true;
    return false;
}

/* The gradient of a weight that is held in another arrangement, and what reads the weight. */
static bool is_of_weight(const struct ls_check *check, const ls_finding *finding,
                         const ls_judged *root)
{
    const ls_graph_node *b = &check->graph->nodes[root->golden->node];
    for (size_t i = 0; i < finding->count; i++) {
        const ls_graph_node *a = &check->graph->nodes[finding->tensors[i]->golden->node];
        if (a->make == LS_MAKE_PARAM_GRADIENT && ls_graph_param_slot(b, a->params[0]) >= 0)
            return true;
    }
    return false;
}

static bool goes_backward(const struct ls_check *check, const ls_judged *judged)
{
    return check->graph->nodes[judged->golden->node].phase == LS_GRAPH_BACKWARD;
}

/* The heads' outputs, or what goes back through the scores. */
static bool is_of_attention(const ls_graph *graph, const ls_judged *judged)
{
    const ls_graph_node *node = &graph->nodes[judged->golden->node];
    if (node->make != LS_MAKE_GRADIENT) return node->make == LS_MAKE_HEADS;
    const ls_point point = graph->nodes[node->of].point;
    return point == LS_POINT_QUERY || point == LS_POINT_KEY || point == LS_POINT_VALUE;
}

/* What attention reads or gives is arranged otherwise: all that it computes. */
static bool arranges_attention(const struct ls_check *check, const ls_finding *finding,
                               const ls_judged *root)
{
    const ls_graph *graph = check->graph;
    const ls_graph_node *node = &graph->nodes[root->golden->node];
    const bool probabilities =
        node->make == LS_MAKE_GRADIENT && graph->nodes[node->of].make == LS_MAKE_PROBABILITIES;
    if (!probabilities && !is_of_attention(graph, root)) return false;
    for (size_t i = 0; i < finding->count; i++)
        if (is_of_attention(graph, finding->tensors[i])) return true;
    return false;
}

static bool explains(const struct ls_check *check, const ls_finding *finding, const ls_judged *root)
{
    if (has_alike(check, finding, root)) return true;
    switch (ls_mistake_of(finding->suspicion.cause)->reach) {
    case LS_REACH_ARRANGEMENT:
        return share_parameter(check, finding, root) || is_of_weight(check, finding, root) ||
               arranges_attention(check, finding, root);
    case LS_REACH_PARAMETER:
        return share_parameter(check, finding, root);
    case LS_REACH_ROWS:
        return share_embedding(check, finding, root);
    case LS_REACH_ATTENTION: /* the heads' outputs are made of the same probabilities */
        return is_of_attention(check->graph, root);
    case LS_REACH_BACKWARD:
        return goes_backward(check, finding->tensor) && goes_backward(check, root) &&
               finding->tensor->golden->step == root->golden->step;
    case LS_REACH_ALIKE:
        break;
    }
    return false;
}

/* Inputs of both are missing, what is missing before one has a cause, and of the other nothing more
 * is known: it may well be the same. */
static bool may_follow(const ls_finding *finding, const ls_judged *root,
                       const ls_suspicion *suspicion)
{
    return suspicion->cut_short && root->local == LS_LOCAL_UNKNOWN &&
           finding->tensor->local == LS_LOCAL_UNKNOWN && finding->n_missing > 0 &&
           root->golden->step == finding->tensor->golden->step;
}

bool ls_findings_come_before(const ls_findings *findings, const ls_judged *root,
                             const ls_suspicion *suspicion)
{
    return suspicion->cause == LS_CAUSE_NONE && findings->count > 0 &&
           findings->list[0].tensor->golden->step < root->golden->step;
}

/* ---- one mistake ---- */

/* a is a more specific form of b. */
static bool includes(ls_cause a, ls_cause b)
{
    return b != LS_CAUSE_NONE && ls_mistake_of(a)->includes == b;
}

static bool are_one(ls_cause a, ls_cause b)
{
    return a == b || includes(a, b) || includes(b, a);
}

static bool is_partial(ls_cause cause)
{
    return ls_mistake_of(cause)->reach == LS_REACH_ROWS;
}

/* A cause that fits a root no less than the one that was named makes one mistake of two. */
static ls_finding *same_cause(const ls_findings *findings, const ls_suspicion *suspicion)
{
    ls_finding *could_be = NULL;
    for (size_t i = 0; i < findings->count; i++) {
        ls_finding *finding = &findings->list[i];
        const ls_cause cause = finding->suspicion.cause;
        if (cause == LS_CAUSE_NONE) continue;
        if (are_one(cause, suspicion->cause)) return finding;
        if (!could_be && may_be(suspicion, cause)) could_be = finding;
    }
    return could_be;
}

ls_finding *ls_findings_group(const ls_findings *findings, const ls_judged *root,
                              const ls_suspicion *suspicion, bool examined)
{
    const struct ls_check *check = findings->of->inside;
    if (suspicion->cause != LS_CAUSE_NONE) {
        ls_finding *same = same_cause(findings, suspicion);
        for (size_t i = 0; i < findings->count && !same; i++)
            if (is_partial(suspicion->cause) && is_partial(findings->list[i].suspicion.cause) &&
                share_embedding(check, &findings->list[i], root))
                same = &findings->list[i];
            else if (suspicion->cause == LS_CAUSE_TARGET_SET &&
                     is_mean_of_targets(check, &findings->list[i], root))
                same = &findings->list[i];
        return same;
    }
    for (size_t i = 0; i < findings->count; i++) {
        ls_finding *finding = &findings->list[i];
        if (finding->suspicion.cause != LS_CAUSE_NONE &&
            (explains(check, finding, root) || may_follow(finding, root, suspicion)))
            return finding;
    }
    for (size_t i = 0; i < findings->count; i++) {
        ls_finding *finding = &findings->list[i];
        if ((finding->suspicion.cause == LS_CAUSE_NONE || !examined) &&
            alike(check->graph, finding->tensor, root))
            return finding;
    }
    return NULL;
}

ls_finding *ls_findings_explaining(const ls_findings *findings, const ls_finding *unnamed)
{
    for (size_t i = 0; i < findings->count; i++) {
        ls_finding *finding = &findings->list[i];
        bool all = finding->suspicion.cause != LS_CAUSE_NONE;
        for (size_t k = 0; all && k < unnamed->count; k++)
            all = explains(findings->of->inside, finding, unnamed->tensors[k]);
        if (all) return finding;
    }
    return NULL;
}

static bool lacks(const ls_finding *finding, const ls_golden_tensor *tensor)
{
    for (size_t i = 0; i < finding->n_missing; i++)
        if (finding->missing[i] == tensor) return true;
    return false;
}

ls_finding *ls_findings_share_missing(const ls_findings *findings, const ls_finding *other)
{
    for (size_t i = 0; i < findings->count; i++) {
        ls_finding *finding = &findings->list[i];
        size_t both = 0;
        if (finding->suspicion.cause != LS_CAUSE_NONE) continue;
        for (size_t k = 0; k < finding->n_missing; k++)
            if (lacks(other, finding->missing[k])) both++;
        if (both == 0) continue;
        both = 0;
        for (size_t k = 0; k < finding->n_missing; k++)
            if (lacks(other, finding->missing[k])) finding->missing[both++] = finding->missing[k];
        finding->n_missing = both;
        return finding;
    }
    return NULL;
}
