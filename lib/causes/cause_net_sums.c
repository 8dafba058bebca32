/* cause_net_sums.c - sums over the ranks of a network gone wrong: a parameter's gradient of one
 * rank's images and pixels only, of some channels only, biases that count several times. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/partition/share.h"
#include "causes/cause_net.h"
#include "step_graph/operation_net.h"

/* ---- gradients of a part of the images and pixels ---- */

/* dy outside of block `b` of the grid becomes 0. */
static void keep_block(const ls_search *search, const ls_graph_node *reader,
                       const ls_variant_grid *grid, size_t b, double *dy)
{
    const ls_net *net = &search->config->net;
    const size_t C = reader->dims[1], H = reader->dims[2], W = reader->dims[3];
    const ls_share images =
        ls_share_of(search->graph->B, grid->samples, b / (grid->down * grid->across));
    const ls_share rows =
        ls_net_block_pixels(H, net->row_granules, grid->down, b / grid->across % grid->down);
    const ls_share columns =
        ls_net_block_pixels(W, net->column_granules, grid->across, b % grid->across);
    for (size_t i = 0; i < search->graph->B * C * H * W; i++) {
        const size_t n = i / (C * H * W), r = i / W % H, c = i % W;
        if (n < images.first || n >= images.first + images.count || r < rows.first ||
            r >= rows.first + rows.count || c < columns.first || c >= columns.first + columns.count)
            dy[i] = 0;
    }
}

/* The gradient from one block. The products with zeros are left out: a block costs its share. */
static ls_status try_block(ls_search *search, const ls_graph_node *reader, int dy,
                           const ls_variant_grid *grid, size_t b)
{
    ls_status status = LS_OK;
    const size_t blocks = grid->samples * grid->down * grid->across;
    char text[LS_EVIDENCE], words[64];
    double *values;
    ls_change change = {0};
    const double work = ls_search_work_of(search->graph, search->of->node) / (double)blocks;
    if (work > search->work) {
        search->cut_short = true;
        return LS_OK;
    }
    search->work -= work;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    change.variant.sparse = true;
    LS_TRY(ls_change_value(&change, dy, &values));
    keep_block(search, reader, grid, b, values);
    LS_TRY(ls_operation_evaluate(&change.operands, search->of->node, search->of->precision,
                                 search->trial, search->trial_bound));
    snprintf(text, sizeof text, "candidate is of part %zu of %zu alone (%s)", b, blocks,
             ls_grid_text(grid, words));
    ls_search_propose(search, LS_CAUSE_WEIGHT_GRADIENT, search->trial, search->trial_bound, text);
    /* ... or a mean over the parts of such. */
    for (size_t i = 0; i < search->n; i++) search->trial[i] *= (double)blocks;
    for (size_t i = 0; i < search->n; i++) search->trial_bound[i] *= (double)blocks;
    snprintf(text, sizeof text, "candidate is of part %zu of %zu alone, times %zu (%s)", b, blocks,
             blocks, words);
    ls_search_propose(search, LS_CAUSE_WEIGHT_GRADIENT, search->trial, search->trial_bound, text);
exit:
    ls_change_end(&change);
    return status;
}

static const ls_graph_node *reader_of(const ls_search *search)
{
    for (size_t r = 0; r < search->graph->count; r++)
        if (search->graph->nodes[r].phase == LS_GRAPH_FORWARD &&
            ls_graph_param_slot(&search->graph->nodes[r], search->node->params[0]) >= 0)
            return &search->graph->nodes[r];
    return NULL;
}

static ls_status try_blocks(ls_search *search)
{
    ls_status status = LS_OK;
    const net_cutting cutting = {true, true};
    ls_variant_grid grids[LS_SEARCH_GRIDS];
    size_t known;
    const ls_graph_node *reader = reader_of(search);
    if (!reader) goto exit;
    const int dy = ls_graph_gradient(search->graph, (int)(reader - search->graph->nodes));
    const size_t n = ls_search_grids(search, reader->layer, &cutting, grids, &known);
    if (!search->values[dy]) goto exit;
    for (size_t g = 0; g < n && !search->fits[LS_CAUSE_WEIGHT_GRADIENT]; g++) {
        const size_t blocks = grids[g].samples * grids[g].down * grids[g].across;
        for (size_t b = 0; b < blocks && !search->fits[LS_CAUSE_WEIGHT_GRADIENT]; b++)
            LS_TRY(try_block(search, reader, dy, &grids[g], b));
    }
exit:
    return status;
}

/* ---- a whole, several times or divided ---- */

