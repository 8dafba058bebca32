/* cause.c - the mistakes' names, and the search: which hypothesis explains a tensor. */
#include "causes/cause.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "causes/cause_parts.h"

/* Rank: the lower, the more specific. Where several explain a tensor the lowest is named. */
static const struct {
    const char *key, *text;
    int rank;
} causes[LS_CAUSES] = {
    [LS_CAUSE_NONE] = {"none", "no known cause", 99},
    [LS_CAUSE_BIAS_PER_RANK] = {"bias-per-rank", "bias added once per rank", 4},
    [LS_CAUSE_BIAS_MISSING] = {"bias-missing", "bias not added", 5},
    [LS_CAUSE_NOT_REDUCED] = {"not-reduced", "partial sums not reduced", 8},
    [LS_CAUSE_REDUCED_TWICE] = {"reduced-twice", "reduced twice", 21},
    [LS_CAUSE_AVERAGED] = {"averaged", "averaged instead of summed", 22},
    [LS_CAUSE_REPLICATED_GRADIENT] = {"replicated-gradient",
                                      "gradient of a replicated parameter not reduced", 7},
    [LS_CAUSE_TIED_ONE_SIDE] = {"tied-one-side", "tied embedding reduced on one side only", 6},
    [LS_CAUSE_SHARD_ORDER] = {"shard-order", "shards in the wrong order", 18},
    [LS_CAUSE_INTERLEAVED] = {"interleaved", "gate and up, or q, k and v, interleaved differently",
                              16},
    [LS_CAUSE_TRANSPOSED] = {"transposed", "transposed", 17},
    [LS_CAUSE_CAUSAL_MASK] = {"causal-mask", "causal mask off by one or absent", 12},
    [LS_CAUSE_TARGET_SHIFT] = {"target-shift", "targets shifted twice, or not at all", 10},
    [LS_CAUSE_PADDED_VOCABULARY] = {"padded-vocabulary", "padded vocabulary inside the softmax",
                                    11},
    [LS_CAUSE_SCORE_SCALE] = {"score-scale", "another scale of the attention scores", 13},
    [LS_CAUSE_GELU_VARIANT] = {"gelu-variant", "another activation function", 14},
    [LS_CAUSE_NORM_EPSILON] = {"norm-epsilon", "another epsilon in a norm", 15},
    [LS_CAUSE_MEAN_OF_MEANS] = {"mean-of-means", "mean of micro-batch or rank means", 9},
    [LS_CAUSE_CLIPPING_PER_RANK] = {"clipping-per-rank", "norm clipping per rank", 3},
    [LS_CAUSE_REPLICAS_COUNTED] = {"replicas-counted",
                                   "the norm counts replicated parameters once per rank", 2},
    [LS_CAUSE_UPDATE_TWICE] = {"update-twice", "update applied twice", 1},
    [LS_CAUSE_DROPOUT_MASK] = {"dropout-mask", "another dropout mask", 20},
    [LS_CAUSE_TARGET_COUNT] = {"target-count", "loss divided by another number than the targets'",
                               9},
    [LS_CAUSE_NOT_CLIPPED] = {"not-clipped", "gradients not scaled to the largest norm", 3},
    [LS_CAUSE_CLIPPING_EPSILON] = {"clipping-epsilon", "an epsilon added to the norm in clipping",
                                   4},
    [LS_CAUSE_CLIPPED_BY_VALUE] = {"clipped-by-value", "clipped element by element", 2},
    [LS_CAUSE_CLIPPED_ELSEWHERE] = {"clipped-elsewhere", "gradients clipped to another norm", 5},
    [LS_CAUSE_NEVER_COMPUTED] = {"never-computed", "gradient never computed", 0},
    [LS_CAUSE_FACTOR] = {"factor", "a plain factor", 23},
    [LS_CAUSE_OPTIMIZER_VARIANT] = {"optimizer-variant", "another formula of the optimizer's step",
                                    4},
    [LS_CAUSE_VARIANCE_UNBIASED] = {"variance-unbiased", "variance divided by D - 1", 14},
    [LS_CAUSE_RESIDUAL] = {"residual", "residual connection taken elsewhere or left out", 6},
    [LS_CAUSE_HALO] = {"halo-off-by-one", "halo off by one", 4},
    [LS_CAUSE_HALO_CORNER] = {"halo-corner-missing", "halo corner missing", 2},
    [LS_CAUSE_HALO_MISSING] = {"halo-missing", "halo missing", 3},
    [LS_CAUSE_DY_HALO] = {"dy-halo-missing", "dy halo missing", 3},
    [LS_CAUSE_LOCAL_STATISTICS] = {"local-statistics", "local batch-norm statistics", 5},
    [LS_CAUSE_AVERAGED_STATISTICS] = {"averaged-statistics",
                                      "batch-norm statistics averaged with unequal counts", 6},
    [LS_CAUSE_WEIGHT_GRADIENT] = {"weight-gradient-not-reduced", "weight gradient not reduced", 7},
    [LS_CAUSE_RUNNING] = {"running-statistics", "running statistics moved by another rule", 8},
    [LS_CAUSE_POOLING] = {"pooling", "another token, divisor or maximum in pooling", 9},
    [LS_CAUSE_KERNEL_FLIPPED] = {"kernel-flipped", "kernels turned by half a turn", 9},
    [LS_CAUSE_POSITIONS] = {"positions",
                            "positions that begin again or elsewhere, or rotary pairs otherwise",
                            18},
    [LS_CAUSE_PADDED_SIDE] = {"padded-side", "windows padded on the other side", 9},
    [LS_CAUSE_RESPONSE_ALPHA] = {"response-alpha", "response norm's alpha divided by its span", 9},
    [LS_CAUSE_ROTARY] = {"rotary-angles", "rotary angles by another rule", 19},
    [LS_CAUSE_ATTENTION_SET] = {"attention-set", "attention sees another set of keys", 13},
    [LS_CAUSE_TARGET_SET] = {"target-set", "targets lost, or counted though ignored", 10},
    [LS_CAUSE_NORM_FORM] = {"norm-form", "a norm with another mean or weight", 14},
    [LS_CAUSE_LOST_TERM] = {"lost-term", "a term of a gradient left out", 14},
    [LS_CAUSE_ASSIGNED] = {"assigned", "gradient assigned where it should be added", 9},
    [LS_CAUSE_WRONG_PARAM] = {"wrong-parameter", "another parameter, or another rank's shard", 15},
    [LS_CAUSE_LOCAL_MAXIMUM] = {"local-maximum", "a vocabulary shard's own maximum in the softmax",
                                11},
    [LS_CAUSE_POSITION_BIAS] = {"position-bias", "scores biased by distance", 13},
    [LS_CAUSE_OTHER_SEQUENCE] = {"other-sequence", "queries, keys or values of another sequence",
                                 16},
    [LS_CAUSE_CORRUPTED_ROW] = {"corrupted-row", "one row wrong, all others right", 98},
};

