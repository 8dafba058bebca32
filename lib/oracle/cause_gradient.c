/* cause_gradient.c - the end of a step gone wrong: a norm of what one rank holds, or that counts
 * replicas; factors of such norms; an update that is done twice. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/partition/share.h"
#include "oracle/cause_parts.h"

/* ---- norms ---- */

/* Which elements a rank holds: those of tp rank `rank` of `tp`, of the parameters of stage `stage`
 * of `stages`. rank -1: of all tp ranks together, what several hold counted by each. */
typedef struct held {
    int tp, rank, stages, stage;
    bool tied_twice; /* a tied embedding counts at both ends */
} held;

/* How many of the ranks meant hold granule g of a parameter. */
static int holders(const ls_param *param, const held *h, size_t g)
{
    int count = 0;
    const size_t G = param->axis.granules, tp = (size_t)h->tp;
    for (size_t r = 0; r < tp; r++) {
        if (h->rank >= 0 && r != (size_t)h->rank) continue;
        if (param->cut < 0 || (g >= r * G / tp && g < ((r + 1) * G + tp - 1) / tp)) count++;
    }
    return count;
}

static bool in_stage(const ls_search *search, const ls_param *param, const held *h)
{
    ls_layout layout = ls_layout_serial();
    size_t bounds[LS_MAX_STAGES + 1];
    if (h->stages < 2) return true;
    if (param->stage == LS_STAGE_FIRST)
        return h->stage == 0 || (param->also_last && h->stage == h->stages - 1);
    if (param->stage == LS_STAGE_LAST) return h->stage == h->stages - 1;
    layout.pp = h->stages;
    ls_layout_stage_bounds(&layout, search->config->layers, bounds);
    return param->layer >= bounds[h->stage] && param->layer < bounds[h->stage + 1];
}

static double squares_of(const ls_search *search, size_t place, const held *h)
{
    const ls_param *param = &search->graph->table->params[place];
    if (param->state) return 0;
    const double *g =
        search->of->operands.values[ls_graph_param_gradient(search->graph, (int)place)];
    const size_t n = ls_param_elements(param);
    const size_t inner = param->cut == 1 || param->n_dims == 1 ? 1 : param->dims[1];
    const size_t extent = param->cut == 1 ? param->dims[1] : param->dims[0];
    double sum = 0;
    if (!g || !in_stage(search, param, h)) return 0;
    for (size_t i = 0; i < n; i++) {
        const size_t granule = param->cut < 0 ? 0 : i / inner % extent / param->axis.granule;
        sum += holders(param, h, granule) * g[i] * g[i];
    }
    return param->also_last && h->tied_twice ? 2 * sum : sum;
}

static double norm_of(const ls_search *search, const held *h)
{
    double sum = 0;
    for (size_t p = 0; p < search->graph->table->count; p++) sum += squares_of(search, p, h);
    return sqrt(sum);
}

static ls_status need_gradients(ls_search *search, bool *ret_there)
{
    ls_status status = LS_OK;
    *ret_there = true;
    for (size_t p = 0; p < search->graph->table->count && *ret_there; p++)
        if (!search->graph->table->params[p].state)
            LS_TRY(
                ls_search_need(search, ls_graph_param_gradient(search->graph, (int)p), ret_there));
exit:
    return status;
}

/* A tp that cuts every parameter evenly, but for shared key/value heads. */
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

static void describe(const ls_search *search, const held *h, char *text, size_t size)
{
    char of_stage[64] = "";
    if (h->stages > 1)
        snprintf(of_stage, sizeof of_stage, "%sstage %d of pp %d", h->tp > 1 ? " in " : "",
                 h->stage, h->stages);
    (void)search;
    if (h->tp > 1)
        snprintf(text, size, "rank %d of tp %d%s", h->rank, h->tp, of_stage);
    else
        snprintf(text, size, "%s", of_stage);
}

/* Proposes a norm where it is asked for: as the norm itself, or as what a gradient is scaled by. */
static ls_status propose_norm(ls_search *search, ls_cause cause, double norm, const char *text)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    double *value;
    if (search->node->make == LS_MAKE_GRADIENT_NORM) {
        /* One number, many hypotheses, and a bound that holds for sums in the worst order: what is
         * to convince must be as near as sums come that are rounded at random. */
        const double terms = (double)ls_param_table_elements(search->graph->table);
        const double bound = (8 + sqrt(terms)) * search->of->precision.u * norm;
        if (fabs(search->candidate[0] - norm) <= bound)
            ls_search_propose(search, cause, &norm, &bound, text);
        return LS_OK;
    }
    if (norm <= search->of->operands.max_norm) return LS_OK; /* that would not scale at all */
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(ls_change_value(&change, search->node->inputs[1], &value));
    *value = norm;
    LS_TRY(ls_search_evaluate(search, cause, &change.operands, text));