static void try_factor(ls_search *search)
{
    char text[LS_EVIDENCE], size[64];
    const double k = ls_round_factor(ls_search_ratio(search, search->of->right));
    const bool twice = k >= 2 && k <= 64 && k == rint(k);
    const size_t whole = (size_t)rint(twice ? k : k > 0 ? 1 / k : 0);
    if (!twice && !(k > 0 && k < 1 && whole <= 64)) return;
    snprintf(text, sizeof text, "candidate = %s%zu x right%s", twice ? "" : "1/", whole,
             ls_search_size(search, whole, size));
    ls_search_propose_scaled(search, twice ? LS_CAUSE_REDUCED_TWICE : LS_CAUSE_AVERAGED, k, 0,
                             text);
}

/* ---- channels ---- */

/* Whether node `r` is a product of channels whose gradient goes back into this node. */
static bool is_product_reader(const ls_search *search, size_t r)
{
    const ls_graph_node *reader = &search->graph->nodes[r];
    return ls_kind_has(reader->make, LS_IS_PRODUCT | LS_IS_CONVOLUTION) &&
           ls_graph_slot(reader, search->node->of) >= 0;
}

/* A gradient from a run of the channels that read it. */
static ls_status try_channels(ls_search *search, size_t reader, size_t parts)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const int dy = ls_graph_gradient(search->graph, (int)reader);
    const ls_graph_node *of = &search->graph->nodes[reader];
    const size_t channels = of->dims[1], pixels = of->dims[2] * of->dims[3];
    for (size_t part = 0; part < parts; part++) {
        const ls_share own = ls_share_of(channels, parts, part);
        ls_change change = {0};
        double *values;
        if (search->fits[LS_CAUSE_NOT_REDUCED] || !search->values[dy]) break;
        LS_TRY(ls_change_begin(&change, &search->of->operands));
        status = ls_change_value(&change, dy, &values);
        for (size_t i = 0; status == LS_OK && i < ls_graph_elements(search->graph, dy); i++) {
            const size_t c = i / pixels % channels;
            if (c < own.first || c >= own.first + own.count) values[i] = 0;
        }
        snprintf(text, sizeof text, "of what %s sends back, channels %zu to %zu of %zu alone",
                 of->name, own.first, own.first + own.count - 1, channels);
        if (status == LS_OK)
            status = ls_search_evaluate(search, LS_CAUSE_NOT_REDUCED, &change.operands, text);
        ls_change_end(&change);
        LS_TRY(status);
    }
exit:
    return status;
}

static ls_status try_readers(ls_search *search)
{
    ls_status status = LS_OK;
    for (size_t r = 0; r < search->graph->count; r++) {
        if (search->graph->nodes[r].phase != LS_GRAPH_FORWARD) break;
        if (!is_product_reader(search, r)) continue;
        for (size_t parts = 2; parts <= 8 && parts <= search->graph->nodes[r].dims[1]; parts *= 2)
            LS_TRY(try_channels(search, r, parts));
    }
exit:
    return status;
}

/* ---- biases ---- */

static ls_status try_bias(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], size[64];
    const ls_graph_node *node = search->node;
    const double *b = node->params[1] < 0 ? NULL : search->of->operands.params[node->params[1]];
    const size_t pixels = node->n_dims == 4 ? node->dims[2] * node->dims[3] : 1;
    if (!b) goto exit;
    for (int k = 0; k <= 16; k++) {
        if (k == 1) continue;
        for (size_t i = 0; i < search->n; i++) {
            const double bias = b[i / pixels % node->dims[1]];
            search->trial[i] = search->of->right[i] + (k - 1) * bias;
            search->trial_bound[i] =
                search->of->bound[i] + (k + 1) * 4 * search->of->precision.u * fabs(bias);
        }
        snprintf(text, sizeof text, "candidate - right = %d x bias, so it was added %d times%s",
                 k - 1, k, ls_search_size(search, (size_t)k, size));
        ls_search_propose(search, k ? LS_CAUSE_BIAS_PER_RANK : LS_CAUSE_BIAS_MISSING, search->trial,
                          search->trial_bound, text);
    }
exit:
    return status;
}

ls_status ls_cause_net_sums(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_operation_kind make = search->node->make;
    if (search->node->phase == LS_GRAPH_UPDATE) goto exit;
    if (ls_kind_has(make, LS_IS_PRODUCT | LS_IS_CONVOLUTION)) LS_TRY(try_bias(search));
    try_factor(search);
    if (make == LS_MAKE_PARAM_GRADIENT && search->best.cause == LS_CAUSE_NONE)
        LS_TRY(try_blocks(search));
    if (make == LS_MAKE_GRADIENT) LS_TRY(try_readers(search));
exit:
    return status;
}
