/* cause_interleaved.c - matrices that stand side by side in one array, gate and up, query, key and
 * value, taken for one another or cut out of it otherwise than they were put in.
 *
 * A fused array of n matrices may be laid out in T groups: group g has part g of T of each, one
 * after another. T = 1 is q | k | v, T = heads is per head, T = tp is per rank. Put in with one T
 * and taken out with another, columns end up in each other's places. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "causes/families.h"

enum { FUSED = 3 };

typedef struct fused {
    int n;
    ls_role roles[FUSED], biases[FUSED];
    const char *name;
    size_t width[FUSED]; /* columns of each */
} fused;

/* Place of a role in a layer; -1. */
static int find(const ls_search *search, ls_role role, size_t layer)
{
    const size_t place = ls_param_find(search->graph->table, role, layer);
    return place == (size_t)-1 ? -1 : (int)place;
}

/* Where column c of matrix m is in the fused array of T groups. */
static size_t put(const fused *f, size_t T, int m, size_t c)
{
    size_t all = 0, before = 0;
    for (int i = 0; i < f->n; i++) all += f->width[i] / T;
    for (int i = 0; i < m; i++) before += f->width[i] / T;
    const size_t each = f->width[m] / T;
    return c / each * all + before + c % each;
}

/* ... and back: which matrix, which column. */
static size_t take(const fused *f, size_t T, size_t place, int *ret_m)
{
    size_t all = 0;
    for (int i = 0; i < f->n; i++) all += f->width[i] / T;
    size_t rest = place % all;
    int m = 0;
    for (; rest >= f->width[m] / T; m++) rest -= f->width[m] / T;
    *ret_m = m;
    return place / all * (f->width[m] / T) + rest;
}

/* Columns of the matrices, rows x width each, as they come out. order: which matrix is taken for
 * which; with Ta == Tb only. */
static void regroup(const fused *f, size_t Ta, size_t Tb, const int *order, size_t rows,
                    const double *const *from, double *const *to)
{
    for (int m = 0; m < f->n; m++)
        for (size_t c = 0; to[m] && c < f->width[m]; c++) {
            int source = order[m];
            size_t column = c;
            if (Ta != Tb) column = take(f, Ta, put(f, Tb, m, c), &source);
            for (size_t r = 0; r < rows; r++)
                to[m][r * f->width[m] + c] = from[source][r * f->width[source] + column];
        }
}

/* Weights, and biases with them, of every layer (or the node's own). */
static ls_status change_weights(ls_search *search, const fused *f, size_t Ta, size_t Tb,
                                const int *order, bool biases, ls_change *change)
{
    ls_status status = LS_OK;
    for (size_t l = 0; l < search->config->layers; l++)
        for (int bias = 0; bias < (biases ? 2 : 1); bias++) {
            const double *from[FUSED];
            double *to[FUSED];
            size_t rows = 1;
            bool all = true;
            for (int m = 0; m < f->n; m++) {
                const int p = find(search, bias ? f->biases[m] : f->roles[m], l);
                if (p < 0 || !search->of->operands.params[p]) all = false;
                if (!all) break;
                from[m] = search->of->operands.params[p];
                if (!bias) rows = search->graph->table->params[p].dims[0];
                LS_TRY(ls_change_param(change, p, &to[m]));
            }
            if (all) regroup(f, Ta, Tb, order, rows, from, to);
        }
exit:
    return status;
}

/* The right gradients of the matrices, or biases, that the node's is one of. */
static ls_status right_gradients(ls_search *search, const int *nodes, int n, double **values,
                                 double **bounds, bool *ret_done)
{
    ls_status status = LS_OK;
    *ret_done = true;
    for (int m = 0; m < n && *ret_done; m++) {
        const size_t count = ls_graph_elements(search->graph, nodes[m]);
        LS_ROOM(values[m], count);
        LS_ROOM(bounds[m], count);
        LS_TRY(ls_search_need_inputs(search, nodes[m], NULL, ret_done));
        if (*ret_done)
            LS_TRY(ls_search_compute(search, nodes[m], &search->of->operands, values[m], bounds[m],
                                     ret_done));
    }
exit:
    return status;
}

static const char *layout_text(const ls_search *search, size_t T, size_t matrices, char text[48])
{
    if (T == 1)
        snprintf(text, 48, "one after another");
    else if (T == search->config->kv_heads && matrices == 3)
        snprintf(text, 48, "head by head");
    else
        snprintf(text, 48, "in %zu groups", T);
    return text;
}