exit:
    ls_change_end(&change);
    return status;
}

/* Each rank scales what it holds by its own norm. */
static ls_status try_shards(ls_search *search, const double *norms, held h)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const ls_param *param = &search->graph->table->params[search->node->params[0]];
    const double *g = search->of->operands.values[search->node->inputs[0]];
    const double most = search->of->operands.max_norm, u = search->of->precision.u;
    const size_t inner = param->cut == 1 || param->n_dims == 1 ? 1 : param->dims[1];
    const size_t extent = param->cut == 1 ? param->dims[1] : param->dims[0];
    bool scaled = false;
    for (size_t i = 0; i < search->n; i++) {
        const size_t granule = i / inner % extent / param->axis.granule;
        const size_t rank = granule * (size_t)h.tp / param->axis.granules;
        const double factor = norms[rank] > most ? most / norms[rank] : 1;
        if (factor < 1) scaled = true;
        search->trial[i] = g[i] * factor;
        search->trial_bound[i] = 16 * u * fabs(search->trial[i]) + search->of->precision.tiny;
    }
    snprintf(text, sizeof text,
             "each of %d tp ranks scales by the norm of its own shards, the first by %.6g / %.6g",
             h.tp, most, norms[0]);
    if (scaled)
        ls_search_propose(search, LS_CAUSE_CLIPPING_PER_RANK, search->trial, search->trial_bound,
                          text);
    return status;
}

enum { MOST_TP = 16, MOST_PP = 16 };

static ls_status try_own_norms(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], who[128];
    for (int tp = 1; tp <= MOST_TP; tp++) {
        if (!is_legal(search, tp)) continue;
        for (int pp = 1; pp <= MOST_PP && pp <= (int)search->config->layers; pp++)
            for (int stage = 0; stage < pp && tp * pp > 1; stage++) {
                double norms[MOST_TP];
                held h = {tp, 0, pp, stage, false};
                for (h.rank = 0; h.rank < tp; h.rank++) {
                    const double norm = norms[h.rank] = norm_of(search, &h);
                    describe(search, &h, who, sizeof who);
                    snprintf(text, sizeof text, "the norm is that of what %s holds, %.9g", who,
                             norm);
                    LS_TRY(propose_norm(search, LS_CAUSE_CLIPPING_PER_RANK, norm, text));
                }
                if (search->node->make == LS_MAKE_CLIPPED && tp > 1 &&
                    search->graph->table->params[search->node->params[0]].cut >= 0)
                    LS_TRY(try_shards(search, norms, h));
            }
    }
    if (search->node->make == LS_MAKE_CLIPPED) {
        const held all = {1, 0, 1, 0, false};
        const double norm = sqrt(squares_of(search, (size_t)search->node->params[0], &all));
        snprintf(text, sizeof text, "scaled by the norm of this parameter's gradient alone, %.9g",
                 norm);
        LS_TRY(propose_norm(search, LS_CAUSE_CLIPPING_PER_RANK, norm, text));
    }
exit:
    return status;
}

/* What the candidate's files hold of the gradients, whatever their cuts: each rank's own norm. */
static ls_status try_file_norms(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_graph *graph = search->graph;
    char text[LS_EVIDENCE];
    double squares[MOST_TP] = {0};
    bool there[MOST_TP] = {false};
    for (size_t p = 0; search->of->whole && p < graph->table->count; p++) {
        const int node = ls_graph_param_gradient(graph, (int)p);
        if (node < 0) continue;
        const ls_candidate_tensor *given =
            ls_candidate_find(search->of->whole, search->of->step, node);
        const double *g = search->of->operands.values[node];
        const size_t columns = graph->table->params[p].dims[1]; /* 1 of a vector */
        for (size_t b = 0; given && b < given->n_blocks; b++) {
            const ls_candidate_block *block = &given->blocks[b];
            /* A convolution's weight is cut by its rows alone. */
            const bool matrix = graph->nodes[node].n_dims == 2;
            if (block->rank < 0 || block->rank >= MOST_TP) continue;
            const ls_view_run rows = block->runs[0];
            const size_t from = matrix ? block->runs[1].first : 0;
            const size_t count = matrix ? block->runs[1].count : columns;
            there[block->rank] = true;
            for (size_t r = rows.first; r < rows.first + rows.count; r++)
                for (size_t c = from; c < from + count; c++)
                    squares[block->rank] += g[r * columns + c] * g[r * columns + c];
        }
    }
    for (int rank = 0; rank < MOST_TP; rank++) {
        if (!there[rank]) continue;
        snprintf(text, sizeof text, "the norm is that of what rank %d holds, %.9g", rank,
                 sqrt(squares[rank]));
        LS_TRY(propose_norm(search, LS_CAUSE_CLIPPING_PER_RANK, sqrt(squares[rank]), text));
    }
exit:
    return status;
}

