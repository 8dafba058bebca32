/* 15_space_and_samples.c - a batch of images cut by samples and by space at once; batch
 * normalisation over all of it; what either cut costs, and when which pays.
 *
 * Sources: Dryden et al. (arXiv 1903.06681), section 3; Ioffe & Szegedy (arXiv 1502.03167),
 * algorithm 1. A rank has a run of the images and a rectangle of the pixels of each (chapter 14):
 *
 *     y = conv(x, W)      mean = sum(y) / N      variance = sum((y - mean)^2) / N
 *     z = (y - mean) rstd scale + shift          rstd = 1 / sqrt(variance + eps)
 *
 * N counts all pixels of all images. So five sums cross the ranks, in four all-reduces: the two of
 * the statistics; backward sum(dz xhat) and sum(dz), together; and dW. Their order is the model's:
 * T over the images, in an image the tree over its granules. A rank sends a partial for each
 * node that it can finish; the division by N comes last. Who averages the ranks' means gets another
 * number as soon as shares are unequal; who lets each rank normalise by its own pixels trains
 * another network on every layout; who takes E[y^2] - E[y]^2 for the variance may be left with
 * rounding. A cut by samples sends sums only, and ends with one image per rank. A cut by space
 * sends halos as well, but it goes on, and a rank keeps only its part of an image. */
#include <lockstep/parts.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { C = 3, F = 4, K = 3, DEPTH = C * K * K, WEIGHTS = F * DEPTH, HEIGHT = 9, WIDTH = 10 };
enum { GRANULES = 4, MAX_B = 16, MAX_RANKS = 16 * 16, MAX_LEAVES = MAX_B * GRANULES * GRANULES };
static const ls_conv2d conv = {
    {HEIGHT, WIDTH, K, K, 1, 1, 1, 1, 1, 1, 1, 1}, 1, C, F, 1, 1, {GRANULES, GRANULES}};
static const double eps = 1e-5;
static float weight[WEIGHTS], scale[F], shift[F];
static size_t B = 5, dp = 2, N, ranks;
static ls_spatial_grid grid;
static ls_pixel_tree tree; /* over the granules of all images */
static ls_sum_plan *plan;  /* which rank has which of its nodes */
static ls_transfer *moves; /* the halos of x                    */
static size_t n_moves;

/* A part of an array of images: what of it, and the numbers. */
typedef struct block {
    ls_image_box box;
    float *at;
    ls_image_layout layout;
} block;

/* What a run has, the serial one or a rank's. */
enum { X, X_READ, Y, Z, DZ, DY, BLOCKS };
typedef struct layer {
    block a[BLOCKS];
    struct {
        float mean[F], squares[F], rstd[F], dscale_dshift[2 * F], dw[WEIGHTS];
    } v;
} layer;
static layer s; /* the serial run's */

static const float *image_of(const block *b, size_t image)
{
    return b->at + (image - b->box.images.first) * b->layout.stride;
}

/* ---- what one granule of one image gives to each of the sums */

typedef void (*leaf_function)(float *value, const layer *l, size_t image, ls_rectangle pixels);

static void mean_leaf(float *value, const layer *l, size_t image, ls_rectangle pixels)
{
    ls_pixel_sum(value, image_of(&l->a[Y], image), l->a[Y].layout, pixels, F);
}

static void squares_leaf(float *value, const layer *l, size_t image, ls_rectangle pixels)
{
    ls_batch_norm_squares(value, image_of(&l->a[Y], image), l->a[Y].layout, pixels, l->v.mean, F);
}

static void scale_shift_leaf(float *value, const layer *l, size_t image, ls_rectangle pixels)
{
    const block *dz = &l->a[DZ], *y = &l->a[Y];
    ls_batch_norm_scale_leaf(value, image_of(dz, image), dz->layout, image_of(y, image), y->layout,
                             pixels, l->v.mean, l->v.rstd, F);
    ls_pixel_sum(value + F, image_of(dz, image), dz->layout, pixels, F);
}

