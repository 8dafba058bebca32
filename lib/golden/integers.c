/* integers.c - which nodes are linear, how they are drawn, what comes out.
 *
 * Of a product of I inputs and O outputs on T rows, with nonzero shares p of the input x, w of the
 * weight and d of the output's gradient, an element has on average
 *
 *     y = x W        I p w terms        dx = dy W^T    O d w
 *     dW = x^T dy    T p d              db             T d
 *
 * With p = 1/2, d = 40 / max(T, O), w = min(40 / I, 10 / (O d)) these are at most 20, 10 (three
 * times that where query, key and value read the same), 20 and 40, of magnitude 2 1/4 (a bias's: 1
 * 1/2) each; the largest of millions of elements then stays below 256. That it does is not left to
 * chance: everything is computed a second time from magnitudes, which are what any order of a sum
 * can reach, and should an element be too large, all shares are halved. */
#include "golden/integers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/random.h"
#include "step_graph/operation.h"
#include "base/allocate.h"

enum { ATTEMPTS = 8 };

/* Work under way. */
typedef struct making {
    ls_integers all;
    double **reach;       /* per node: magnitudes of its terms added up */
    double **param_sizes; /* magnitudes of the parameters */
    ls_operands numbers, magnitudes;
    uint64_t seed;
    int attempt;
    bool too_large;
} making;

/* ---- roles ---- */

static bool is_linear(const ls_graph_node *node)
{
    return ls_kind_has(node->make, LS_OF_INTEGERS);
}

/* Whether everything that sends a part of this gradient back is linear. */
static bool comes_back_linear(const ls_graph *graph, const ls_graph_node *node)
{
    for (size_t r = 0; r < graph->count && graph->nodes[r].phase == LS_GRAPH_FORWARD; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        bool reads;
        if (node->make == LS_MAKE_GRADIENT)
            reads =
                ls_graph_back_slot(reader, node->of) >= 0 && reader->make != LS_MAKE_PROBABILITIES;
        else
            reads = ls_graph_param_slot(reader, node->params[0]) >= 0 &&
                    (node->of < 0 || node->of == (int)r);
        if (reads && !is_linear(reader)) return false;
    }
    return true;
}

static bool is_made(const ls_graph *graph, const ls_graph_node *node)
{
    if (node->phase == LS_GRAPH_FORWARD) return is_linear(node);
    if (node->make == LS_MAKE_GRADIENT || node->make == LS_MAKE_PARAM_GRADIENT)
        return comes_back_linear(graph, node);
    return false;
}

static void find_roles(making *m)
{
    const ls_graph *graph = m->all.graph;
    ls_integers_role *roles = m->all.roles;
    for (size_t i = 0; i < graph->count; i++)
        if (is_made(graph, &graph->nodes[i])) roles[i] = LS_INTEGERS_MADE;
    for (size_t i = 0; i < graph->count; i++)
        for (int k = 0; k < LS_NODE_INPUTS && roles[i] == LS_INTEGERS_MADE; k++) {
            const int input = graph->nodes[i].inputs[k];
            if (input >= 0 && roles[input] == LS_INTEGERS_ABSENT) roles[input] = LS_INTEGERS_GIVEN;
        }
}

/* ---- shares of nonzeros ---- */

static double halved(const making *m, double share)
{
    return ldexp(fmin(1, share), -m->attempt);
}

/* Of the gradient of a node: its rows and its width. */
static double gradient_share(const making *m, const ls_graph_node *of)
{
    const double n = (double)ls_graph_elements(m->all.graph, (int)(of - m->all.graph->nodes));
    const double width = of->n_dims > 0 ? (double)of->dims[of->n_dims - 1] : 1;
    return halved(m, 40 / fmax(width, n / width));
}

static double node_share(const making *m, const ls_graph_node *node)
{
    if (node->phase == LS_GRAPH_FORWARD) return halved(m, 0.5);
    return gradient_share(m, &m->all.graph->nodes[node->of]);
}

