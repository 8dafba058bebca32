/* dump_view_name.c - what a view is called in the files of ranks. */
#include <stdio.h>

#include "lockstep/partition/share.h"
#include "golden/dump_parts.h"

/* The number of a rank's own micro-batch that begins with, or has, this sequence; -1: none. */
static int own_micro_batch(const dump *d, int rank, size_t sequence)
{
    const ls_layout *layout = &d->run.layout;
    if (d->run.config.kind == LS_MODEL_NET) return -1; /* has none */
    const ls_coordinates at = ls_layout_coordinates(layout, rank);
    const ls_share own = ls_share_of(d->run.batch, (size_t)layout->dp, (size_t)at.dp);
    for (int m = 0; m < layout->micro_batches; m++) {
        const ls_share part = ls_share_of(own.count, (size_t)layout->micro_batches, (size_t)m);
        const size_t first = own.first + part.first;
        if (sequence >= first && sequence < first + part.count) return m;
    }
    return -1;
}

/* What crosses ranks may be no tensor of the model's. */
static void name_other(const dump *d, const ls_view *view, char rest[LS_TENSOR_NAME])
{
    const ls_config *config = &d->run.config;
    char layer[LS_TENSOR_NAME / 2] = "";
    switch (view->kind) {
    case LS_VIEW_SEQUENCE_GRADIENT:
        snprintf(rest, LS_TENSOR_NAME, "grad.%s", view->name);
        break;
    case LS_VIEW_TARGET_COUNTS:
        snprintf(rest, LS_TENSOR_NAME, "target_counts");
        break;
    case LS_VIEW_LOSS_SUMS:
        snprintf(rest, LS_TENSOR_NAME, "loss_sums");
        break;
    case LS_VIEW_SQUARES:
        snprintf(rest, LS_TENSOR_NAME, "squares");
        break;
    default:
        if (view->layer >= 0 && config->kind == LS_MODEL_NET)
            snprintf(layer, sizeof layer, "%s.", config->net.layers[view->layer].name);
        else if (view->layer >= 0)
            snprintf(layer, sizeof layer, "layers.%d.", view->layer);
        snprintf(rest, LS_TENSOR_NAME, "%s%s%s", view->gradient ? "d." : "", layer,
                 ls_point_name(view->point));
        break;
    }
}

/* "step0/mb1/d.layers.0.attention" */
void ls_dump_name_view(const dump *d, int rank, const ls_view *view, char name[LS_TENSOR_NAME])
{
    char rest[LS_TENSOR_NAME];
    const bool of_sequences =
        view->kind == LS_VIEW_POINT || view->kind == LS_VIEW_SEQUENCE_GRADIENT;
    const int node = ls_graph_find_view(d->graph, view);
    if (node >= 0)
        snprintf(rest, sizeof rest, "%s", d->graph->nodes[node].name);
    else
        name_other(d, view, rest);
    ls_tensor_name_write(name, view->step,
                         of_sequences ? own_micro_batch(d, rank, view->dims[0].first) : -1, rest);
}
