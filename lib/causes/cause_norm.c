/* cause_norm.c - another norm of the gradients than that of all parameters, each once: of what one
 * rank or stage holds; with what several ranks hold counted by each of them; with padded rows.
 * Asked for at the norm itself, which is one number, and at the gradients that are scaled by it.
 *
 * Squares are taken once per granule (cause_squares.c); a norm is then a sum of some dozens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "base/allocate.h"
#include "base/append.h"
#include "causes/cause_norm.h"
#include "causes/cause_targets.h"

/* Which parameters a rank holds: those of tp rank `rank` of `tp`, of stage `stage` of `stages`. */
typedef struct held {
    int tp, rank, stages, stage;
} held;

typedef struct norms {
    ls_search *search;
    const ls_squares *squares;
    double most; /* the largest norm allowed */
    double
        implied; /* by which norm the candidate's gradient was scaled; 0: it is no such scaling */
} norms;

/* A legal layout cuts every parameter evenly, but for shared key/value heads. */
static bool is_legal(const ls_search *search, int tp)
{
    for (size_t p = 0; p < search->graph->table->count; p++) {
        const ls_param *param = &search->graph->table->params[p];
        if (param->cut >= 0 && param->kind != LS_GRANULE_KV_HEADS &&
            param->axis.granules % (size_t)tp)
            return false;
    }
    return true;
}

/* Of a parameter, what tp rank `rank` of `tp` holds. */
static double squares_of(const norms *n, size_t place, int tp, int rank)
{
    const ls_param *param = &n->search->graph->table->params[place];
    const double *granules = n->squares->granules + n->squares->first[place];
    const size_t G = n->squares->first[place + 1] - n->squares->first[place];
    const size_t T = (size_t)tp, r = (size_t)rank;
    double sum = 0;
    if (param->cut < 0) return granules[0];
    for (size_t g = r * G / T; g < ((r + 1) * G + T - 1) / T; g++) sum += granules[g];
    return sum;
}

static bool in_stage(const ls_param *param, const held *h, const size_t *bounds)
{
    if (h->stages < 2) return true;
    if (param->stage == LS_STAGE_FIRST)
        return h->stage == 0 || (param->also_last && h->stage == h->stages - 1);
    if (param->stage == LS_STAGE_LAST) return h->stage == h->stages - 1;
    return param->layer >= bounds[h->stage] && param->layer < bounds[h->stage + 1];
}

static double norm_of(const norms *n, const held *h)
{
    ls_layout layout = ls_layout_serial();
    size_t bounds[LS_MAX_STAGES + 1] = {0};
    double sum = 0;
    layout.pp = h->stages;
    if (h->stages > 1) ls_layout_stage_bounds(&layout, n->search->config->layers, bounds);
    for (size_t p = 0; p < n->search->graph->table->count; p++)
        if (in_stage(&n->search->graph->table->params[p], h, bounds))
            sum += squares_of(n, p, h->tp, h->rank);
    return sqrt(sum);
}

/* All tp ranks' squares together, what several hold counted by each; tied: a tied embedding on its
 * first and on its last stage. */
static double counted(const norms *n, int tp, bool tied)
{
    double sum = 0;
    for (size_t p = 0; p < n->search->graph->table->count; p++) {
        const bool both = tied && n->search->graph->table->params[p].also_last;
        for (int rank = 0; rank < tp; rank++) sum += (both ? 2 : 1) * squares_of(n, p, tp, rank);
    }
    return sum;
}

/* ---- one hypothesis ---- */

/* By which norm the candidate is scaled, from its projection on the gradient. */
static double implied_norm(const ls_search *search)
{
    const double *g = search->of->operands.values[search->node->inputs[0]];
    const double ratio = ls_search_ratio(search, g);
    return ratio > 0 ? search->of->operands.max_norm / ratio : 0;
}

/* One number, many hypotheses: it must be as near as sums come that are done with care. */
static double bound_of(const ls_search *search, double norm)
{
    const double terms = (double)ls_param_table_elements(search->graph->table);
    return (16 + sqrt(terms) / 16) * search->of->precision.u * norm;
}