/* Of a parameter that `reader` has as its matrix. */
static double weight_share(const making *m, const ls_graph_node *reader, const ls_param *param)
{
    if (reader->make == LS_MAKE_EMBEDDING) return halved(m, 0.5);
    const bool turned = reader->make == LS_MAKE_LOGITS;
    const double in = (double)param->dims[turned], out = (double)param->dims[!turned];
    return halved(m, fmin(40 / in, 10 / (out * gradient_share(m, reader))));
}

/* ---- numbers ---- */

/* -2, -1, 1 or 2 for a share of the elements, else 0. */
static void draw(const making *m, double *values, size_t n, uint32_t stream_number, double share)
{
    const ls_stream stream = {m->seed, LS_RANDOM_TEST, stream_number, (uint32_t)m->attempt};
    static const double sizes[] = {-2, -1, 1, 2};
    for (size_t i = 0; i < n; i++) {
        uint32_t words[4];
        ls_random_words(stream, i, words);
        values[i] = (double)words[0] < share * 0x1p32 ? sizes[words[1] >> 30] : 0;
    }
}

/* 1 to 3 in magnitude, none 0. */
static void draw_bias(const making *m, double *values, size_t n, uint32_t stream_number)
{
    const ls_stream stream = {m->seed, LS_RANDOM_TEST, stream_number, (uint32_t)m->attempt};
    for (size_t i = 0; i < n; i++) {
        uint32_t words[4];
        ls_random_words(stream, i, words);
        values[i] = (words[0] >> 31 ? 1 : -1) * (double)(1 + words[1] % 3);
    }
}

static ls_status make_room(double **array, size_t n)
{
    ls_status status = LS_OK;
    if (!*array) LS_NEW(*array, n);
exit:
    return status;
}

static void take_magnitudes(double *sizes, const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++) sizes[i] = fabs(values[i]);
}

/* A shard of nothing but zeros would hide whether it was used: one granule, one nonzero at least.
 */
static void fill_granules(const ls_param *param, double *values)
{
    const size_t cols = param->n_dims == 2 ? param->dims[1] : 1;
    for (size_t g = 0; param->cut >= 0 && param->n_dims == 2 && g < param->axis.granules; g++) {
        const size_t first = g * param->axis.granule;
        if (first >= param->dims[param->cut]) break;
        const size_t across = g % param->dims[1 - param->cut];
        double *value = &values[param->cut == 0 ? first * cols + across : across * cols + first];
        if (*value == 0) *value = 1;
    }
}

/* The parameters of every operation that is made. Streams of parameters begin where those of nodes
 * end. */
static ls_status draw_params(making *m)
{
    ls_status status = LS_OK;
    const ls_graph *graph = m->all.graph;
    for (size_t i = 0; i < graph->count; i++) {
        const ls_graph_node *node = &graph->nodes[i];
        if (node->phase != LS_GRAPH_FORWARD || !is_linear(node)) continue;
        for (int k = 0; k < LS_NODE_PARAMS; k++) {
            const int p = node->params[k];
            if (p < 0) continue;
            const ls_param *param = &graph->table->params[p];
            const size_t n = ls_param_elements(param);
            const uint32_t stream = (uint32_t)(graph->count + (size_t)p);
            LS_TRY(make_room(&m->all.params[p], n));
            LS_TRY(make_room(&m->param_sizes[p], n));
            if (param->n_dims == 1)
                draw_bias(m, m->all.params[p], n, stream);
            else
                draw(m, m->all.params[p], n, stream, weight_share(m, node, param));
            fill_granules(param, m->all.params[p]);
            take_magnitudes(m->param_sizes[p], m->all.params[p], n);
        }
    }
exit:
    return status;
}

static ls_status give(making *m, int node)
{
    ls_status status = LS_OK;
    const size_t n = ls_graph_elements(m->all.graph, node);
    LS_TRY(make_room(&m->all.values[node], n));
    LS_TRY(make_room(&m->reach[node], n));
    draw(m, m->all.values[node], n, (uint32_t)node, node_share(m, &m->all.graph->nodes[node]));
    take_magnitudes(m->reach[node], m->all.values[node], n);
    m->all.roles[node] = LS_INTEGERS_GIVEN;
exit:
    return status;
}

