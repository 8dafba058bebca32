/* cause_arrangement.c - right numbers in wrong places: blocks of an axis in another order, joined
 * along another dimension, dimensions exchanged; of results and of what an operation reads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/partition/share.h"
#include "base/append.h"
#include "causes/families.h"

/* ---- blocks of an axis of the result ---- */

typedef struct axis {
    size_t outer, extent, inner; /* element (o, e, i) at (o extent + e) inner + i */
    char name[16];
} axis;

/* Dimension d of a node, and its name: the d-th word of dim_names without what is in brackets. */
static axis axis_of(const ls_graph_node *node, int d)
{
    axis a = {1, node->dims[d], 1, ""};
    const char *word = node->dim_names;
    for (int k = 0; k < d; k++) a.outer *= node->dims[k];
    for (int k = d + 1; k < node->n_dims; k++) a.inner *= node->dims[k];
    for (int k = 0; k < d && word; k++) word = strchr(word, ' ') ? strchr(word, ' ') + 1 : "";
    snprintf(a.name, sizeof a.name, "%.*s", (int)strcspn(word, " ["), word);
    return a;
}

/* Whether block `at` of the candidate is block `from` of the right values. */
static bool block_fits(const ls_search *search, const axis *a, size_t block, size_t at, size_t from)
{
    const ls_case *of = search->of;
    for (size_t o = 0; o < a->outer; o++)
        for (size_t e = 0; e < block * a->inner; e++) {
            const size_t c = (o * a->extent + at * block) * a->inner + e;
            const size_t r = (o * a->extent + from * block) * a->inner + e;
            if (!(fabs(search->candidate[c] - of->right[r]) <= of->bound[r])) return false;
        }
    return true;
}

static void try_blocks(ls_search *search, const axis *a, size_t count)
{
    size_t from[16];
    const size_t block = a->extent / count;
    char text[LS_EVIDENCE];
    size_t moved = 0, held = 0;
    bool there[16] = {false};
    for (size_t at = 0; at < count; at++) {
        from[at] = at;
        if (block_fits(search, a, block, at, at)) continue;
        for (from[at] = 0; from[at] < count; from[at]++)
            if (block_fits(search, a, block, at, from[at])) break;
        if (from[at] == count) return;
        moved++;
    }
    for (size_t at = 0; at < count; at++) {
        held += !there[from[at]];
        there[from[at]] = true;
    }
    /* A few blocks that are copies of others are no order. */
    if (moved == 0 || (held < count && 2 * moved < count)) return;
    size_t length =
        ls_append(text, sizeof text, 0, "%zu blocks of %s are the right ones in the order", count,
                  *a->name ? a->name : "the axis");
    for (size_t b = 0; b < count && length < sizeof text - 8; b++)
        length = ls_append(text, sizeof text, length, " %zu", from[b]);
    for (size_t o = 0; o < a->outer; o++)
        for (size_t e = 0; e < a->extent * a->inner; e++) {
            const size_t at = e / (block * a->inner);
            const size_t r =
                o * a->extent * a->inner + e % (block * a->inner) + from[at] * block * a->inner;
            search->trial[o * a->extent * a->inner + e] = search->of->right[r];
            search->trial_bound[o * a->extent * a->inner + e] = search->of->bound[r];
        }
    ls_search_propose_fitted(search, LS_CAUSE_SHARD_ORDER, count, search->trial,
                             search->trial_bound, text);
}

/* ---- the result read in another shape ---- */

/* Blocks of three nested dimensions in another order: element (x, y, z, rest) of the right tensor,
 * [X][Y][Z][rest], is where [X][Z][Y][rest] has it: inside each x, the y by z matrix of things
 * of `rest` elements is transposed. */
