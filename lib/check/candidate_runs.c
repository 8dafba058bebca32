/* candidate_runs.c - which part of a golden tensor one in a file is. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "lockstep/parallel/layout/net_grids.h"
#include "lockstep/partition/share.h"
#include "base/allocate.h"
#include "check/candidate_files.h"
#include "golden/golden_files.h"

/* One tensor of a file on its way to its runs. */
typedef struct cutter {
    const ls_candidate_files *files;
    const ls_golden *golden;
    const ls_candidate_file *file;
    const ls_tensor_info *info;
    const ls_candidate_meaning *meaning;
    const ls_graph_node *node;
    ls_view_run *runs;
} cutter;

/* ---- "0:8 0:24 24:48" ---- */

/* A number up to SIZE_MAX behind *text; false: there is none. */
static bool read_number(const char **text, size_t *ret_number)
{
    size_t number = 0;
    const char *first = *text;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        const size_t digit = (size_t)(**text - '0');
        if (number > (SIZE_MAX - digit) / 10) return false;
        number = 10 * number + digit;
    }
    *ret_number = number;
    return *text != first;
}

ls_status ls_candidate_cut(const ls_candidate_file *file, const ls_tensor_info *info,
                           const char *text, int n_dims, ls_view_run *runs)
{
    ls_status status = LS_OK;
    const char *at = text;
    for (int d = 0; d < n_dims; d++) {
        size_t first = 0, end = 0;
        bool good = read_number(&at, &first) && *at == ':';
        at += good;
        good = good && read_number(&at, &end) && (*at == ' ' || *at == '\0');
        at += strspn(at, " ");
        if (!good || (*at == '\0') != (d == n_dims - 1))
            LS_FAIL(LS_ERR_INPUT,
                    "%s: tensor %s: its cut \"%s\" must be FIRST:END of each of its %d dimensions",
                    ls_show(file->path), ls_show(info->name), ls_show(text), n_dims);
        if (first > end || end > runs[d].whole)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: tensor %s: its cut %zu:%zu of dimension %d lies outside 0:%zu",
                    ls_show(file->path), ls_show(info->name), first, end, d, runs[d].whole);
        runs[d].first = first;
        runs[d].count = end - first;
    }
    if (*at != '\0')
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s: its cut \"%s\" is of a single number, which has none",
                ls_show(file->path), ls_show(info->name), ls_show(text));
exit:
    return status;
}

ls_status ls_candidate_cut_text(const ls_candidate_file *file, const char *name,
                                const char **ret_text)
{
    ls_status status = LS_OK;
    char *key = NULL;
    LS_ROOM(key, strlen(name) + sizeof "cut:");
    sprintf(key, "cut:%s", name);
    *ret_text = ls_safetensors_metadata(file->file, key);
exit:
    free(key);
    return status;
}

/* ---- by layout ---- */

/* The d-th word of a node's dim_names; "" after the last. */
static void dim_word(const ls_graph_node *node, int d, char word[24])
{
    const char *at = node->dim_names;
    for (; d > 0 && *at; d--) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    snprintf(word, 24, "%.*s", (int)strcspn(at, " "), at);
}

static bool is_batch(const ls_graph_node *node)
{
    char word[24];
    dim_word(node, 0, word);
    return node->n_dims > 0 && strcmp(word, "B") == 0;
}

/* Takes `share` as the run of dimension d if the file's tensor is as long. */
static bool fits(const cutter *c, int d, ls_share share)
{
    if (c->info->dims[d] != share.count) return false;
    c->runs[d].first = share.first;
    c->runs[d].count = share.count;
    return true;
}

/* The library's own share of a dimension that tp cuts, where it is not an even one: granules of the
 * padded vocabulary; key and value heads that several ranks hold. */
static bool granule_share(const cutter *c, int d, const char *word, size_t tp, size_t at,
                          ls_share *ret_share)
{
    const ls_config *config = &c->golden->run.config;
    const size_t extent = c->node->dims[d];
    ls_share granules;
    ls_axis axis;
    if (strcmp(word, "V[tp]") == 0) {
        axis = ls_config_vocab_axis(config);
        granules = ls_share_of(axis.granules, tp, at);
    } else if (strcmp(word, "Dkv[tp]") == 0) {
        axis = ls_config_kv_axis(config);
        granules =
            ls_share_of_kv(ls_share_of(config->heads, tp, at), config->heads / config->kv_heads);
    } else {
        return false;
    }
    size_t first = granules.first * axis.granule;
    size_t end = first + granules.count * axis.granule;
    if (first > extent) first = extent;
    if (end > extent) end = extent;
    *ret_share = (ls_share){first, end - first};
    return true;
}