static bool is_too_large(const double *reach, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(reach[i] <= LS_INTEGERS_MOST)) return true;
    return false;
}

static ls_status compute(making *m, int node)
{
    ls_status status = LS_OK;
    const ls_graph_node *about = &m->all.graph->nodes[node];
    const size_t n = ls_graph_elements(m->all.graph, node);
    const ls_precision exact = ls_precision_of(LS_F64, 1);
    LS_TRY(make_room(&m->all.values[node], n));
    LS_TRY(make_room(&m->reach[node], n));
    LS_TRY(ls_operation_evaluate(&m->magnitudes, node, exact, m->reach[node], NULL));
    if (is_too_large(m->reach[node], n)) {
        if (about->make == LS_MAKE_RESIDUAL) {
            LS_TRY(give(m, node));
            goto exit;
        }
        m->too_large = true;
    }
    LS_TRY(ls_operation_evaluate(&m->numbers, node, exact, m->all.values[node], NULL));
    for (size_t i = 0; i < n; i++) {
        m->all.values[node][i] += 0.0; /* -0 is 0 */
        if (m->all.values[node][i] != rint(m->all.values[node][i]))
            LS_FAIL(LS_ERR_INTERNAL, "%s: %g is no integer", about->name, m->all.values[node][i]);
    }
exit:
    return status;
}

/* ---- the whole ---- */

static ls_status begin(making *m, const ls_graph *graph, const ls_batch *batch)
{
    static const ls_variant sparse = {.sparse = true};
    ls_status status = LS_OK;
    ls_integers *all = &m->all;
    all->graph = graph;
    LS_NEW(all->roles, graph->count + 1);
    LS_NEW(all->values, graph->count + 1);
    LS_NEW(m->reach, graph->count + 1);
    LS_NEW(all->params, graph->table->count + 1);
    LS_NEW(m->param_sizes, graph->table->count + 1);
    m->numbers = (ls_operands){.graph = graph,
                               .batch = batch,
                               .values = (const double *const *)all->values,
                               .params = (const double *const *)all->params,
                               .variant = &sparse};
    m->magnitudes = m->numbers;
    m->magnitudes.values = (const double *const *)m->reach;
    m->magnitudes.params = (const double *const *)m->param_sizes;
exit:
    return status;
}

static ls_status attempt(making *m)
{
    ls_status status = LS_OK;
    m->too_large = false;
    memset(m->all.roles, 0, m->all.graph->count * sizeof *m->all.roles);
    find_roles(m);
    LS_TRY(draw_params(m));
    for (size_t i = 0; i < m->all.graph->count && !m->too_large; i++) {
        if (m->all.roles[i] == LS_INTEGERS_GIVEN) LS_TRY(give(m, (int)i));
        if (m->all.roles[i] == LS_INTEGERS_MADE) LS_TRY(compute(m, (int)i));
    }
exit:
    return status;
}

static void free_arrays(double **arrays, size_t count)
{
    for (size_t i = 0; arrays && i < count; i++) free(arrays[i]);
    free(arrays);
}

ls_status ls_integers_create(ls_integers *ret_integers, const ls_graph *graph,
                             const ls_batch *batch, uint64_t seed)
{
    ls_status status = LS_OK;
    making m = {.seed = seed};
    LS_TRY(begin(&m, graph, batch));
    do {
        LS_TRY(attempt(&m));
        m.attempt++;
    } while (m.too_large && m.attempt < ATTEMPTS);
    if (m.too_large) LS_FAIL(LS_ERR_INTERNAL, "sums of small integers grow beyond 256");
    *ret_integers = m.all;
    memset(&m.all, 0, sizeof m.all);
exit:
    free_arrays(m.reach, graph->count);
    free_arrays(m.param_sizes, graph->table->count);
    ls_integers_free(&m.all);
    return status;
}

void ls_integers_free(ls_integers *integers)
{
    if (!integers->graph) return;
    free(integers->roles);
    free_arrays(integers->values, integers->graph->count);
    free_arrays(integers->params, integers->graph->table->count);
    memset(integers, 0, sizeof *integers);
}