ls_status ls_search_norm_is_right(ls_search *search, bool *ret_right)
{
    ls_status status = LS_OK;
    norms n = {.search = search};
    double given;
    const ls_candidate *whole = search->of->whole;
    const ls_candidate_tensor *mine =
        whole ? ls_candidate_find(whole, search->of->step, search->node->inputs[1]) : NULL;
    *ret_right = false;
    if (!mine) goto exit;
    LS_TRY(ls_squares_take(search, &n.squares));
    if (!n.squares->there) goto exit;
    ls_widen(LS_F64, &given, mine->dtype, mine->values, 1);
    const double norm = sqrt(counted(&n, 1, false));
    *ret_right = fabs(given - norm) <= bound_of(search, norm);
exit:
    return status;
}

/* Proposes a norm where it is asked for: as the norm itself, or as what a gradient is scaled by. */
static ls_status propose_norm(norms *n, ls_cause cause, double norm, const char *text)
{
    ls_status status = LS_OK;
    ls_search *search = n->search;
    ls_change change = {0};
    double *value;
    if (search->node->make == LS_MAKE_GRADIENT_NORM) {
        const double bound = bound_of(search, norm);
        if (fabs(search->candidate[0] - norm) <= bound)
            ls_search_propose(search, cause, &norm, &bound, text);
        return LS_OK;
    }
    if (norm <= n->most) return LS_OK; /* that would not scale at all */
    if (!(fabs(norm - n->implied) <= (1e-3 + 4 * search->of->precision.u) * norm)) return LS_OK;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(ls_change_value(&change, search->node->inputs[1], &value));
    *value = norm;
    LS_TRY(ls_search_evaluate(search, cause, &change.operands, text));
exit:
    ls_change_end(&change);
    return status;
}

/* ---- of one rank ---- */

static void describe(const held *h, char *text, size_t size)
{
    char of_stage[64] = "";
    if (h->stages > 1)
        snprintf(of_stage, sizeof of_stage, "%sstage %d of pp %d", h->tp > 1 ? " in " : "",
                 h->stage, h->stages);
    if (h->tp > 1)
        snprintf(text, size, "rank %d of tp %d%s", h->rank, h->tp, of_stage);
    else
        snprintf(text, size, "%s", of_stage);
}

/* Each rank scales what it holds by its own norm: some elements first, then all. */
static void try_shards(norms *n, const double *own, const held *h)
{
    ls_search *search = n->search;
    char text[LS_EVIDENCE];
    const ls_param *param = &search->graph->table->params[search->node->params[0]];
    const double *g = search->of->operands.values[search->node->inputs[0]];
    const double u = search->of->precision.u, tiny = search->of->precision.tiny;
    const size_t inner = param->cut == 1 || param->n_dims == 1 ? 1 : param->dims[1];
    const size_t extent = param->cut == 1 ? param->dims[1] : param->dims[0];
    bool scaled = false;
    for (int whole = 0; whole < 2; whole++) {
        const size_t step = whole || search->n < 64 ? 1 : search->n / 61;
        if (search->work < (double)(search->n / step)) return;
        search->work -= (double)(search->n / step);
        for (size_t i = 0; i < search->n; i += step) {
            const size_t granule = i / inner % extent / param->axis.granule;
            const size_t rank = granule * (size_t)h->tp / param->axis.granules;
            const double factor = own[rank] > n->most ? n->most / own[rank] : 1;
            if (factor < 1) scaled = true;
            const double bound = 16 * u * fabs(g[i] * factor) + tiny;
            search->trial[i] = g[i] * factor, search->trial_bound[i] = bound;
            if (!(fabs(search->candidate[i] - g[i] * factor) <= bound + search->of->bound[i]))
                return;
        }
    }
    snprintf(text, sizeof text,
             "each of %d tp ranks scales by the norm of its own shards, the first by %.6g / %.6g",
             h->tp, n->most, own[0]);
    if (scaled)
        ls_search_propose(search, LS_CAUSE_CLIPPING_PER_RANK, search->trial, search->trial_bound,
                          text);
}

/* The layouts that may have been: the candidate's where it states one. */
static bool may_be(const ls_search *search, int tp, int pp)
{
    const ls_candidate *whole = search->of->whole;
    if (!whole || !whole->has_layout) return true;
    return (tp == 1 || tp == whole->layout.tp) && (pp == 1 || pp == whole->layout.pp);
}

