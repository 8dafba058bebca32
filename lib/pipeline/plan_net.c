/* plan_net.c - a convolutional network's blocks, halos, redistributions and sums, layer by layer
 * and rank by rank. It is independent of the engine's account (parallel/spatial/net_boxes.c); they
 * share the boxes of net_grids.h and nothing else. */
#include "pipeline/plan_net.h"

#include <stdlib.h>

#include "lockstep/numerics/pixel_tree.h"
#include "lockstep/parallel/layout/net_grids.h"
#include "base/allocate.h"

/* What a rank takes part in on a route of boxes. */
typedef struct passing {
    bool needed;
    uint64_t peers_to, peers_from; /* others that it sends to, receives from       */
    uint64_t sent, received;       /* elements to and from others                  */
    uint64_t packed;               /* elements to others and to itself             */
    uint64_t largest;              /* elements of the largest message that arrives */
} passing;

typedef struct planner {
    ls_plan *plan;
    const ls_net *net;
    ls_net_shapes shapes;
    ls_net_grids grids;
    size_t batch;
    uint64_t e;
    ls_image_box *owned, *wanted; /* of all ranks: what is passing now */
    passing *passing;             /* of all ranks, the same */
    /* Of all ranks, during one layer: what they hand in forward and backward at once, in elements;
     * bytes of messages. */
    uint64_t *most_handed;
} planner;

static uint64_t count_of(const ls_image_box *box)
{
    return ls_image_box_count(box);
}

static void count_calls(ls_rank_plan *rank, ls_operation operation, uint64_t calls, uint64_t bytes)
{
    rank->comm[operation].calls += calls;
    rank->comm[operation].bytes += bytes;
}

/* ---- what passes ---- */

/* Whether all of `wanted` is in `has`, in the same images and channels: then it is read there. */
static bool stands_there(const ls_image_box *wanted, const ls_image_box *has)
{
    ls_image_box narrow = *has;
    const ls_image_box common = ls_image_box_common(wanted, has);
    narrow.area = wanted->area;
    return ls_image_box_equal(&common, wanted) && ls_image_box_equal(&narrow, wanted);
}

/* Fills p->passing from p->owned and p->wanted. in_place: what a rank has all of is read where it
 * is. */
static void find_passing(planner *p, bool in_place)
{
    const int ranks = p->plan->ranks;
    for (int r = 0; r < ranks; r++) p->passing[r] = (passing){.needed = false};
    for (int to = 0; to < ranks; to++) {
        const ls_image_box *wanted = &p->wanted[to], *has = &p->owned[to];
        passing *taker = &p->passing[to];
        const bool there = in_place ? stands_there(wanted, has) : ls_image_box_equal(wanted, has);
        taker->needed |= !ls_image_box_is_empty(wanted) && !there;
        for (int from = 0; from < ranks; from++) {
            const ls_image_box piece = ls_image_box_common(&p->owned[from], wanted);
            const uint64_t count = count_of(&piece);
            passing *giver = &p->passing[from];
            if (count == 0) continue;
            if (from == to) {
                /* A rank that reads where it is and yet sends hands all it has to itself. */
                giver->packed += there ? count_of(has) : count;
                continue;
            }
            giver->needed = true;
            giver->packed += count;
            giver->sent += count;
            giver->peers_to++;
            taker->received += count;
            taker->peers_from++;
            if (count > taker->largest) taker->largest = count;
        }
    }
}

/* Counts `times` exchanges of what is passing, `e` bytes an element; returns what all ranks
 * together receive, and what the rank that receives most does. */
static ls_net_traffic count_passing(planner *p, uint64_t times, uint64_t e)
{
    ls_net_traffic sum = {0, 0};
    for (int r = 0; r < p->plan->ranks; r++) {
        const passing *x = &p->passing[r];
        if (!x->needed) continue;
        count_calls(&p->plan->rank[r], LS_OP_SEND, times * x->peers_to, times * x->sent * e);
        count_calls(&p->plan->rank[r], LS_OP_RECEIVE, times * x->peers_from, 0);
        sum.bytes += times * x->received * e;
        if (times * x->received * e > sum.most) sum.most = times * x->received * e;
    }
    return sum;
}