static void weight_leaf(float *value, const layer *l, size_t image, ls_rectangle pixels)
{
    const block *dy = &l->a[DY], *x = &l->a[X_READ];
    ls_conv2d_naive_weight_leaf(&conv, value, DEPTH, image_of(dy, image), dy->layout, pixels,
                                image_of(x, image), x->layout);
}

static void leaf_of(leaf_function leaf, float *value, const layer *l, size_t number)
{
    ls_pixel_area at = ls_pixel_area_of(&tree, (ls_node){number, number + 1});
    leaf(value, l, at.first,
         ls_rectangle_of_granules(at.granules, GRANULES, GRANULES, HEIGHT, WIDTH));
}

static void convolve(layer *l)
{
    ls_conv2d_naive_forward(&conv, l->a[Y].box.images.count, l->a[Y].at, l->a[Y].layout,
                            l->a[Y].box.area, l->a[X_READ].at, l->a[X_READ].layout, weight, DEPTH,
                            NULL);
}

static void normalise(layer *l)
{
    const block *y = &l->a[Y], *z = &l->a[Z];
    ls_batch_norm_forward(z->at, z->layout, y->at, y->layout, y->box.area, y->box.images.count, F,
                          l->v.mean, l->v.rstd, scale, shift);
}

static void normalise_backward(layer *l)
{
    const block *dy = &l->a[DY], *dz = &l->a[DZ], *y = &l->a[Y];
    ls_batch_norm_backward(dy->at, dy->layout, dz->at, dz->layout, y->at, y->layout, y->box.area,
                           y->box.images.count, F, l->v.mean, l->v.rstd, scale, l->v.dscale_dshift,
                           l->v.dscale_dshift + F, N);
}

/* The whole batch in one thread: every leaf, then the tree over them. */
static void whole_sum(leaf_function leaf, float *sum, size_t count)
{
    static float values[MAX_LEAVES][WEIGHTS];
    ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
    const float *parts[MAX_LEAVES];
    ls_node nodes[MAX_LEAVES], root = {0, numbered.leaves};
    for (size_t i = 0; i < root.hi; i++) {
        nodes[i] = (ls_node){i, i + 1}, parts[i] = values[i];
        leaf_of(leaf, values[i], &s, i);
    }
    ls_binary_tree_finish(sum, parts, nodes, root.hi, &numbered, root, count);
}

static void run_serial(void)
{
    convolve(&s);
    whole_sum(mean_leaf, s.v.mean, F);
    ls_batch_norm_mean(s.v.mean, s.v.mean, N, F);
    whole_sum(squares_leaf, s.v.squares, F);
    ls_batch_norm_rstd(s.v.rstd, s.v.squares, N, eps, F);
    normalise(&s);
    whole_sum(scale_shift_leaf, s.v.dscale_dshift, 2 * F);
    normalise_backward(&s);
    whole_sum(weight_leaf, s.v.dw, WEIGHTS);
}

/* ---- the ranks */

/* What each rank leaves for the main thread, which reads it after the join. */
static struct slot {
    size_t count, different;
    float mean, alone; /* of channel 0 of its own pixels; how far z is off with these statistics */
    ls_comm_count sent, reduced;
} slots[MAX_RANKS];
static ls_image_box boxes[BLOCKS][MAX_RANKS]; /* who has what of each array */

static ls_status take_room(ls_arena *arena, ls_image_box box, block *ret_block)
{
    *ret_block = (block){box, NULL, {box.area, box.channels.count * ls_rectangle_count(box.area)}};
    return ls_arena_alloc(arena, ls_image_box_count(&box), sizeof(float), (void *)&ret_block->at);
}

static float farthest(const float *own, const float *right, size_t n)
{
    float far = 0;
    for (size_t i = 0; i < n; i++) far = fmaxf(far, fabsf(own[i] - right[i]));
    return far;
}