static bool exchange(const double *from, double *to, size_t n, size_t y, size_t z, size_t rest)
{
    const size_t block = y * z * rest;
    if (block == 0 || n % block || y < 2 || z < 2) return false;
    for (size_t x = 0; x < n; x += block)
        for (size_t i = 0; i < y; i++)
            for (size_t j = 0; j < z; j++)
                memcpy(to + x + (j * y + i) * rest, from + x + (i * z + j) * rest,
                       rest * sizeof *to);
    return true;
}

static void try_exchange(ls_search *search, ls_cause cause, size_t y, size_t z, size_t rest,
                         const char *text)
{
    if (exchange(search->of->right, search->trial, search->n, y, z, rest) &&
        exchange(search->of->bound, search->trial_bound, search->n, y, z, rest))
        ls_search_propose(search, cause, search->trial, search->trial_bound, text);
}

/* Shards joined along a dimension before the one that was cut, and that taken for this. */
static void try_joins(ls_search *search)
{
    const ls_graph_node *node = search->node;
    char text[LS_EVIDENCE];
    if (node->n_dims < 2) return;
    for (int cut = 1; cut < node->n_dims; cut++) {
        const axis c = axis_of(node, cut);
        for (size_t T = 2; T <= 64 && T <= c.extent; T++) {
            if (c.extent % T) continue;
            size_t rows = 1;
            for (int along = cut - 1; along >= 0; along--) {
                const axis a = axis_of(node, along);
                rows *= a.extent;
                const size_t rest = c.extent / T * c.inner;
                snprintf(text, sizeof text, "%zu shards of %s stand one after another along %s", T,
                         c.name, a.name);
                try_exchange(search, LS_CAUSE_SHARD_ORDER, rows, T, rest, text);
                snprintf(text, sizeof text,
                         "blocks along %s were cut where %zu shards of %s should be", a.name, T,
                         c.name);
                try_exchange(search, LS_CAUSE_SHARD_ORDER, T, rows, rest, text);
            }
        }
    }
    /* whole dimensions exchanged, and strides inside the last one */
    const axis first = axis_of(node, 0), second = axis_of(node, 1);
    snprintf(text, sizeof text, "dimensions %s and %s are exchanged", first.name, second.name);
    try_exchange(search, LS_CAUSE_TRANSPOSED, first.extent, second.extent, second.inner, text);
    if (first.extent == second.extent && node->n_dims == 2) return;
    if (node->n_dims == 4) {
        const axis last = axis_of(node, 3);
        snprintf(text, sizeof text, "queries and keys are exchanged");
        try_exchange(search, LS_CAUSE_TRANSPOSED, last.extent, last.extent, 1, text);
    }
}

/* [S, B, ...] taken for [B, S, ...]: of the `run` sequences of each rank, and of the tokens of each
 * of `shards`, by the elements' order in memory. */
static void exchange_local(const ls_graph_node *node, size_t run, size_t shards, const double *from,
                           double *to)
{
    const size_t S = node->dims[1], width = node->dims[2];
    const size_t own = S / shards;
    for (size_t b = 0; b < node->dims[0]; b += run)
        for (size_t s = 0; s < S; s += own)
            for (size_t k = 0; k < run * own; k++) /* [own][run] in memory, read as [run][own] */
                memcpy(to + ((b + k / own) * S + s + k % own) * width,
                       from + ((b + k % run) * S + s + k / run) * width, width * sizeof *to);
}

static void try_local_exchanges(ls_search *search)
{
    const ls_graph_node *node = search->node;
    char text[LS_EVIDENCE];
    if (node->n_dims != 3 || node->dims[0] != search->graph->B || node->dims[1] != search->graph->S)
        return;
    for (size_t run = 2; run <= node->dims[0]; run++)
        for (size_t shards = 1; shards <= 16 && 2 * shards <= node->dims[1]; shards++) {
            if (node->dims[0] % run || node->dims[1] % shards) continue;
            exchange_local(node, run, shards, search->of->right, search->trial);
            exchange_local(node, run, shards, search->of->bound, search->trial_bound);
            snprintf(
                text, sizeof text,
                "axes B and S are exchanged in memory within %zu sequences and %zu tokens: [S, "
                "B, ...] is taken for [B, S, ...]",
                run, node->dims[1] / shards);
            ls_search_propose(search, LS_CAUSE_TRANSPOSED, search->trial, search->trial_bound,
                              text);
        }
}