static uint64_t message_bytes(const passing *x, uint64_t e)
{
    return x->needed ? (x->packed + x->largest) * e : 0;
}

/* ---- one layer ---- */

static ls_layer_grid grid_of(const planner *p, size_t l)
{
    return p->grids.layer[l];
}

static uint64_t channels_at(const ls_net_shape *shape, const ls_layer_grid *grid, int rank)
{
    const ls_grid_place at = ls_layer_grid_place(grid, rank);
    return ls_net_channel_granules(shape, grid, at.channel).count * shape->axis.granule;
}

/* Nodes of the tree over images and pixels that a rank has in a layer's grid: of the whole batch,
 * or inside one image. */
static uint64_t nodes_of(const planner *p, const ls_net_shape *shape, const ls_layer_grid *grid,
                         int rank, bool one_image)
{
    const ls_grid_place at = ls_layer_grid_place(grid, rank);
    const bool one = shape->height * shape->width == 1 && grid->down * grid->across == 1;
    const size_t rows = one ? 1 : p->net->row_granules, columns = one ? 1 : p->net->column_granules;
    const ls_pixel_tree tree = {one_image ? 1 : p->batch, rows, columns};
    const ls_spatial_grid image = {(size_t)grid->down, (size_t)grid->across, rows, columns};
    const size_t member = (size_t)(at.row * grid->across + at.column);
    const ls_share images = one_image
                                ? (ls_share){0, 1}
                                : ls_share_of(p->batch, (size_t)grid->samples, (size_t)at.sample);
    const ls_pixel_area area = {images.first, images.count, ls_spatial_granules(&image, member)};
    return ls_pixel_forest(&tree, area, NULL);
}

/* Counts an all-reduce of so many elements by one rank, for layer l. */
static void all_reduce(planner *p, int rank, size_t l, uint64_t elements)
{
    count_calls(&p->plan->rank[rank], LS_OP_ALL_REDUCE, 1, elements * p->e);
    p->plan->net_layers[l].summed += elements * p->e;
}

/* Elements of dx's parts that a rank sends where channels are cut; 0: it shares them with
 * nobody. */
static uint64_t channel_parts(const planner *p, size_t l, int rank)
{
    const ls_net_layer *layer = &p->net->layers[l];
    const ls_net_shape *in = ls_net_shape_at(&p->shapes, layer->from), *out = &p->shapes.layer[l];
    const ls_layer_grid grid = grid_of(p, l);
    const ls_grid_place at = ls_layer_grid_place(&grid, rank);
    const size_t groups = ls_net_groups(layer);
    const ls_share own = ls_net_channel_granules(out, &grid, at.channel);
    const size_t each = out->axis.granules / groups;
    if (layer->from == LS_NET_IMAGE || own.count >= each || own.count == 0) return 0;
    /* Of all channels of the group, also where the rank gets none of the sum. */
    const ls_layer_grid uncut = {grid.samples, grid.down, grid.across, 1};
    ls_image_box part = ls_net_block(p->net, in, &uncut, p->batch, rank / grid.channels);
    part.channels.count = in->channels / groups;
    const size_t lo = own.first % each;
    return ls_tree_forest(each, lo, lo + own.count, NULL) * count_of(&part);
}

/* ---- kinds ---- */

/* What a kind's sums cost a rank in layer l: counts the reductions, and returns the elements that
 * the rank sends at once, backward. channels: of the output, that the rank has. */
typedef uint64_t kind_sums(planner *p, size_t l, int rank, uint64_t channels);

/* Weights and bias, and dx where channels are cut. Returns the elements of the weights' partial
 * sums; *ret_nodes: of the tree over images and pixels; *ret_parts: elements of dx's. */