static ls_status try_counted_norms(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], size[64];
    for (int tied = 0; tied < 2; tied++)
        for (int tp = 1; tp <= MOST_TP; tp++) {
            const held h = {tp, -1, 1, 0, tied};
            if (!is_legal(search, tp) || (tp == 1 && !tied)) continue;
            if (tied && !search->config->tied) continue;
            snprintf(text, sizeof text, "the norm counts%s%s%s%s",
                     tp > 1 ? " what every tp rank holds once per rank" : "",
                     tp > 1 ? ls_search_size(search, (size_t)tp, size) : "",
                     tp > 1 && tied ? ", and" : "",
                     tied ? " the tied embedding on both of its stages" : "");
            if (tp > 1) snprintf(text + strlen(text), sizeof text - strlen(text), " (tp %d)", tp);
            LS_TRY(propose_norm(search, LS_CAUSE_REPLICAS_COUNTED, norm_of(search, &h), text));
        }
    const held all = {1, -1, 1, 0, false};
    const double right = norm_of(search, &all);
    for (size_t k = 2; k <= 16; k++) {
        snprintf(text, sizeof text,
                 "the norm is sqrt(%zu) times the right one: all counted %zu "
                 "times%s",
                 k, k, ls_search_size(search, k, size));
        LS_TRY(propose_norm(search, LS_CAUSE_REPLICAS_COUNTED, sqrt((double)k) * right, text));
    }
exit:
    return status;
}

/* ---- updates ---- */

typedef struct moments {
    const double **arrays[2];
    double *values[2];
} moments;

/* One update of the node's parameter with a gradient: weights (in and out) and moments. *ret_done:
 * false when the search has no more work to spend; then they stay as they are. */
static ls_status update_once(ls_search *search, const double *gradient, uint64_t t, double *weights,
                             moments *m, double *bound, bool *ret_done)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    ls_update update = *search->of->operands.update;
    double *g, *w, *next = NULL;
    const int param = search->node->params[0];
    const size_t n = search->n;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(ls_change_value(&change, search->node->inputs[0], &g));
    LS_TRY(ls_change_param(&change, param, &w));
    if (!(next = malloc(3 * n * sizeof *next)))
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for another update");
    memcpy(g, gradient, n * sizeof *g);
    memcpy(w, weights, n * sizeof *w);
    update.t = t;
    change.operands.update = &update;
    change.operands.moment1 = m->arrays[0], change.operands.moment2 = m->arrays[1];
    LS_TRY(ls_search_compute(search, search->of->node, &change.operands, next, bound, ret_done));
    if (!*ret_done) goto exit;
    LS_TRY(ls_operation_moments(&change.operands, search->of->node, next + n, next + 2 * n));
    memcpy(weights, next, n * sizeof *weights);
    for (int i = 0; i < 2; i++) {
        memcpy(m->values[i], next + n + (size_t)i * n, n * sizeof *next);
        m->arrays[i][param] = m->values[i];
    }
exit:
    free(next);
    ls_change_end(&change);
    return status;
}

/* Two updates, one after the other, with one gradient each. again: number of the second; fresh: it
 * has moments of its own. */