/* Numbers of an array of the rank that differ from the serial run's. */
static size_t differ_block(const layer *l, int which, float *work)
{
    const block *own = &l->a[which];
    size_t n = ls_image_box_count(&own->box);
    ls_image_box_take(LS_F32, work, &own->box, s.a[which].at, &s.a[which].box);
    return ls_block_differ(LS_F32, own->at, work, (ls_block){n, 0, 1, 0, n});
}

/* A sum over all ranks. The leaves of each own node are on a stack of partial sums; the nodes are
 * sent, and the all-reduce finishes the tree. */
static ls_status shared_sum(ls_group *group, leaf_function leaf, float *sum, const layer *l,
                            size_t count, float *partials)
{
    ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
    ls_share own = l->a[Y].box.images;
    size_t member = (size_t)ls_group_rank(group) % ls_spatial_members(&grid);
    ls_pixel_area area = {own.first, own.count, ls_spatial_granules(&grid, member)};
    ls_node nodes[MAX_LEAVES];
    float stack[16][WEIGHTS];
    for (size_t j = ls_pixel_forest(&tree, area, nodes); j-- > 0;) {
        size_t height = 0;
        for (size_t i = nodes[j].lo; i < nodes[j].hi; i++) {
            leaf_of(leaf, stack[height++], l, i);
            size_t n = ls_binary_tree_merges_after(&numbered, nodes[j], i);
            for (; n > 0; n--, height--)
                ls_add(stack[height - 2], stack[height - 2], stack[height - 1], count);
        }
        memcpy(partials + j * count, stack[0], count * sizeof(float));
    }
    return ls_all_reduce_plan(group, sum, partials, count, LS_F32, plan);
}

static void own_sum(leaf_function leaf, float *sum, const layer *l)
{
    float part[F];
    ls_share images = l->a[Y].box.images;
    memset(sum, 0, F * sizeof *sum);
    for (size_t i = images.first; i < images.first + images.count; i++) {
        leaf(part, l, i, l->a[Y].box.area);
        ls_add(sum, sum, part, F);
    }
}

