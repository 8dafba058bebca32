/* cause_net_formula.c - a layer of a network by another formula, or with its weight held in another
 * arrangement: kernels turned or transposed, pixels outermost, another divisor in pooling. */
#include <string.h>

#include "causes/cause_net.h"
#include "step_graph/operation_net.h"

#define POOLS (LS_KIND(MAX_POOL) | LS_KIND(AVERAGE_POOL))
#define MEANS (LS_KIND(AVERAGE_POOL) | LS_KIND(GLOBAL_POOL))
#define CONVS LS_KIND(CONV)
#define LINEARS LS_KIND(LINEAR)

static const ls_form layers[] = {
    LS_FORM(POOLING, MEANS, "the sum of the pixels, not divided by their number",
            .pool_summed = true),
    LS_FORM(POOLING, POOLS,
            "the mean of a window counts padding where it should not, or does not where it should",
            .pad_counts = true),
    LS_FORM(POOLING, POOLS, "of equal pixels the last one is the largest, not the first",
            .last_of_ties = true),
    LS_FORM(
        PADDED_SIDE, CONVS | POOLS,
        "windows are padded on the other side: as little before the image as they should be after "
        "it",
        .padded_behind = true),
    LS_FORM(
        ASSIGNED, LS_KIND(MAX_POOL),
        "a pixel that is the largest of several windows has the last one's gradient, not their sum",
        .assigned = true),
    LS_FORM(RESPONSE_ALPHA, LS_KIND(RESPONSE_NORM), "alpha is divided by the span of channels",
            .alpha_over_span = true),
    LS_FORM(
        KERNEL_FLIPPED, CONVS,
        "kernels are turned by half a turn: a convolution, where networks have a cross-correlation",
        .flipped = true)};

/* ---- weights in another arrangement ---- */

/* What is at place `to` of a weight's row comes from place `from`. */
typedef size_t rearrangement(const ls_net_shape *in, const ls_net_layer *layer, size_t to);

static size_t transposed_kernel(const ls_net_shape *in, const ls_net_layer *layer, size_t to)
{
    const size_t kh = layer->kernel_h, kw = layer->kernel_w, at = to % (kh * kw);
    (void)in;
    return to / (kh * kw) * (kh * kw) + at % kw * kh + at / kw;
}

/* [kernel_h, kernel_w, read] read as [read, kernel_h, kernel_w] */
static size_t kernel_outermost(const ls_net_shape *in, const ls_net_layer *layer, size_t to)
{
    const size_t taps = layer->kernel_h * layer->kernel_w;
    const size_t read = in->channels / layer->groups;
    return to % taps * read + to / taps;
}

/* [height, width, channels] of an image read as [channels, height, width] */
static size_t pixels_outermost(const ls_net_shape *in, const ls_net_layer *layer, size_t to)
{
    const size_t pixels = in->height * in->width;
    (void)layer;
    return to % pixels * in->channels + to / pixels;
}

/* All weights of a kind of layer rearranged. */
static ls_status try_weights(ls_search *search, ls_net_kind kind, rearrangement *how,
                             const char *text)
{
    ls_status status = LS_OK;
    const ls_param_table *table = search->graph->table;
    const ls_net *net = &search->config->net;
    ls_net_shapes shapes;
    ls_change change = {0};
    ls_net_shapes_of(net, &shapes);
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    for (size_t p = 0; p < table->count; p++) {
        const ls_param *param = &table->params[p];
        const ls_net_layer *layer = &net->layers[param->layer];
        const double *from = search->of->operands.params[p];
        double *into;
        if (param->n_dims != 2 || layer->kind != kind || !from) continue;
        const ls_net_shape *in = ls_net_shape_at(&shapes, layer->from);
        const size_t rows = param->dims[0], columns = param->dims[1];
        LS_TRY(ls_change_param(&change, (int)p, &into));
        for (size_t i = 0; i < rows * columns; i++)
            if (kind == LS_NET_CONV)
                into[i] = from[i / columns * columns + how(in, layer, i % columns)];
            else
                into[i] = from[how(in, layer, i / columns) * columns + i % columns];
    }
    LS_TRY(ls_search_try(search, LS_CAUSE_TRANSPOSED, 0, &change, text));
exit:
    ls_change_end(&change);
    return status;
}

/* [out, in] read as [in, out]. */
static ls_status try_dense(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_param_table *table = search->graph->table;
    ls_change change = {0};
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    for (size_t p = 0; p < table->count; p++) {
        const ls_param *param = &table->params[p];
        const double *from = search->of->operands.params[p];
        double *into;
        if (param->role != LS_DENSE_WEIGHT || !from) continue;
        LS_TRY(ls_change_param(&change, (int)p, &into));
        for (size_t i = 0; i < param->dims[0] * param->dims[1]; i++)
            into[i] = from[i % param->dims[1] * param->dims[0] + i / param->dims[1]];
    }
    LS_TRY(ls_search_try(search, LS_CAUSE_TRANSPOSED, 0, &change,
                         "candidate is what dense weights give with their [out, in] array read as "
                         "[in, out]"));
exit:
    ls_change_end(&change);
    return status;
}

ls_status ls_cause_net_formula(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->node->phase == LS_GRAPH_UPDATE) goto exit;
    LS_TRY_FORMS(search, layers);
    if (ls_search_can_concern(search, CONVS)) {
        LS_TRY(try_weights(search, LS_NET_CONV, transposed_kernel,
                           "candidate is what kernels give with rows and columns exchanged"));
        LS_TRY(try_weights(search, LS_NET_CONV, kernel_outermost,
                           "candidate is what convolutions give with their weight's [kernel_h, "
                           "kernel_w, read] read as [read, kernel_h, kernel_w]"));
    }
    if (ls_search_can_concern(search, LINEARS)) {
        LS_TRY(try_weights(search, LS_NET_DENSE, pixels_outermost,
                           "dense layers read images as [height, width, channels], not as "
                           "[channels, height, width]"));
        LS_TRY(try_dense(search));
    }
exit:
    return status;
}