/* Every T-th element of an axis belongs to a shard, in the place of runs. */
static void try_strides(ls_search *search)
{
    char text[LS_EVIDENCE];
    for (int d = 0; d < search->node->n_dims; d++) {
        const axis a = axis_of(search->node, d);
        for (size_t T = 2; T <= 64 && T < a.extent; T++) {
            if (a.extent % T) continue;
            snprintf(text, sizeof text,
                     "%s is dealt out one by one to %zu shards, not cut into runs", a.name, T);
            try_exchange(search, LS_CAUSE_SHARD_ORDER, a.extent / T, T, a.inner, text);
        }
    }
}

/* ---- what the operation reads, arranged otherwise ---- */

/* Rotates (by > 0), reverses (by 0) `count` shares of an axis. */
static void permute(const double *from, double *to, const axis *a, size_t count, size_t by)
{
    size_t bounds[17];
    ls_share_bounds(a->extent, count, bounds);
    for (size_t o = 0; o < a->outer; o++) {
        size_t at = o * a->extent;
        for (size_t k = 0; k < count; k++) {
            const size_t share = by > 0 ? (k + by) % count : count - 1 - k;
            const size_t width = bounds[share + 1] - bounds[share];
            memcpy(to + at * a->inner, from + (o * a->extent + bounds[share]) * a->inner,
                   width * a->inner * sizeof *to);
            at += width;
        }
    }
}

/* Shards of the tokens of `run` sequences one after another, [shard][run][its tokens], where
 * [run][S] should be; the shards as even as can be. */
static void join_tokens(const ls_graph_node *node, size_t run, size_t count, const double *from,
                        double *to)
{
    const size_t S = node->dims[1], width = node->dims[2];
    size_t bounds[17];
    ls_share_bounds(S, count, bounds);
    for (size_t first = 0; first < node->dims[0]; first += run)
        for (size_t r = 0; r < count; r++)
            for (size_t b = first; b < first + run; b++) {
                const size_t n = (bounds[r + 1] - bounds[r]) * width;
                memcpy(to, from + (b * S + bounds[r]) * width, n * sizeof *to);
                to += n;
            }
}

static const char *order_text(size_t count, size_t by, char text[48])
{
    if (count == 2)
        snprintf(text, 48, "exchanged");
    else if (by == 0)
        snprintf(text, 48, "in reverse order");
    else
        snprintf(text, 48, "beginning with shard %zu", by);
    return text;
}

/* The first input with shares of its tokens, sequences or columns permuted. */
static ls_status try_input_order(ls_search *search, int input)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], order[48];
    const ls_graph_node *node = &search->graph->nodes[input];
    const size_t n = ls_graph_elements(search->graph, input);
    const bool one_token = search->node->make == LS_MAKE_POOLED; /* shows no order of tokens */
    ls_change change = {0};
    double *values;
    for (int d = 0; d < node->n_dims; d++)
        for (size_t T = 2; T <= 8; T++)
            for (size_t by = 0; by < T; by++) {
                const axis a = axis_of(node, d);
                if (T > a.extent || (by > 1 && by < T - 1) || (T == 2 && by > 0)) continue;
                if (d == 1 && one_token) continue;
                LS_TRY(ls_change_begin(&change, &search->of->operands));
                LS_TRY(ls_change_value(&change, input, &values));
                permute(search->of->operands.values[input], values, &a, T, by);
                snprintf(text, sizeof text, "made of %s with %zu shards of %s %s", node->name, T,
                         a.name, order_text(T, by, order));
                LS_TRY(ls_search_evaluate(search, LS_CAUSE_SHARD_ORDER, &change.operands, text));
                ls_change_end(&change);
                if (search->fits[LS_CAUSE_SHARD_ORDER]) goto exit;
            }
    for (size_t run = 1; n > 0 && node->n_dims == 3 && !one_token && run <= search->graph->B; run++)
        for (size_t T = 2; T <= 8 && T <= node->dims[1] && search->graph->B % run == 0; T++) {
            LS_TRY(ls_change_begin(&change, &search->of->operands));
            LS_TRY(ls_change_value(&change, input, &values));
            join_tokens(node, run, T, search->of->operands.values[input], values);
            snprintf(text, sizeof text,
                     "made of %s with %zu shards of S one after another along the sequences "
                     "(%zu at a time)",
                     node->name, T, run);
            LS_TRY(ls_search_evaluate(search, LS_CAUSE_SHARD_ORDER, &change.operands, text));
            ls_change_end(&change);
            if (search->fits[LS_CAUSE_SHARD_ORDER]) goto exit;
        }