static uint64_t plan_weights(planner *p, size_t l, int rank, uint64_t channels, uint64_t *ret_nodes,
                             uint64_t *ret_parts)
{
    const ls_net_layer *layer = &p->net->layers[l];
    const ls_layer_grid grid = grid_of(p, l);
    const uint64_t terms = ls_net_terms(layer, ls_net_shape_at(&p->shapes, layer->from));
    const uint64_t nodes = nodes_of(p, &p->shapes.layer[l], &grid, rank, false);
    const uint64_t parts = channel_parts(p, l, rank);
    all_reduce(p, rank, l, nodes * channels * terms);
    if (layer->bias) all_reduce(p, rank, l, nodes * channels);
    if (parts > 0) {
        count_calls(&p->plan->rank[rank], LS_OP_REDUCE_SCATTER, 1, parts * p->e);
        p->plan->net_layers[l].summed += parts * p->e;
    }
    *ret_nodes = nodes;
    *ret_parts = parts;
    return nodes * channels * terms;
}

static uint64_t plan_conv(planner *p, size_t l, int rank, uint64_t channels)
{
    uint64_t nodes, parts;
    const uint64_t weights = plan_weights(p, l, rank, channels, &nodes, &parts);
    return parts > weights ? parts : weights;
}

/* The sums of weights and bias are made before either is reduced. */
static uint64_t plan_dense(planner *p, size_t l, int rank, uint64_t channels)
{
    uint64_t nodes, parts;
    const uint64_t weights = plan_weights(p, l, rank, channels, &nodes, &parts);
    return weights + nodes * channels + parts;
}

/* Sums of x and of (x - mean)^2; dscale and dshift together. */
static uint64_t plan_batch_norm(planner *p, size_t l, int rank, uint64_t channels)
{
    const ls_layer_grid grid = grid_of(p, l);
    const uint64_t nodes = nodes_of(p, &p->shapes.layer[l], &grid, rank, false);
    if (channels == 0) return 0;
    all_reduce(p, rank, l, nodes * channels);
    all_reduce(p, rank, l, nodes * channels);
    all_reduce(p, rank, l, nodes * 2 * channels);
    return nodes * 2 * channels;
}

static uint64_t plan_global_pool(planner *p, size_t l, int rank, uint64_t channels)
{
    const ls_layer_grid grid = grid_of(p, l);
    const ls_grid_place at = ls_layer_grid_place(&grid, rank);
    const ls_net_shape *in = ls_net_shape_at(&p->shapes, p->net->layers[l].from);
    const uint64_t count =
        ls_share_of(p->batch, (size_t)grid.samples, (size_t)at.sample).count * channels;
    const uint64_t nodes = nodes_of(p, in, &grid, rank, true);
    if (count > 0) all_reduce(p, rank, l, nodes * count);
    return nodes * count;
}

/* What a layer keeps from forward to backward besides its output y: numbers and places (int32) for
 * each element of y, which backward also reads of neighbours as it does dy; numbers per channel. */
typedef struct kind_plan {
    kind_sums *sums; /* NULL: none */
    uint64_t numbers, places, channel_numbers;
} kind_plan;

static const kind_plan conv = {plan_conv, 0, 0, 0}, max_pool = {NULL, 0, 1, 0},
                       avg_pool = {NULL, 0, 0, 0}, global_pool = {plan_global_pool, 0, 0, 0},
                       batch_norm = {plan_batch_norm, 0, 0, 3}, relu = {NULL, 0, 0, 0},
                       response_norm = {NULL, 1, 0, 0}, dropout = {NULL, 0, 0, 0},
                       dense = {plan_dense, 0, 0, 0}, add = {NULL, 0, 0, 0};

#define PLAN(KIND, name) [LS_NET_##KIND] = &name,
static const kind_plan *const kinds[LS_NET_KINDS] = {LS_NET_EACH_KIND(PLAN)};

/* What a rank keeps of layer l between forward and backward besides what it reads, and the
 * reductions. Returns the elements that it sends at once, backward. */