const char *ls_cause_text(ls_cause cause)
{
    return cause >= 0 && cause < LS_CAUSES ? causes[cause].text : "?";
}

const char *ls_cause_key(ls_cause cause)
{
    return cause >= 0 && cause < LS_CAUSES ? causes[cause].key : "?";
}

/* ---- the search ---- */

void ls_search_take(ls_search *search, ls_cause cause, const char *evidence, double left,
                    double bound)
{
    const bool first = !search->fits[cause];
    search->fits[cause] = true;
    if (search->best.cause == cause && !first) return;
    if (search->best.cause != LS_CAUSE_NONE &&
        causes[search->best.cause].rank <= causes[cause].rank)
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
                                       " %s;", causes[c].text);
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

/* Whether a cause needs several ranks or micro-batches. */
static bool is_about_ranks(int cause)
{
    return cause == LS_CAUSE_REDUCED_TWICE || cause == LS_CAUSE_AVERAGED ||
           cause == LS_CAUSE_NOT_REDUCED || cause == LS_CAUSE_BIAS_PER_RANK ||
           cause == LS_CAUSE_REPLICATED_GRADIENT || cause == LS_CAUSE_MEAN_OF_MEANS ||
           cause == LS_CAUSE_REPLICAS_COUNTED || cause == LS_CAUSE_CLIPPING_PER_RANK;
}

/* Whether the candidate, or else the golden run, says that there are such. */
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
        if (is_about_ranks(c) && !states_ranks(of)) continue;
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
