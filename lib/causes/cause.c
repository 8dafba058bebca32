/* cause.c - the search: which hypothesis explains a tensor. */
#include "causes/cause.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "causes/cause_parts.h"

void ls_search_take(ls_search *search, ls_cause cause, const char *evidence, double left,
                    double bound)
{
    const bool first = !search->fits[cause];
    search->fits[cause] = true;
    if (search->best.cause == cause && !first) return;
    if (search->best.cause != LS_CAUSE_NONE &&
        ls_mistake_of(search->best.cause)->order <= ls_mistake_of(cause)->order)
        return;
    search->best.cause = cause;
    char ending[80];
    snprintf(ending, sizeof ending, "; leaves at most %.2g (bound %.2g)", left, bound);
    const size_t room = sizeof search->best.evidence - strlen(ending) - strlen(search->whose);
    snprintf(search->best.evidence, sizeof search->best.evidence, "%s%.*s%s", search->whose,
             (int)room - 1, evidence, ending);
}

/* Of what every reader sends back. */
static double work_of_gradient(const ls_graph *graph, const ls_graph_node *node, double n)
{
    const double S = (double)graph->S, tokens = (double)graph->B * S;
    double work = 8 * n;
    for (int r = node->of + 1; r < (int)graph->count; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (ls_graph_back_slot(reader, node->of) < 0) continue;
        const double made = (double)ls_graph_elements(graph, r) / tokens;
        const bool attention =
            reader->make == LS_MAKE_PROBABILITIES || reader->make == LS_MAKE_HEADS;
        const bool product = reader->make == LS_MAKE_LINEAR || reader->make == LS_MAKE_LOGITS ||
                             reader->make == LS_MAKE_LINEAR_TURNED ||
                             reader->make == LS_MAKE_POOLED;
        work += attention ? 4 * tokens * S * (double)graph->table->config.d_model
                : product ? n * made
                          : 8 * n;
    }
    return work;
}

/* Multiplications of one evaluation, roughly. */
static double work_of(const ls_graph *graph, int place)
{
    const ls_graph_node *node = &graph->nodes[place];
    const ls_config *config = &graph->table->config;
    if (config->kind == LS_MODEL_NET) return ls_net_work_of(graph, place);
    const double n = (double)ls_graph_elements(graph, place), S = (double)graph->S;
    const double D = (double)config->d_model, tokens = (double)graph->B * S;
    switch (node->make) {
    case LS_MAKE_LINEAR:
    case LS_MAKE_LINEAR_TURNED:
    case LS_MAKE_LOGITS:
    case LS_MAKE_POOLED:
        return n * (double)ls_graph_elements(graph, node->inputs[0]) / tokens;
    case LS_MAKE_PROBABILITIES:
    case LS_MAKE_HEADS:
        return 2 * tokens * S * D;
    case LS_MAKE_PARAM_GRADIENT:
        return n * tokens;
    case LS_MAKE_GRADIENT:
        return work_of_gradient(graph, node, n);
    default:
        return 8 * n;
    }
}

ls_status ls_search_compute(ls_search *search, int node, const ls_operands *operands,
                            double *values, double *bound, bool *ret_done)
{
    const double work = work_of(search->graph, node);
    *ret_done = work <= search->work;
    if (!*ret_done) {
        search->cut_short = true;
        return LS_OK;
    }
    search->work -= work;
    return ls_operation_evaluate(operands, node, search->of->precision, values, bound);
}

ls_status ls_search_evaluate(ls_search *search, ls_cause cause, const ls_operands *operands,
                             const char *evidence)
{
    ls_status status = LS_OK;
    bool done;
    LS_TRY(ls_search_compute(search, search->of->node, operands, search->trial, search->trial_bound,
                             &done));
    if (done) ls_search_propose(search, cause, search->trial, search->trial_bound, evidence);
exit:
    return status;
}

const char *ls_search_size(const ls_search *search, size_t k, char text[64])
{
    const ls_layout *l =
        search->of->whole && search->of->whole->has_layout ? &search->of->whole->layout : NULL;
    text[0] = 0;
    if (!l || k < 2) return text;
    const struct {
        size_t size;
        const char *name;
    } axes[] = {{(size_t)l->tp, "tp"},
                {(size_t)l->channels, "channel"},
                {(size_t)l->down * (size_t)l->across, "spatial"},
                {(size_t)l->dp, "dp"},
                {(size_t)l->pp, "pp"},
                {(size_t)l->micro_batches, "micro-batches"},
                {(size_t)l->dp * (size_t)l->micro_batches, "dp x micro-batches"},
                {(size_t)l->dp * (size_t)l->tp, "dp x tp"}};
    size_t length = 0;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        if (axes[i].size != k || length > 40) continue;
        const int more =
            snprintf(text + length, 64 - length, "%s%s", length ? " or " : " = ", axes[i].name);
        length += (size_t)more;
        if (i == 5 && length) break; /* a product with 1 is no news */
    }
    return text;
}