/* One arrangement, tried at the node. */
static ls_status try_one(ls_search *search, const fused *f, size_t Ta, size_t Tb, const int *order,
                         const char *text)
{
    ls_status status = LS_OK;
    const ls_graph_node *node = search->node;
    double *values[FUSED] = {NULL}, *bounds[FUSED] = {NULL};
    ls_change change = {0};
    if (node->make == LS_MAKE_PARAM_GRADIENT) {
        const ls_param *own = &search->graph->table->params[node->params[0]];
        int nodes[FUSED], which = -1;
        bool done, bias = false;
        for (int m = 0; m < f->n; m++) {
            if (own->role == f->roles[m]) which = m;
            if (own->role == f->biases[m] && f->biases[m] != f->roles[m]) which = m, bias = true;
        }
        if (which < 0) goto exit;
        for (int m = 0; m < f->n; m++) {
            const int p = find(search, bias ? f->biases[m] : f->roles[m], own->layer);
            if (p < 0) goto exit;
            nodes[m] = ls_graph_param_gradient(search->graph, p);
        }
        double *to[FUSED] = {NULL}, *to_bound[FUSED] = {NULL};
        to[which] = search->trial, to_bound[which] = search->trial_bound;
        LS_TRY(right_gradients(search, nodes, f->n, values, bounds, &done));
        if (!done) goto exit;
        const size_t rows = bias ? 1 : own->dims[0];
        regroup(f, Ta, Tb, order, rows, (const double *const *)values, to);
        regroup(f, Ta, Tb, order, rows, (const double *const *)bounds, to_bound);
        ls_search_propose(search, LS_CAUSE_INTERLEAVED, search->trial, search->trial_bound, text);
    } else {
        for (int biases = 1; biases >= 0; biases--) {
            LS_TRY(ls_change_begin(&change, &search->of->operands));
            LS_TRY(change_weights(search, f, Ta, Tb, order, biases, &change));
            LS_TRY(ls_search_try(search, LS_CAUSE_INTERLEAVED, 0, &change, text));
            ls_change_end(&change);
            if (!search->config->bias || search->fits[LS_CAUSE_INTERLEAVED]) break;
        }
    }
exit:
    ls_change_end(&change);
    for (int m = 0; m < f->n; m++) free(values[m]), free(bounds[m]);
    return status;
}

/* Which of the matrices the node is made with, or the gradient of; -1: none, or of several. */
static int own_matrix(const ls_search *search, const fused *f)
{
    if (search->node->params[0] < 0) return -1;
    const ls_role role = search->graph->table->params[search->node->params[0]].role;
    for (int m = 0; m < f->n; m++)
        if (role == f->roles[m] || role == f->biases[m]) return m;
    return -1;
}