exit:
    ls_change_end(&change);
    return status;
}

/* Shards of the node's own weight, and of its bias with them, in another order; padding included.
 */
static void permute_granules(const ls_param *p, const double *from, double *to, size_t count,
                             size_t by)
{
    const bool columns = p->cut == 1, vector = p->n_dims == 1;
    const size_t extent = columns ? p->dims[1] : p->dims[0];
    const size_t inner = columns || vector ? 1 : p->dims[1];
    const size_t outer = columns ? p->dims[0] : 1;
    const size_t share = ls_axis_extent(p->axis) / count;
    for (size_t o = 0; o < outer; o++)
        for (size_t e = 0; e < extent; e++) {
            const size_t k = e / share, source = by > 0 ? (k + by) % count : count - 1 - k;
            const size_t row = source * share + e % share;
            for (size_t i = 0; i < inner; i++)
                to[(o * extent + e) * inner + i] =
                    row < extent ? from[(o * extent + row) * inner + i] : 0;
        }
}

static ls_status try_weight_order(ls_search *search, const ls_graph_node *reader)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], order[48];
    const ls_param *w = &search->graph->table->params[reader->params[0]];
    ls_change change = {0};
    if (w->cut < 0) goto exit;
    for (size_t T = 2; T <= 16; T++)
        for (size_t by = 0; by < T; by++) {
            if (w->axis.granules % T || (by > 1 && by < T - 1) || (T == 2 && by > 0)) continue;
            LS_TRY(ls_change_begin(&change, &search->of->operands));
            for (int i = 0; i < 2; i++) {
                const int p = reader->params[i];
                double *values;
                if (p < 0 || search->graph->table->params[p].cut < 0 ||
                    !search->of->operands.params[p] ||
                    (i == 1 && reader->make == LS_MAKE_EMBEDDING))
                    continue;
                LS_TRY(ls_change_param(&change, p, &values));
                permute_granules(&search->graph->table->params[p], search->of->operands.params[p],
                                 values, T, by);
            }
            snprintf(text, sizeof text, "%zu shards of %s are %s", T, w->name,
                     order_text(T, by, order));
            LS_TRY(ls_search_evaluate(search, LS_CAUSE_SHARD_ORDER, &change.operands, text));
            ls_change_end(&change);
            if (search->fits[LS_CAUSE_SHARD_ORDER]) goto exit;
        }
exit:
    ls_change_end(&change);
    return status;
}

/* ---- transposed matrices ---- */

/* The array [rows, columns] with the elements of its transpose in memory. */
static void reread(const double *from, double *to, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) to[j * rows + i] = from[i * columns + j];
}

static bool is_linear(const ls_graph_node *node)
{
    return ls_kind_has(node->make, LS_IS_PRODUCT);
}