bool ls_search_concerns(const ls_search *search, unsigned kinds)
{
    const ls_graph_node *node = search->node;
    if (kinds >> node->make & 1) return true;
    for (size_t r = 0; r < search->graph->count; r++) {
        const ls_graph_node *reader = &search->graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (!(kinds >> reader->make & 1)) continue;
        if (node->make == LS_MAKE_GRADIENT && ls_graph_back_slot(reader, node->of) >= 0)
            return true;
        if (node->make == LS_MAKE_PARAM_GRADIENT && (node->of < 0 || node->of == (int)r) &&
            ls_graph_param_slot(reader, node->params[0]) >= 0)
            return true;
    }
    return false;
}

/* What looks at the node itself first: what looks before it may use up the work. */
static ls_cause_family *const families[] = {
    ls_cause_norms,       ls_cause_clips,       ls_cause_two_updates, ls_cause_sums,
    ls_cause_uses,        ls_cause_factors,     ls_cause_batch,       ls_cause_formulas,
    ls_cause_interleaved, ls_cause_arrangement, ls_cause_dropout,     ls_cause_replicas,
    ls_cause_residuals,   ls_cause_every_sum,   ls_cause_updates};

static ls_cause_family *const net_families[] = {
    ls_cause_norms,          ls_cause_clips,       ls_cause_two_updates, ls_cause_net_halo,
    ls_cause_net_statistics, ls_cause_uses,        ls_cause_factors,     ls_cause_net_sums,
    ls_cause_batch,          ls_cause_net_formula, ls_cause_dropout,     ls_cause_replicas,
    ls_cause_updates};

static ls_status try_all(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->config->kind == LS_MODEL_NET) {
        for (size_t i = 0; i < sizeof net_families / sizeof *net_families; i++)
            LS_TRY(net_families[i](search));
        goto exit;
    }
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) LS_TRY(families[i](search));
exit:
    return status;
}

/* Whether ranks have different tokens of it, as in sequence parallelism: what they left out of a
 * sum is then not the same in all of its parts. */
static bool is_cut_by_tokens(const ls_search *search)
{
    const ls_candidate_tensor *given = search->of->as_given;
    if (!strstr(search->node->dim_names, "S[sp]")) return false;
    for (size_t b = 0; b < given->n_blocks; b++)
        if (given->blocks[b].runs[1].count < search->node->dims[1]) return true;
    return false;
}

/* Ranks that hold something wrong where others do not, or otherwise: each is a candidate. */
static ls_status try_ranks(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_candidate_tensor *given = search->of->as_given;
    enum { MOST = 64 };
    bool wrong[MOST] = {false}, there[MOST] = {false};
    int ranks = 0, wrong_ranks = 0;
    double *values = NULL;
    unsigned char *held = NULL;
    if (!given || !(given->replicas_differ || is_cut_by_tokens(search))) goto exit;
    values = malloc(search->n * sizeof *values);
    held = malloc(search->n);
    if (!values || !held) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for what a rank holds");
    for (size_t b = 0; b < given->n_blocks; b++)
        if (given->blocks[b].rank >= 0 && given->blocks[b].rank < MOST)
            there[given->blocks[b].rank] = true;
    for (int rank = 0; rank < MOST; rank++) {
        if (!there[rank]) continue;
        ls_rank_tensor(search, rank, values, held, &wrong[rank]);
        ranks++, wrong_ranks += wrong[rank];
    }
    search->candidate = values;
    search->held = held;
    for (int rank = 0, tried = 0; rank < MOST && tried < 4 && !search->best.cause; rank++) {
        if (!wrong[rank]) continue;
        tried++;
        ls_rank_tensor(search, rank, values, held, &wrong[rank]);
        snprintf(search->whose, sizeof search->whose, "rank %d (%d of %d ranks wrong): ", rank,
                 wrong_ranks, ranks);
        LS_TRY(try_all(search));
    }
exit:
    search->candidate = search->of->candidate;
    search->held = NULL;
    search->whose[0] = 0; /* what is tried next is nobody's own */
    free(held);
    free(values);
    return status;
}

static size_t count_wrong(const ls_search *search)
{
    size_t wrong = 0;
    for (size_t i = 0; i < search->n; i++)
        if (!(fabs(search->candidate[i] - search->of->right[i]) <= search->of->bound[i])) wrong++;
    return wrong;
}

/* NaN and infinity explain nothing, and nothing explains them. */
static bool is_finite(const ls_search *search)
{
    for (size_t i = 0; i < search->n; i++)
        if (!isfinite(search->candidate[i]) || !isfinite(search->of->right[i])) return false;
    return true;
}

/* One number that several hypotheses explain chooses among none: they are listed. So is what one
 * explains that may lie anywhere before it, unless another tensor has that cause. The same holds of
 * a few wrong elements of a parameter. */