static ls_status try_swaps(ls_search *search, const fused *f)
{
    ls_status status = LS_OK;
    static const int orders[][FUSED] = {{1, 0, 2}, {0, 2, 1}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    static const char *const letters[] = {"query", "key", "value"}, *const pair[] = {"gate", "up"};
    char text[LS_EVIDENCE];
    for (size_t i = 0; i < (f->n == 2 ? 1 : sizeof orders / sizeof *orders); i++) {
        bool fits = true;
        const char *const *names = f->n == 2 ? pair : letters;
        for (int m = 0; m < f->n; m++) fits &= f->width[m] == f->width[orders[i][m]];
        if (!fits) continue;
        const int own = own_matrix(search, f);
        if (own >= 0 && orders[i][own] == own) continue;
        if (own >= 0)
            snprintf(text, sizeof text, "what belongs to %s is taken for %s's",
                     names[orders[i][own]], names[own]);
        else if (f->n == 2)
            snprintf(text, sizeof text, "gate is taken for up and up for gate");
        else
            snprintf(text, sizeof text, "%s, %s and %s are taken for query, key and value",
                     names[orders[i][0]], names[orders[i][1]], names[orders[i][2]]);
        LS_TRY(try_one(search, f, 1, 1, orders[i], text));
        if (search->fits[LS_CAUSE_INTERLEAVED]) goto exit;
    }
exit:
    return status;
}

static ls_status try_groups(ls_search *search, const fused *f, size_t granules)
{
    ls_status status = LS_OK;
    static const int same[FUSED] = {0, 1, 2};
    char text[LS_EVIDENCE], a[48], b[48];
    for (size_t Ta = 1; Ta <= granules; Ta++)
        for (size_t Tb = 1; Tb <= granules; Tb++) {
            if (granules % Ta || granules % Tb || Ta == Tb) continue;
            if (Ta > 16 && Ta != granules) continue;
            if (Tb > 16 && Tb != granules) continue;
            if (Ta > 1 && Tb > 1 && granules > 16) continue;
            snprintf(text, sizeof text, "columns of %s stand %s in one array and are read %s",
                     f->name, layout_text(search, Ta, (size_t)f->n, a),
                     layout_text(search, Tb, (size_t)f->n, b));
            LS_TRY(try_one(search, f, Ta, Tb, same, text));
            if (search->fits[LS_CAUSE_INTERLEAVED]) goto exit;
        }
exit:
    return status;
}

/* Whether the node, or one before it that may be wrong, reads one of the matrices. */
static bool can_concern(const ls_search *search, const fused *f)
{
    const ls_graph_node *node = search->node;
    if (!search->of->own_inputs && node->make != LS_MAKE_PARAM_GRADIENT) return true;
    for (size_t r = 0; r < search->graph->count; r++) {
        const ls_graph_node *reader = &search->graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (reader->params[0] < 0) continue;
        const ls_role role = search->graph->table->params[reader->params[0]].role;
        const bool touches =
            (int)r == search->of->node ||
            (node->make == LS_MAKE_GRADIENT && ls_graph_back_slot(reader, node->of) >= 0) ||
            (node->make == LS_MAKE_PARAM_GRADIENT &&
             ls_graph_param_slot(reader, node->params[0]) >= 0);
        for (int m = 0; m < f->n && touches; m++)
            if (role == f->roles[m]) return true;
    }
    return false;
}

/* SwiGLU of up and gate exchanged, forward, and their gradients in each other's place. */
static ls_status try_gated(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_graph_node *node = search->node;
    ls_change change = {0};
    if (node->make == LS_MAKE_ACTIVATION) {
        LS_TRY(ls_change_begin(&change, &search->of->operands));
        change.values[node->inputs[0]] = search->of->operands.values[node->inputs[1]];
        change.values[node->inputs[1]] = search->of->operands.values[node->inputs[0]];
        LS_TRY(ls_search_evaluate(search, LS_CAUSE_INTERLEAVED, &change.operands,
                                  "candidate is silu(up) gate, not silu(gate) up"));
    } else if (node->make == LS_MAKE_GRADIENT && search->of->own_inputs &&
               (node->point == LS_POINT_GATE || node->point == LS_POINT_UP)) {
        const ls_point other = node->point == LS_POINT_GATE ? LS_POINT_UP : LS_POINT_GATE;
        for (size_t i = 0; i < search->graph->count; i++) {
            const ls_graph_node *twin = &search->graph->nodes[i];
            bool done = false;
            if (twin->make != LS_MAKE_GRADIENT || twin->point != other ||
                twin->layer != node->layer)
                continue;
            LS_TRY(ls_search_need_inputs(search, (int)i, NULL, &done));
            if (!done) continue;
            LS_TRY(ls_search_compute(search, (int)i, &search->of->operands, search->trial,
                                     search->trial_bound, &done));
            if (done)
                ls_search_propose(search, LS_CAUSE_INTERLEAVED, search->trial, search->trial_bound,
                                  "gradients of gate and up are in each other's place");
        }
    }
exit:
    ls_change_end(&change);
    return status;
}

ls_status ls_cause_interleaved(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_config *config = search->config;
    const size_t D = config->d_model, kv = config->kv_heads * ls_config_head_width(config);
    const fused qkv = {.n = 3,
                       .roles = {LS_QUERY_WEIGHT, LS_KEY_WEIGHT, LS_VALUE_WEIGHT},
                       .biases = {LS_QUERY_BIAS, LS_KEY_BIAS, LS_VALUE_BIAS},
                       .name = "query, key and value",
                       .width = {D, kv, kv}};
    const fused gated = {.n = 2,
                         .roles = {LS_MLP_GATE_WEIGHT, LS_MLP_UP_WEIGHT},
                         .biases = {LS_MLP_GATE_WEIGHT, LS_MLP_UP_WEIGHT},
                         .name = "gate and up",
                         .width = {config->d_ff, config->d_ff}};
    if (can_concern(search, &qkv)) {
        LS_TRY(try_swaps(search, &qkv));
        LS_TRY(try_groups(search, &qkv, config->kv_heads));
    }
    if (config->activation != LS_SWIGLU) goto exit;
    if (can_concern(search, &gated)) {
        LS_TRY(try_swaps(search, &gated));
        LS_TRY(try_groups(search, &gated, config->d_ff));
    }
    LS_TRY(try_gated(search));
exit:
    return status;
}