static uint64_t plan_rank(planner *p, size_t l, int rank, uint64_t *saved)
{
    const ls_net_shape *out = &p->shapes.layer[l];
    const kind_plan *kind = kinds[p->net->layers[l].kind];
    const ls_layer_grid grid = grid_of(p, l);
    const ls_image_box own = ls_net_block(p->net, out, &grid, p->batch, rank);
    const uint64_t channels = channels_at(out, &grid, rank);
    uint64_t sent = kind->sums ? kind->sums(p, l, rank, channels) : 0;
    *saved += count_of(&own) * ((1 + kind->numbers) * p->e + kind->places * 4) +
              kind->channel_numbers * channels * p->e;
    if (l + 1 == p->net->count) { /* maximum and sum of each row; the losses */
        const uint64_t nodes = nodes_of(p, out, &grid, rank, false);
        *saved += 2 * own.images.count * p->e;
        all_reduce(p, rank, l, nodes);
        if (sent < nodes + 1) sent = nodes + 1;
    }
    return sent;
}

/* ---- a halo by formula ---- */

/* What a window's kernel reaches beyond a block along one axis: O = (K - 1) / 2 pixels of each
 * neighbour, of which a rank in the middle has two. */
static uint64_t edge(size_t kernel, size_t dilation, int ranks)
{
    const uint64_t neighbours = ranks > 2 ? 2 : (uint64_t)(ranks - 1);
    return neighbours * ((kernel - 1) * dilation / 2);
}

/* Bytes that the rank in the middle of the grid receives by the formula O x edge x channels x
 * images, corners included; 0 for layers without a window, or whose pixels are not cut. */
static uint64_t halo_formula(const planner *p, size_t l)
{
    const ls_net_layer *layer = &p->net->layers[l];
    const ls_net_shape *in = ls_net_shape_at(&p->shapes, layer->from);
    const ls_layer_grid grid = grid_of(p, l);
    if (ls_net_traits_of(layer->kind)->pixels != LS_NET_WINDOW || layer->from == LS_NET_IMAGE ||
        grid.down * grid.across == 1)
        return 0;
    const uint64_t h = in->height / (uint64_t)grid.down, w = in->width / (uint64_t)grid.across;
    const uint64_t rows = edge(layer->kernel_h, layer->dilation_h, grid.down);
    const uint64_t columns = edge(layer->kernel_w, layer->dilation_w, grid.across);
    const uint64_t images = ls_share_of(p->batch, (size_t)grid.samples, 0).count;
    const uint64_t channels = in->channels / (uint64_t)grid.channels;
    return (rows * w + columns * h + rows * columns) * channels * images * p->e;
}

/* ---- all layers ---- */

/* The inputs of layer l arrive; their gradients go back to where they were made. */
static void plan_input(planner *p, size_t l, int from, uint64_t *saved)
{
    const ls_net_shape *in = ls_net_shape_at(&p->shapes, from);
    const ls_layer_grid grid = grid_of(p, l), its = ls_net_grid_at(&p->grids, from);
    ls_net_layer_plan *layer = &p->plan->net_layers[l];
    const int ranks = p->plan->ranks;
    for (int r = 0; r < ranks; r++) {
        p->owned[r] = ls_net_block(p->net, in, &its, p->batch, r);
        p->wanted[r] = ls_net_reads(p->net, &p->shapes, l, &grid, p->batch, r);
    }
    if (from == LS_NET_IMAGE) { /* taken from the batch */
        for (int r = 0; r < ranks; r++) saved[r] += count_of(&p->wanted[r]) * p->e;
        return;
    }
    find_passing(p, true);
    ls_net_traffic arrives = count_passing(p, 1, p->e);
    layer->forward.bytes += arrives.bytes;
    layer->forward.most += arrives.most;
    for (int r = 0; r < ranks; r++) {
        const bool there = stands_there(&p->wanted[r], &p->owned[r]);
        if (p->passing[r].needed) saved[r] += count_of(there ? &p->owned[r] : &p->wanted[r]) * p->e;
        p->most_handed[r] += message_bytes(&p->passing[r], p->e);
        p->wanted[r] = p->owned[r];
        p->owned[r] = ls_net_takes(p->net, &p->shapes, l, &grid, p->batch, r);
    }
    find_passing(p, false);
    ls_net_traffic leaves = count_passing(p, 1, p->e);
    layer->returned.bytes += leaves.bytes;
    layer->returned.most += leaves.most;
    for (int r = 0; r < ranks; r++) p->most_handed[r] += message_bytes(&p->passing[r], p->e);
}