static ls_status try_two(ls_search *search, const double *first, const double *second,
                         uint64_t again, bool fresh, const char *text)
{
    ls_status status = LS_OK;
    const ls_operands *o = &search->of->operands;
    const int param = search->node->params[0];
    const size_t n = search->n, count = search->graph->table->count;
    moments m = {0};
    bool done = false;
    double *weights = malloc(5 * n * sizeof *weights), *bound = weights ? weights + n : NULL;
    if (!weights) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for another update");
    m.values[0] = weights + 3 * n, m.values[1] = weights + 4 * n;
    for (int i = 0; i < 2; i++) {
        const double *const *given = i ? o->moment2 : o->moment1;
        if (!(m.arrays[i] = calloc(count, sizeof *m.arrays[i])))
            LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for another update");
        for (size_t p = 0; given && p < count; p++) m.arrays[i][p] = given[p];
    }
    const double *before[2] = {m.arrays[0][param], m.arrays[1][param]};
    memcpy(weights, o->params[param], n * sizeof *weights);
    memset(m.values[0], 0, 2 * n * sizeof **m.values);
    LS_TRY(update_once(search, first, o->update->t, weights, &m, bound, &done));
    if (!done) goto exit;
    for (int i = 0; i < 2 && fresh; i++) m.arrays[i][param] = before[i];
    LS_TRY(update_once(search, second, again, weights, &m, bound + n, &done));
    if (!done) goto exit;
    for (size_t i = 0; i < n; i++) bound[i] += 2 * bound[n + i];
    ls_search_propose(search, LS_CAUSE_UPDATE_TWICE, weights, bound, text);
exit:
    free(m.arrays[0]);
    free(m.arrays[1]);
    free(weights);
    return status;
}

static ls_status try_updates(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_operands *o = &search->of->operands;
    const uint64_t t = o->update ? o->update->t : 0;
    const double *g = o->values[search->node->inputs[0]];
    const ls_param *param = &search->graph->table->params[search->node->params[0]];
    char text[LS_EVIDENCE], name[sizeof param->name + 32];
    double *uses = NULL;
    if (!o->update || !g || !o->params[search->node->params[0]]) goto exit;
    for (uint64_t next = 0; next < 2; next++) {
        snprintf(text, sizeof text,
                 "candidate is the parameter after two updates with the same gradient, numbered "
                 "%llu and %llu",
                 (unsigned long long)t, (unsigned long long)(t + next));
        LS_TRY(try_two(search, g, g, t + next, false, text));
    }
    if (param->uses < 2) goto exit;
    const int whole = ls_graph_param_gradient(search->graph, search->node->params[0]);
    snprintf(name, sizeof name, "grad.%s.as_head", param->name);
    const int head = ls_graph_find(search->graph, name);
    bool there = head >= 0, both = false;
    if (there) LS_TRY(ls_search_need(search, head, &there));
    if (there) LS_TRY(ls_search_need(search, whole, &both));
    if (!there || !both) goto exit;
    if (!(uses = malloc(2 * search->n * sizeof *uses)))
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for another update");
    for (size_t i = 0; i < search->n; i++) {
        const double all = o->values[whole][i], factor = all != 0 ? g[i] / all : 0;
        uses[i] = factor * o->values[head][i];
        uses[search->n + i] = g[i] - uses[i];
    }
    for (int how = 0; how < 3; how++) {
        snprintf(text, sizeof text, "candidate had one update for each use of the tied embedding%s",
                 how == 2 ? ", each with moments of its own" : "");
        LS_TRY(try_two(search, uses + search->n, uses, t + (how == 1), how == 2, text));
    }
exit:
    free(uses);
    return status;
}

ls_status ls_cause_gradients(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_operation_kind make = search->node->make;
    if (make == LS_MAKE_UPDATED) LS_TRY(try_updates(search));
    if (make == LS_MAKE_CLIPPED && !(search->of->operands.max_norm > 0)) goto exit;
    if (make == LS_MAKE_CLIPPED) {
        const double *g = search->of->operands.values[search->node->inputs[0]];
        const double *norm = search->of->operands.values[search->node->inputs[1]];
        char text[LS_EVIDENCE];
        snprintf(text, sizeof text,
                 "candidate is the gradient itself: its norm is %.6g, the largest "
                 "allowed %.6g",
                 *norm, search->of->operands.max_norm);
        ls_search_propose(search, LS_CAUSE_NOT_CLIPPED, g, NULL, text);
    }
    if (make == LS_MAKE_GRADIENT_NORM || make == LS_MAKE_CLIPPED) {
        bool there;
        LS_TRY(need_gradients(search, &there));
        if (!there) goto exit;
        LS_TRY(try_own_norms(search));
        LS_TRY(try_file_norms(search));
        LS_TRY(try_counted_norms(search));
    }
exit:
    return status;
}