static ls_status try_own_norms(norms *n)
{
    ls_status status = LS_OK;
    ls_search *search = n->search;
    char text[LS_EVIDENCE], who[128];
    const bool cut = search->node->make == LS_MAKE_CLIPPED &&
                     search->graph->table->params[search->node->params[0]].cut >= 0;
    for (int tp = 1; tp <= LS_NORM_RANKS; tp++) {
        if (!is_legal(search, tp)) continue;
        for (int pp = 1; pp <= LS_NORM_RANKS && pp <= (int)search->config->layers; pp++)
            for (int stage = 0; stage < pp && tp * pp > 1 && may_be(search, tp, pp); stage++) {
                double own[LS_NORM_RANKS];
                held h = {tp, 0, pp, stage};
                for (h.rank = 0; h.rank < tp; h.rank++) {
                    const double norm = own[h.rank] = norm_of(n, &h);
                    describe(&h, who, sizeof who);
                    snprintf(text, sizeof text, "the norm is that of the gradients on %s, %.9g",
                             who, norm);
                    LS_TRY(propose_norm(n, LS_CAUSE_CLIPPING_PER_RANK, norm, text));
                }
                if (cut && tp > 1) try_shards(n, own, &h);
            }
    }
    if (search->node->make == LS_MAKE_CLIPPED) {
        const double norm = sqrt(squares_of(n, (size_t)search->node->params[0], 1, 0));
        snprintf(text, sizeof text, "scaled by the norm of this parameter's gradient alone, %.9g",
                 norm);
        LS_TRY(propose_norm(n, LS_CAUSE_CLIPPING_PER_RANK, norm, text));
    }
    for (int rank = 0; rank < LS_NORM_RANKS; rank++) {
        if (!n->squares->has_file[rank]) continue;
        const double norm = sqrt(n->squares->file[rank]);
        snprintf(text, sizeof text, "the norm is that of the gradients on rank %d, %.9g", rank,
                 norm);
        LS_TRY(propose_norm(n, LS_CAUSE_CLIPPING_PER_RANK, norm, text));
    }
exit:
    return status;
}

/* ---- counted several times ---- */

/* What is replicated over tp, over data-parallel ranks, stages or micro-batches (all of it), and on
 * both ends of a pipeline (tied): any of them together. */
static ls_status try_counted_norms(norms *n)
{
    ls_status status = LS_OK;
    ls_search *search = n->search;
    char text[LS_EVIDENCE], size[64];
    for (int tied = 0; tied < (search->config->tied ? 2 : 1); tied++)
        for (int tp = 1; tp <= LS_NORM_RANKS; tp++) {
            if (!is_legal(search, tp) || !may_be(search, tp, 1)) continue;
            const double once = counted(n, tp, tied);
            for (size_t k = 1; k <= LS_NORM_RANKS; k++) {
                if (k == 1 && tp == 1 && !tied) continue;
                size_t length = ls_append(text, sizeof text, 0, "the norm counts");
                if (tp > 1)
                    length = ls_append(text, sizeof text, length,
                                       " what every tp rank holds once per rank%s (tp %d)",
                                       ls_search_size(search, (size_t)tp, size), tp);
                if (tied)
                    length = ls_append(text, sizeof text, length,
                                       "%s the tied embedding on both of its stages",
                                       tp > 1 ? ", and" : "");
                if (k > 1)
                    ls_append(text, sizeof text, length,
                              "%s everything %zu times%s: sqrt(%zu) times as large",
                              tp > 1 || tied ? ", and" : "", k, ls_search_size(search, k, size), k);
                LS_TRY(propose_norm(n, LS_CAUSE_REPLICAS_COUNTED, sqrt((double)k * once), text));
            }
        }
exit:
    return status;
}

/* ---- with rows that no file holds ---- */

/* exp of the logits, added, of every token that has a target; else 0. */
static void sum_exponentials(const ls_batch *batch, const double *z, size_t V, double *sums)
{
    for (size_t t = 0; t < batch->B * batch->S; t++)
        for (size_t j = 0; batch->targets[t] != LS_IGNORE && j < V; j++)
            sums[t] += exp(z[t * V + j]);
}