static void weigh_one_number(ls_search *search, size_t wrong)
{
    ls_suspicion *best = &search->best;
    size_t causes_that_fit = 0, length;
    for (int c = 1; c < LS_CAUSES; c++) causes_that_fit += search->fits[c];
    if ((search->n > 1 && !search->scant) || best->cause == LS_CAUSE_NONE) return;
    if (search->n > 1 && best->cause == search->of->hint) return;
    if (search->n > 1 && causes_that_fit == 1 && wrong > 1) return;
    if (causes_that_fit == 1 && (search->of->own_inputs || best->cause == search->of->hint)) return;
    best->cause = LS_CAUSE_NONE;
    if (wrong > 1)
        length = (size_t)snprintf(best->evidence, sizeof best->evidence,
                                  "%zu wrong elements choose among no mistakes; they are "
                                  "consistent with:",
                                  wrong);
    else
        length = (size_t)snprintf(best->evidence, sizeof best->evidence,
                                  "one number chooses among no mistakes; it is consistent with:");
    for (int c = 1; c < LS_CAUSES && length < sizeof best->evidence; c++)
        if (search->fits[c])
            length += (size_t)snprintf(best->evidence + length, sizeof best->evidence - length,
                                       " %s;", ls_mistake_of((ls_cause)c)->sentence);
    if (length < sizeof best->evidence) best->evidence[length - 1] = 0;
    memset(search->fits, 0, sizeof search->fits);
}

static ls_status search_all(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_case *of = search->of;
    const size_t wrong = count_wrong(search);
    enum { FEW = 4 };
    search->scant =
        search->node->make == LS_MAKE_UPDATED && !of->own_inputs && wrong > 0 && wrong < FEW;
    if (wrong > 0) {
        LS_TRY(try_all(search));
        if (search->best.cause == LS_CAUSE_NONE && search->only_hint && !of->brief &&
            !of->own_inputs) {
            search->only_hint = false;
            LS_TRY(try_all(search));
        }
    }
    if (search->best.cause == LS_CAUSE_NONE) LS_TRY(try_ranks(search));
    if (search->best.cause == LS_CAUSE_NONE) LS_TRY(ls_cause_replicas(search));
    if (search->best.cause == LS_CAUSE_NONE) LS_TRY(ls_cause_corrupted(search));
    if (search->best.cause == LS_CAUSE_NONE && search->cut_short)
        snprintf(search->best.evidence, sizeof search->best.evidence,
                 "not every hypothesis was tried: there is a limit to the work");
    weigh_one_number(search, wrong);
exit:
    return status;
}

/* Whether the candidate, or else the golden run, has several ranks or micro-batches. */
static bool states_ranks(const ls_case *of)
{
    const ls_layout *stated = of->whole && of->whole->has_layout ? &of->whole->layout
                              : of->golden                       ? &of->golden->run.layout
                                                                 : NULL;
    return stated && (ls_layout_ranks(stated) > 1 || stated->micro_batches > 1);
}

/* Work of a search: some seconds. */
#define WORK 4e9

ls_status ls_cause_find(const ls_case *of, ls_suspicion *ret_suspicion)
{
    ls_status status = LS_OK;
    const ls_graph *graph = of->operands.graph;
    ls_case mine = *of;
    ls_search search = {.of = &mine,
                        .graph = graph,
                        .node = &graph->nodes[of->node],
                        .config = &graph->table->config,
                        .n = ls_graph_elements(graph, of->node),
                        .candidate = of->candidate,
                        .work = of->budget ? fmin(*of->budget, WORK) : WORK};
    const double begun = search.work;
    if (!is_finite(&search)) {
        memset(ret_suspicion, 0, sizeof *ret_suspicion);
        return LS_OK;
    }
    search.trial = malloc(2 * search.n * sizeof *search.trial);
    if (!search.trial)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to find the cause of %s", search.node->name);
    search.trial_bound = search.trial + search.n;
    search.values = calloc(graph->count, sizeof *search.values);
    search.loaded = calloc(graph->count, sizeof *search.loaded);
    if (!search.values || !search.loaded)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to find the cause of %s", search.node->name);
    memcpy(search.values, of->operands.values, graph->count * sizeof *search.values);
    mine.operands.values = search.values;
    search.only_hint = of->brief || of->hint != LS_CAUSE_NONE;
    LS_TRY(search_all(&search));
    for (int c = 1; c < LS_CAUSES; c++) {
        if (!search.fits[c] || c == (int)search.best.cause || c == LS_CAUSE_FACTOR) continue;
        if (ls_mistake_of((ls_cause)c)->needs_ranks && !states_ranks(of)) continue;
        if (search.best.also < LS_ALSO) search.best.others[search.best.also] = (ls_cause)c;
        search.best.also++;
    }
    search.best.cut_short = search.cut_short && search.best.cause == LS_CAUSE_NONE;
    *ret_suspicion = search.best;
exit:
    if (of->budget) *of->budget -= begun - search.work;
    for (size_t i = 0; search.loaded && i < graph->count; i++) free(search.loaded[i]);
    free(search.loaded);
    free(search.values);
    free(search.trial);
    ls_squares_destroy(&search.squares);
    return status;
}