/* Mistake: z from the rank's own pixels only. */
static void alone(layer *l, struct slot *slot, float *work)
{
    slot->count = ls_image_box_count(&l->a[Y].box) / F;
    if (slot->count == 0) return;
    own_sum(mean_leaf, l->v.mean, l);
    ls_batch_norm_mean(l->v.mean, l->v.mean, slot->count, F);
    own_sum(squares_leaf, l->v.squares, l);
    ls_batch_norm_rstd(l->v.rstd, l->v.squares, slot->count, eps, F);
    normalise(l);
    ls_image_box_take(LS_F32, work, &l->a[Z].box, s.a[Z].at, &s.a[Z].box);
    slot->alone = farthest(l->a[Z].at, work, slot->count * F), slot->mean = l->v.mean[0];
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    ls_group *group = ls_rank_world_group(rank);
    size_t me = (size_t)ls_rank_index(rank);
    struct slot *slot = &slots[me];
    ls_exchange *exchange = NULL;
    ls_arena *arena = NULL;
    layer l = {0};
    float *work;
    LS_TRY(ls_arena_create(&arena, ls_rank_memory(rank), LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_alloc(arena, MAX_LEAVES * WEIGHTS, sizeof *work, (void *)&work));
    for (int i = 0; i < BLOCKS; i++) LS_TRY(take_room(arena, boxes[i][me], &l.a[i]));
    ls_image_box_take(LS_F32, l.a[X].at, &l.a[X].box, s.a[X].at, &s.a[X].box);
    ls_image_box_take(LS_F32, l.a[DZ].at, &l.a[DZ].box, s.a[DZ].at, &s.a[DZ].box);

    LS_TRY(ls_image_boxes_begin(group, 1, moves, n_moves, &l.a[X].box, l.a[X].at, &l.a[X_READ].box,
                                l.a[X_READ].at, LS_F32, &exchange));
    LS_TRY(ls_exchange_end(&exchange));
    convolve(&l);
    alone(&l, slot, work);
    LS_TRY(shared_sum(group, mean_leaf, l.v.mean, &l, F, work));
    ls_batch_norm_mean(l.v.mean, l.v.mean, N, F);
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
    if (me == 0) l.v.mean[0] = slot->mean;
#endif
    LS_TRY(shared_sum(group, squares_leaf, l.v.squares, &l, F, work));
    ls_batch_norm_rstd(l.v.rstd, l.v.squares, N, eps, F);
    normalise(&l);
    LS_TRY(shared_sum(group, scale_shift_leaf, l.v.dscale_dshift, &l, 2 * F, work));
    normalise_backward(&l);
    LS_TRY(shared_sum(group, weight_leaf, l.v.dw, &l, WEIGHTS, work));

    for (int i = Y; i < BLOCKS; i++) slot->different += differ_block(&l, i, work);
    const ls_block sums = {sizeof l.v / 4, 0, 1, 0, sizeof l.v / 4};
    slot->different += ls_block_differ(LS_F32, &l.v, &s.v, sums);
    slot->sent = ls_rank_count(rank, LS_OP_SEND);
    slot->reduced = ls_rank_count(rank, LS_OP_ALL_REDUCE);
exit:
    ls_exchange_cancel(&exchange);
    ls_arena_destroy(&arena);
    return status;
}

static bool equal = true; /* every bit and every count is as it must be */

static ls_status show(ls_arena *arena)
{
    ls_status status = LS_OK;
    size_t with = 0, off = 0, n_z = ls_image_box_count(&s.a[Z].box);
    float means = 0, alone_off = 0;
    layer wrong = s;
    printf("\n                               values of   their mean,  bytes handed out\n"
           "rank    images   rows  columns  a channel    channel 0    x halo  5 sums  partials\n");
    for (size_t m = 0; m < ranks; m++) {
        const struct slot *slot = &slots[m];
        const ls_image_box *y = &boxes[Y][m];
        size_t sums = 4 * plan->member_parts[m] * (F + F + 2 * F + WEIGHTS);
        equal &= slot->sent.bytes == 4 * ls_transfers_sent(moves, n_moves, m);
        equal &= slot->reduced.calls == 4 && slot->reduced.bytes == sums;
        means += slot->mean, with += slot->count > 0;
        off += slot->different, alone_off = fmaxf(alone_off, slot->alone);
        if (ranks > 16 && m >= 8 && m + 1 < ranks) {
            if (m == 8) printf(" ...\n");
            continue;
        }
        printf("%4zu  %2zu .. %-2zu %2zu .. %-2zu %2zu .. %-2zu %9zu", m, y->images.first,
               y->images.first + y->images.count, y->area.top, y->area.top + y->area.height,
               y->area.left, y->area.left + y->area.width, slot->count);
        printf("  %11.7f  %8zu  %6zu  %8zu\n", (double)slot->mean, (size_t)slot->sent.bytes, sums,
               plan->member_parts[m]);
    }
    printf("all   N = %zu, mean %.7f\n"
           "y z dy, mean rstd dscale dshift dW: %zu numbers differ from the serial run's\n",
           N, (double)s.v.mean[0], off);
    equal &= off == 0;

    LS_TRY(take_room(arena, s.a[Z].box, &wrong.a[Z]));
    wrong.v.mean[0] = means / (float)with;
    normalise(&wrong);
    printf("WRONG ON PURPOSE, the mean of the %zu means: %.7f; z differs by up to %.1e\n"
           "WRONG ON PURPOSE, each rank by its own pixels: z differs by up to %.1e\n",
           with, (double)wrong.v.mean[0], (double)farthest(wrong.a[Z].at, s.a[Z].at, n_z),
           (double)alone_off);
    const float far[4] = {10000, 10001, 10002, 10003};
    const ls_image_layout line = {{0, 0, 1, 4}, 4};
    float squares, square = 0, mean = ls_tree_sum(far, 4, 1) / 4;
    ls_batch_norm_squares(&squares, far, line, line.held, &mean, 1);
    for (int i = 0; i < 4; i++) square += far[i] * far[i];
    printf("WRONG ON PURPOSE, E[y^2] - E[y]^2 of 10000 .. 10003: %g; in two passes %g\n",
           (double)(square / 4 - mean * mean), (double)(squares / 4));
exit:
    return status;
}

/* ---- what it costs, for layers of any size: pure arithmetic, nothing runs */

typedef struct shape {
    const char *name;
    size_t side, kernel, stride, in, out;
} shape;

static size_t beyond(ls_rectangle read, ls_rectangle own)
{
    return ls_rectangle_count(read) - ls_rectangle_count(ls_rectangle_common(read, own));
}

/* The most that any rank has or receives, each image cut in down x across. */
static void cost(const shape *l, size_t samples, size_t down, size_t across)
{
    enum { IMAGES = 8 };
    ls_spatial_grid cut = {down, across, 8, 8};
    ls_window w = {l->side, l->side, l->kernel,     l->kernel,     l->stride,     l->stride,
                   1,       1,       l->kernel / 2, l->kernel / 2, l->kernel / 2, l->kernel / 2};
    size_t p = samples * down * across, images = (IMAGES + samples - 1) / samples;
    size_t n_w = l->in * l->out * l->kernel * l->kernel, saved = 0, halo = 0, work = 0;
    for (size_t m = 0; m < down * across; m++) {
        ls_rectangle x = ls_spatial_pixels(&cut, m, l->side, l->side);
        ls_rectangle y = ls_spatial_pixels(&cut, m, ls_window_out_h(&w), ls_window_out_w(&w));
        size_t n_x = ls_rectangle_count(x), n_y = ls_rectangle_count(y);
        size_t own = n_x * l->in + n_y * l->out;
        size_t comes = beyond(ls_window_reads(&w, y), x) * l->in;
        comes += beyond(ls_window_read_by(&w, x), y) * l->out;
        saved = own > saved ? own : saved, halo = comes > halo ? comes : halo;
        work = n_y > work ? n_y : work;
    }
    double dw = (double)(2 * (p - 1) * n_w) / (double)p, sent = (double)(images * halo) + dw;
    double products = 3.0 * (double)(images * work * n_w);
    printf("%5zu  %zu x %zu x %zu  %6zu  %12zu  %10zu  %10.0f  %13.0f\n", p, samples, down, across,
           images, images * saved, images * halo, dw, sent > 0 ? products / sent : 0.0);
}

static void show_costs(void)
{
    static const shape shapes[] = {
        /* the lower three from ResNet-50 (arXiv 1512.03385, table 1) */
        {"2048 x 2048 pixels, 3 x 3, 16 to 16 channels", 2048, 3, 1, 16, 16},
        {"224 x 224, 7 x 7 every 2, 3 to 64", 224, 7, 2, 3, 64},
        {"56 x 56, 3 x 3, 64 to 64", 56, 3, 1, 64, 64},
        {"7 x 7, 3 x 3, 512 to 512", 7, 3, 1, 512, 512}};
    static const size_t cuts[][3] = {{1, 1, 1}, {8, 1, 1}, {2, 2, 2}, {1, 4, 2},
                                     {8, 2, 2}, {8, 4, 2}, {8, 4, 4}};
    printf("\nWhat a layer costs, in numbers: 8 images, the most of any rank; dW by a ring\n");
    for (size_t i = 0; i < 4; i++) {
        printf("%s\n", shapes[i].name);
        printf("ranks  dp x H x W  images  x and y kept  halo x, dy          dW  products/sent\n");
        for (size_t c = 0; c < 7; c++) cost(&shapes[i], cuts[c][0], cuts[c][1], cuts[c][2]);
    }
    printf(
        "No more ranks than images: by samples, which sends dW alone. More ranks, or images too\n"
        "large for one: by space; halos are short beside such images. Small images of many\n"
        "channels: dW costs most either way, and 7 x 7 pixels have no equal parts.\n");
}

static void fill(float *x, size_t n, uint64_t seed, uint32_t which)
{
    const ls_stream stream = {seed, LS_RANDOM_TEST, which, 0};
    for (size_t i = 0; i < n; i++) x[i] = (float)ls_random_normal(stream, i);
}

int main(int argc, char **argv)
{
    ls_status status = LS_OK;
    ls_arena *arena = NULL;
    uint64_t seed = 1;
    bool help = false;
    size_t spatial[2] = {2, 2};
    ls_option options[] = {
        ls_option_size("dp", &dp, 1, 16, "P", "parts of the batch"),
        ls_option_pair("spatial", spatial, 1, 4, "HxW", "parts of an image, down and across"),
        ls_option_size("batch", &B, 1, MAX_B, "B", "images"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 15: sample and spatial parallelism together, and batch normalisation\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    grid = (ls_spatial_grid){spatial[0], spatial[1], GRANULES, GRANULES};
    ranks = dp * ls_spatial_members(&grid), N = B * HEIGHT * WIDTH;
    tree = (ls_pixel_tree){B, GRANULES, GRANULES};
    ls_pixel_area areas[MAX_RANKS];
    for (size_t m = 0; m < ranks; m++) {
        size_t member = m % ls_spatial_members(&grid);
        ls_share images = ls_share_of(B, dp, m / ls_spatial_members(&grid));
        areas[m] = (ls_pixel_area){images.first, images.count, ls_spatial_granules(&grid, member)};
        ls_rectangle own = ls_spatial_pixels(&grid, member, HEIGHT, WIDTH);
        for (int i = 0; i < BLOCKS; i++)
            boxes[i][m] = (ls_image_box){images, {0, i < Y ? C : F}, own};
        boxes[X_READ][m].area = ls_window_reads(&conv.window, own);
    }
    LS_TRY(ls_sum_plan_create_pixels(&plan, &tree, ranks, areas));
    LS_TRY(ls_transfers_create(&moves, &n_moves, boxes[X], boxes[X_READ], ranks));
    LS_TRY(ls_arena_create(&arena, NULL, LS_MEM_TEMPORARY));
    for (int i = 0; i < BLOCKS; i++) {
        ls_image_box all = {{0, B}, {0, i < Y ? C : F}, {0, 0, HEIGHT, WIDTH}};
        LS_TRY(take_room(arena, all, &s.a[i]));
        fill(s.a[i].at, ls_image_box_count(&all), seed, (uint32_t)i);
    }
    s.a[X_READ] = s.a[X];
    for (size_t i = 0; i < N * C; i++)
        s.a[X].at[i] += (float)(i / (C * HEIGHT * WIDTH)); /* brighter */
    fill(weight, WEIGHTS, seed, 10), fill(scale, F, seed, 11), fill(shift, F, seed, 12);
    run_serial();
    LS_TRY(ls_world_run((int)ranks, NULL, one_rank, NULL));

    printf("%zu images of %d x %d pixels; %zu x %zu x %zu ranks; %d x %d granules; float\n", B,
           HEIGHT, WIDTH, dp, grid.down, grid.across, GRANULES, GRANULES);
    LS_TRY(show(arena));
    show_costs();
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    free(moves);
    ls_sum_plan_destroy(&plan);
    ls_arena_destroy(&arena);
    if (status > LS_DIFFERENT) fprintf(stderr, "15_space_and_samples: %s\n", ls_error_text());
    return ls_exit_code(status);
}