/* Halos of the gradient of layer l's output, and with it of what else the backward pass needs. */
static void plan_gradient(planner *p, size_t l)
{
    const kind_plan *kind = kinds[p->net->layers[l].kind];
    const ls_layer_grid grid = grid_of(p, l);
    const int ranks = p->plan->ranks;
    for (int r = 0; r < ranks; r++) {
        p->owned[r] = ls_net_block(p->net, &p->shapes.layer[l], &grid, p->batch, r);
        p->wanted[r] = ls_net_read_by(p->net, &p->shapes, l, &grid, p->batch, r);
    }
    find_passing(p, true);
    const ls_net_traffic numbers = count_passing(p, 1 + kind->numbers, p->e);
    const ls_net_traffic places = count_passing(p, kind->places, 4);
    p->plan->net_layers[l].backward =
        (ls_net_traffic){numbers.bytes + places.bytes, numbers.most + places.most};
    for (int r = 0; r < ranks; r++) p->most_handed[r] += message_bytes(&p->passing[r], p->e);
}

static void plan_layer(planner *p, size_t l, uint64_t *saved)
{
    const ls_net_layer *layer = &p->net->layers[l];
    ls_net_layer_plan *own = &p->plan->net_layers[l];
    const int inputs = ls_net_traits_of(layer->kind)->inputs, ranks = p->plan->ranks;
    bool asked = false; /* dx is needed */
    own->grid = grid_of(p, l);
    own->halo_formula = halo_formula(p, l);
    for (int r = 0; r < ranks; r++) p->most_handed[r] = 0;
    for (int i = 0; i < inputs; i++) {
        const int from = ls_net_input_of(layer, i);
        plan_input(p, l, from, saved);
        asked = asked || from != LS_NET_IMAGE;
    }
    if (asked) plan_gradient(p, l);
    for (int r = 0; r < ranks; r++) {
        ls_rank_plan *rank = &p->plan->rank[r];
        const uint64_t bytes = p->most_handed[r] + plan_rank(p, l, r, &saved[r]) * p->e;
        if (bytes > rank->bytes[LS_MEM_COMMUNICATION]) rank->bytes[LS_MEM_COMMUNICATION] = bytes;
        /* dy of the layer, and a dx for each input */
        uint64_t working = 0;
        const ls_image_box dy = ls_net_block(p->net, &p->shapes.layer[l], &own->grid, p->batch, r);
        working += count_of(&dy) * p->e;
        for (int i = 0; i < inputs; i++) {
            const int from = ls_net_input_of(layer, i);
            const ls_layer_grid its = ls_net_grid_at(&p->grids, from);
            const ls_image_box dx =
                ls_net_block(p->net, ls_net_shape_at(&p->shapes, from), &its, p->batch, r);
            if (from != LS_NET_IMAGE) working += count_of(&dx) * p->e;
        }
        if (working > rank->bytes[LS_MEM_TEMPORARY]) rank->bytes[LS_MEM_TEMPORARY] = working;
    }
}

ls_status ls_plan_net(ls_plan *plan)
{
    ls_status status = LS_OK;
    const size_t ranks = (size_t)plan->ranks;
    planner p = {.plan = plan,
                 .net = &plan->config.net,
                 .batch = plan->config.batch,
                 .e = ls_dtype_bytes(plan->dtype)};
    uint64_t *saved = NULL;
    LS_ROOM(p.owned, ranks);
    LS_ROOM(p.wanted, ranks);
    LS_ROOM(p.passing, ranks);
    LS_ROOM(p.most_handed, ranks);
    LS_NEW(plan->net_layers, p.net->count);
    LS_NEW(saved, ranks);
    ls_net_shapes_of(p.net, &p.shapes);
    ls_net_grids_of(&plan->layout, p.net, &p.grids);
    for (size_t l = 0; l < p.net->count; l++) plan_layer(&p, l, saved);
    for (size_t r = 0; r < ranks; r++) plan->rank[r].bytes[LS_MEM_ACTIVATIONS] = saved[r];
exit:
    free(saved);
    free(p.owned);
    free(p.wanted);
    free(p.passing);
    free(p.most_handed);
    return status;
}