/* Sequences: the data-parallel share, and of that the micro-batch. */
static ls_status cut_batch(const cutter *c, ls_coordinates at)
{
    ls_status status = LS_OK;
    const ls_layout *layout = &c->files->layout;
    const size_t B = c->node->dims[0];
    const ls_share own = ls_share_of(B, (size_t)layout->dp, (size_t)at.dp);
    if (c->meaning->micro_batch < 0) {
        if (!fits(c, 0, own)) fits(c, 0, (ls_share){0, B});
        goto exit;
    }
    if (c->meaning->micro_batch >= layout->micro_batches)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s: micro-batch %d; the file's layout has %d, from 0",
                ls_show(c->file->path), ls_show(c->info->name), c->meaning->micro_batch,
                layout->micro_batches);
    const ls_share part =
        ls_share_of(own.count, (size_t)layout->micro_batches, (size_t)c->meaning->micro_batch);
    c->runs[0].first = own.first + part.first;
    c->runs[0].count = part.count;
exit:
    return status;
}

/* Of a network's tensor: the block that the rank has in the grid of its layer. */
static ls_status cut_by_grid(const cutter *c)
{
    ls_status status = LS_OK;
    const ls_net *net = &c->golden->run.config.net;
    const ls_layout *layout = &c->files->layout;
    const int last = (int)net->count - 1, layer = c->node->layer < 0 ? last : c->node->layer;
    const bool per_image = c->node->phase != LS_GRAPH_UPDATE && strstr(c->node->dim_names, "N[dp]");
    ls_net_shapes shapes;
    ls_net_grids grids;
    for (int s = 0; s < layout->n_strategies; s++)
        if (layout->strategies[s].layer > last)
            LS_FAIL(LS_ERR_INPUT, "%s: its layout has a grid of layer %d; the network has %d",
                    ls_show(c->file->path), layout->strategies[s].layer, last + 1);
    ls_net_shapes_of(net, &shapes);
    ls_net_grids_of(layout, net, &grids);
    const ls_net_shape *shape = &shapes.layer[layer];
    const ls_layer_grid *grid = &grids.layer[layer];
    const ls_grid_place at = ls_layer_grid_place(grid, c->file->rank);
    const ls_share granules = ls_net_channel_granules(shape, grid, at.channel);
    const ls_share channels = {granules.first * shape->axis.granule,
                               granules.count * shape->axis.granule};
    const ls_image_box box = ls_net_block(net, shape, grid, c->golden->run.batch, c->file->rank);
    const ls_share block[4] = {
        box.images, channels, {box.area.top, box.area.height}, {box.area.left, box.area.width}};
    for (int d = 0; d < c->node->n_dims && d < c->info->n_dims; d++) {
        char word[24];
        dim_word(c->node, d, word);
        if (per_image)
            fits(c, d, ls_image_box_is_empty(&box) ? (ls_share){0, 0} : block[d]);
        else if (strcmp(word, "C[channel]") == 0)
            fits(c, d, channels);
    }
exit:
    return status;
}

/* As the names of its dimensions say; a dimension that the rank has whole stays so. */
static ls_status cut_by_layout(const cutter *c)
{
    ls_status status = LS_OK;
    const ls_layout *layout = &c->files->layout;
    const ls_coordinates at = ls_layout_coordinates(layout, c->file->rank);
    const size_t tp = (size_t)layout->tp;
    if (c->golden->run.config.kind == LS_MODEL_NET) return cut_by_grid(c);
    for (int d = 0; d < c->node->n_dims && d < c->info->n_dims; d++) {
        char word[24];
        dim_word(c->node, d, word);
        const ls_share even = ls_share_of(c->node->dims[d], tp, (size_t)at.tp);
        ls_share own;
        if (strstr(word, "[tp]")) {
            if (!fits(c, d, even) && granule_share(c, d, word, tp, (size_t)at.tp, &own))
                fits(c, d, own);
        } else if (strstr(word, "[sp]") && layout->sp) {
            fits(c, d, even);
        }
    }
    if (is_batch(c->node)) LS_TRY(cut_batch(c, at));
exit:
    return status;
}

/* ---- by micro-batch only ---- */