static bool is_matrix(ls_role role)
{
    return role == LS_QUERY_WEIGHT || role == LS_KEY_WEIGHT || role == LS_VALUE_WEIGHT ||
           role == LS_ATTN_OUT_WEIGHT || role == LS_MLP_GATE_WEIGHT || role == LS_MLP_UP_WEIGHT ||
           role == LS_MLP_DOWN_WEIGHT || role == LS_MASKED_DENSE_WEIGHT || role == LS_POOLER_WEIGHT;
}

/* role LS_ROLES: all linears. */
static ls_status try_transposed_weights(ls_search *search, ls_role role, const char *name)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    ls_change change = {0};
    bool square = true;
    const ls_param_table *table = search->graph->table;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    for (size_t p = 0; p < table->count; p++) {
        const ls_param *param = &table->params[p];
        double *values;
        if ((role == LS_ROLES ? !is_matrix(param->role) : param->role != role) ||
            !search->of->operands.params[p])
            continue;
        LS_TRY(ls_change_param(&change, (int)p, &values));
        reread(search->of->operands.params[p], values, param->dims[0], param->dims[1]);
        square &= param->dims[0] == param->dims[1];
    }
    snprintf(text, sizeof text, "candidate is what %s gives %s", name,
             square ? "transposed" : "with its [out, in] array read as [in, out]");
    LS_TRY(ls_search_try(search, LS_CAUSE_TRANSPOSED, 0, &change, text));
exit:
    ls_change_end(&change);
    return status;
}

static ls_status try_transposed(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_graph *graph = search->graph;
    bool tried[LS_ROLES + 1] = {false};
    for (size_t r = 0; r < graph->count; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (!is_linear(reader)) continue;
        const ls_param *w = &graph->table->params[reader->params[0]];
        const bool own =
            (int)r == search->of->node || (search->node->make == LS_MAKE_GRADIENT &&
                                           ls_graph_back_slot(reader, search->node->of) >= 0);
        if (tried[w->role] || (!own && (search->of->own_inputs || !is_matrix(w->role)))) continue;
        tried[w->role] = true;
        char name[192];
        if (own)
            snprintf(name, sizeof name, "%s", w->name);
        else
            snprintf(name, sizeof name, "the matrix of %s, in every layer,", reader->name);
        LS_TRY(try_transposed_weights(search, w->role, name));
        if (search->fits[LS_CAUSE_TRANSPOSED]) goto exit;
    }
    if (!search->of->own_inputs) LS_TRY(try_transposed_weights(search, LS_ROLES, "all linears"));
    if (search->node->make == LS_MAKE_PARAM_GRADIENT && search->node->n_dims == 2) {
        const size_t rows = search->node->dims[0], columns = search->node->dims[1];
        reread(search->of->right, search->trial, rows, columns);
        reread(search->of->bound, search->trial_bound, rows, columns);
        ls_search_propose(search, LS_CAUSE_TRANSPOSED, search->trial, search->trial_bound,
                          rows == columns ? "candidate is the right gradient transposed"
                                          : "candidate is the right gradient as [out, in]");
    }
exit:
    return status;
}

ls_status ls_cause_arrangement(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_graph_node *node = search->node;
    const bool local = search->of->own_inputs || node->phase == LS_GRAPH_FORWARD;
    LS_TRY(try_transposed(search));
    for (int d = 0; d < node->n_dims; d++) {
        const axis a = axis_of(node, d);
        for (size_t T = 2; T <= 16 && !search->fits[LS_CAUSE_SHARD_ORDER]; T++)
            if (a.extent % T == 0 && a.extent >= T) try_blocks(search, &a, T);
    }
    try_joins(search);
    try_local_exchanges(search);
    try_strides(search);
    if (!search->fits[LS_CAUSE_SHARD_ORDER] && local && search->best.cause == LS_CAUSE_NONE) {
        if (is_linear(node)) LS_TRY(try_input_order(search, node->inputs[0]));
        if (is_linear(node) || node->make == LS_MAKE_EMBEDDING)
            LS_TRY(try_weight_order(search, node));
    }
exit:
    return status;
}