/* Of one padded word, whose logit is 0 in each softmax over V + `padded` words: the squares of its
 * row's gradient, the sum of p / targets times what the head reads; and of its bias. */
static double squares_of_padded(const ls_search *search, int logits, const double *sums,
                                size_t padded, double *row)
{
    const ls_graph_node *node = &search->graph->nodes[logits];
    const ls_batch *batch = search->of->operands.batch;
    const double *x = search->values[node->inputs[0]];
    const size_t n = batch->B * batch->S, D = ls_graph_elements(search->graph, node->inputs[0]) / n;
    const double targets = (double)ls_targets_in(search, 0, batch->B);
    double squares = 0, bias = 0;
    memset(row, 0, D * sizeof *row);
    for (size_t t = 0; t < n; t++) {
        if (batch->targets[t] == LS_IGNORE) continue;
        const double dz = 1 / (sums[t] + (double)padded) / targets;
        for (size_t i = 0; i < D; i++) row[i] += dz * x[t * D + i];
        bias += dz;
    }
    for (size_t i = 0; i < D; i++) squares += row[i] * row[i];
    return squares + (node->params[1] >= 0 ? bias * bias : 0);
}

/* Padded words inside the softmax have gradients, which the norm counts. */
static ls_status try_padded_norms(norms *n)
{
    ls_status status = LS_OK;
    ls_search *search = n->search;
    const ls_graph *graph = search->graph;
    const int losses = ls_search_token_loss(search);
    double *sums = NULL, *row = NULL;
    size_t words[LS_PADDINGS];
    char text[LS_EVIDENCE];
    bool there, also;
    if (losses < 0 || !search->of->operands.batch->targets) goto exit;
    const int logits = graph->nodes[losses].inputs[0], x = graph->nodes[logits].inputs[0];
    const bool itself = search->node->make == LS_MAKE_GRADIENT_NORM;
    const double once = counted(n, 1, false);
    /* Some multiplications for each exp; what more squares make is larger. */
    const double work = 8 * (double)ls_graph_elements(graph, logits) +
                        LS_PADDINGS * (double)ls_graph_elements(graph, x);
    if ((itself ? search->candidate[0] : n->implied) <= sqrt(once)) goto exit;
    if (work > search->work) {
        search->cut_short = true;
        goto exit;
    }
    search->work -= work;
    LS_TRY(ls_search_need(search, logits, &there));
    LS_TRY(ls_search_need(search, x, &also));
    if (!there || !also) goto exit;
    LS_NEW(sums, search->of->operands.batch->B * search->of->operands.batch->S);
    LS_ROOM(row, ls_graph_elements(graph, x));
    sum_exponentials(search->of->operands.batch, search->values[logits], search->config->vocab,
                     sums);
    for (size_t i = 0, count = ls_search_paddings(search, words); i < count; i++) {
        const double more = squares_of_padded(search, logits, sums, words[i], row);
        snprintf(text, sizeof text,
                 "the norm counts the gradients of %zu padded words too, which are in the softmax",
                 words[i]);
        LS_TRY(propose_norm(n, LS_CAUSE_PADDED_VOCABULARY, sqrt(once + (double)words[i] * more),
                            text));
    }
exit:
    free(sums), free(row);
    return status;
}

ls_status ls_cause_norms(ls_search *search)
{
    ls_status status = LS_OK;
    norms n = {.search = search, .most = search->of->operands.max_norm};
    const bool clipped = search->node->make == LS_MAKE_CLIPPED && n.most > 0;
    bool known = false; /* the candidate's norm is right: none is counted otherwise */
    if (!clipped && search->node->make != LS_MAKE_GRADIENT_NORM) goto exit;
    LS_TRY(ls_squares_take(search, &n.squares));
    if (!n.squares->there) goto exit;
    if (clipped) n.implied = implied_norm(search);
    LS_TRY(try_own_norms(&n));
    if (clipped) LS_TRY(ls_search_norm_is_right(search, &known));
    if (known) goto exit;
    LS_TRY(try_counted_norms(&n));
    LS_TRY(try_padded_norms(&n));
exit:
    return status;
}