static ls_status cut_by_part(const cutter *c)
{
    ls_status status = LS_OK;
    const ls_manifest *manifest = &c->golden->files->manifest;
    const int m = c->meaning->micro_batch;
    if ((size_t)m >= manifest->n_parts)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s: micro-batch %d; the golden run has %zu, from 0",
                ls_show(c->file->path), ls_show(c->info->name), m, manifest->n_parts);
    c->runs[0].first = manifest->parts[m][0];
    c->runs[0].count = manifest->parts[m][1] - manifest->parts[m][0];
exit:
    return status;
}

/* ---- the whole ---- */

static ls_status check_micro_batch(const cutter *c)
{
    ls_status status = LS_OK;
    if (c->meaning->micro_batch < 0) goto exit;
    if (!is_batch(c->node))
        LS_FAIL(LS_ERR_INPUT,
                "%s: tensor %s: belongs to the whole step; no micro-batch has a part of it",
                ls_show(c->file->path), ls_show(c->info->name));
    if ((size_t)c->meaning->micro_batch >= c->node->dims[0])
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s: micro-batch %d of a batch of %zu sequences",
                ls_show(c->file->path), ls_show(c->info->name), c->meaning->micro_batch,
                c->node->dims[0]);
exit:
    return status;
}

static ls_status check_shape(const cutter *c, bool cut)
{
    ls_status status = LS_OK;
    const ls_tensor_info *info = c->info;
    uint64_t wanted[LS_NODE_DIMS] = {0}, whole[LS_NODE_DIMS] = {0};
    char theirs[LS_GOLDEN_SHAPE], ours[LS_GOLDEN_SHAPE], all[LS_GOLDEN_SHAPE];
    /* What has one pixel may be written without it: [N, C] for [N, C, 1, 1]. */
    bool same = info->n_dims <= c->node->n_dims && (info->n_dims > 0 || c->node->n_dims == 0),
         part = false;
    for (int d = 0; d < c->node->n_dims; d++) {
        wanted[d] = c->runs[d].count;
        whole[d] = c->node->dims[d];
        same = same && (d < info->n_dims ? info->dims[d] == wanted[d]
                                         : d >= 2 && whole[d] == 1 && wanted[d] == 1);
        part = part || wanted[d] != whole[d];
    }
    /* A single number is [] or [1]. */
    if (c->node->n_dims == 0) same = info->elements == 1 && info->n_dims <= 1;
    if (same) goto exit;
    ls_golden_shape(info->n_dims, info->dims, theirs);
    ls_golden_shape(c->node->n_dims, wanted, ours);
    ls_golden_shape(c->node->n_dims, whole, all);
    if (part)
        LS_FAIL(LS_ERR_INPUT,
                "%s: tensor %s has the shape %s; %s makes it %s of the golden "
                "tensor's %s",
                ls_show(c->file->path), ls_show(info->name), theirs,
                cut                    ? "its cut"
                : c->files->has_layout ? "the layout"
                                       : "its micro-batch",
                ours, all);
    LS_FAIL(LS_ERR_INPUT, "%s: tensor %s has the shape %s; the golden directory's has %s%s",
            ls_show(c->file->path), ls_show(info->name), theirs, all,
            c->file->rank < 0 || cut || c->files->has_layout
                ? ""
                : "; a part of it needs \"cut:\" or \"layout\" in __metadata__");
exit:
    return status;
}

ls_status ls_candidate_runs(const ls_candidate_files *files, const ls_golden *golden,
                            const ls_candidate_file *file, const ls_tensor_info *info,
                            const ls_candidate_meaning *meaning, ls_view_run ret_runs[LS_VIEW_DIMS])
{
    ls_status status = LS_OK;
    ls_view_run runs[LS_VIEW_DIMS] = {{0, 0, 0}};
    const ls_graph_node *node = &golden->graph->nodes[meaning->node];
    const cutter c = {files, golden, file, info, meaning, node, runs};
    const char *cut = NULL;
    for (int d = 0; d < node->n_dims; d++) runs[d] = (ls_view_run){node->dims[d], 0, node->dims[d]};
    LS_TRY(check_micro_batch(&c));
    LS_TRY(ls_candidate_cut_text(file, info->name, &cut));
    if (cut)
        LS_TRY(ls_candidate_cut(file, info, cut, node->n_dims, runs));
    else if (file->rank >= 0 && files->has_layout)
        LS_TRY(cut_by_layout(&c));
    else if (meaning->micro_batch >= 0)
        LS_TRY(cut_by_part(&c));
    LS_TRY(check_shape(&c, cut != NULL));
    memcpy(ret_runs, runs, sizeof runs);
exit:
    return status;
}
