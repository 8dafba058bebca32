/* 14_spatial_convolution.c - convolutions on an image that is cut over a grid of ranks: who owns
 * which pixel, which of the others' pixels each rank needs, and the three products of a layer.
 *
 * Source: Dryden et al. (arXiv 1903.06681), section 3. A rank has a rectangle of the pixels of
 * every image, with all channels; the weights are on every rank.
 *
 *     y(r, c)   reads x at r stride - pad + i, c stride - pad + j, i and j over the kernel
 *     dx(q, p)  reads dy wherever an output has read x(q, p)
 *     dW(i, j)  sums dy(r, c) x(r stride - pad + i, ...) over all pixels of all images
 *
 * A halo is not a width. It is what the smallest rectangle that a rank's outputs read has beyond
 * what the rank owns. Even kernels, strides, pads on one side, corners, ranks without pixels and
 * neighbours three ranks away all follow from that. Going back it is dy that has a halo, in general
 * another one: dx of a pixel is computed where the pixel lives, from the dy of all who read it, its
 * terms in the serial order. So y and dx are never summed across ranks. dW is: its terms lie on all
 * of them. The order is the model's: an image is made of granules, a tree is over the granules
 * of an image and one over the images, and a rank sends a partial for each node that it can
 * finish (chapter 2). While dy is on its way it makes them: they need no dy but its own. */
#include <lockstep/parts.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 2, LAYERS = 3, MAX_SIDE = 40, MAX_RANKS = 49, MAX_LEAVES = N * 64 }; /* N: images */
static const size_t channels[LAYERS + 1] = {3, 4, 2, 5};
static const char *const names[LAYERS] = {"conv1", "conv2", "conv3"};
static ls_spatial_grid grid;
static ls_pixel_tree tree; /* over the granules of all images */
static ls_sum_plan *plan;  /* which rank has which of its nodes */
static size_t ranks, look = MAX_RANKS;
static ls_image_box room; /* as many numbers as any scratch needs */
static int engine = LS_ENGINE_PORTABLE;

/* A part of an array of images: what of it, and the numbers. */
typedef struct block {
    ls_image_box box;
    float *at;
} block;

/* Of x or y: the serial run's arrays, and who of the ranks has what. */
typedef struct side {
    block value, gradient;
    ls_rectangle made[MAX_RANKS];
    ls_image_box owned[MAX_RANKS];
    ls_image_box wanted[MAX_RANKS]; /* of x, to make y; of dy, to make dx */
    ls_transfer *moves;
    size_t n_moves;
} side;

typedef struct layer {
    ls_conv2d conv;
    size_t n_w, depth;
    block w, dw;
    side x, y;
} layer;
static layer layers[LAYERS];

static ls_image_layout layout_of(block b)
{
    return (ls_image_layout){b.box.area, b.box.channels.count * ls_rectangle_count(b.box.area)};
}

static ls_status take_room(ls_arena *arena, ls_image_box box, block *ret_block)
{
    ret_block->box = box;
    return ls_arena_alloc(arena, ls_image_box_count(&box), sizeof(float), (void *)&ret_block->at);
}

static ls_status forward(const layer *l, block y, block x, block scratch)
{
    return ls_conv2d_forward((ls_engine)engine, &l->conv, N, y.at, layout_of(y), y.box.area, x.at,
                             layout_of(x), l->w.at, l->depth, NULL, scratch.at);
}

static ls_status backward(const layer *l, block dx, block dy, block scratch)
{
    return ls_conv2d_backward((ls_engine)engine, &l->conv, N, dx.at, layout_of(dx), dx.box.area,
                              dy.at, layout_of(dy), l->w.at, l->depth, scratch.at);
}

/* A node of the tree over granules and images: its leaves from left to right on a stack of partial
 * sums; behind some of them the two on top are added, once or more. */
static ls_status weight_gradient(const layer *l, float *dw, ls_node node, block dy, block x,
                                 ls_arena *work)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(work), n = 0;
    ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
    ls_rectangle y = l->y.value.box.area;
    ls_conv2d_piece pieces[MAX_LEAVES];
    float *scratch;
    for (size_t leaf = node.lo; leaf < node.hi; leaf++) {
        ls_pixel_area at = ls_pixel_area_of(&tree, (ls_node){leaf, leaf + 1});
        pieces[n].image = at.first;
        pieces[n].outputs =
            ls_pixel_granule(l->conv.grid, y.height, y.width, at.granules.top, at.granules.left);
        pieces[n++].closes = ls_binary_tree_merges_after(&numbered, node, leaf);
    }
    LS_TRY(ls_arena_alloc(work, ls_conv2d_node_scratch(&l->conv, pieces, n), sizeof(float),
                          (void *)&scratch));
    LS_TRY(ls_conv2d_weight_node((ls_engine)engine, &l->conv, dw, l->depth, pieces, n, dy.at,
                                 layout_of(dy), x.at, layout_of(x), scratch));
exit:
    ls_arena_release(work, mark);
    return status;
}

/* The layers as one thread computes them: whole images, and not a word about ranks. */
static ls_status run_serial(ls_arena *work)
{
    ls_status status = LS_OK;
    ls_node root = {0, N * tree.rows * tree.columns};
    block scratch;
    LS_TRY(take_room(work, room, &scratch));
    for (layer *l = layers; l < layers + LAYERS; l++)
        LS_TRY(forward(l, l->y.value, l->x.value, scratch));
    for (layer *l = layers + LAYERS; l-- > layers;) {
        LS_TRY(backward(l, l->x.gradient, l->y.gradient, scratch));
        LS_TRY(weight_gradient(l, l->dw.at, root, l->y.gradient, l->x.value, work));
    }
exit:
    return status;
}

/* ---- the ranks */

/* What each rank leaves for the main thread, which reads it after the join. */
enum { Y, DX, DW, KINDS };
static size_t different[KINDS][LAYERS][MAX_RANKS];
static uint64_t handed_out[MAX_RANKS]; /* bytes, in all layers */

/* How many numbers of a rank's block differ from the whole array of the serial run. */
static size_t differ(block own, block whole, block scratch)
{
    size_t n = ls_image_box_count(&own.box);
    ls_image_box_take(LS_F32, scratch.at, &own.box, whole.at, &whole.box);
    return ls_block_differ(LS_F32, own.at, scratch.at, (ls_block){n, 0, 1, 0, n});
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    ls_group *group = ls_rank_world_group(rank);
    size_t me = (size_t)ls_rank_index(rank);
    ls_pixel_area granules = {0, N, ls_spatial_granules(&grid, me)};
    ls_node nodes[MAX_LEAVES];
    size_t n_nodes = ls_pixel_forest(&tree, granules, nodes);
    ls_exchange *exchange = NULL;
    ls_arena *work = NULL;
    block x[LAYERS + 1], x_halo[LAYERS], dy, dy_halo, dx, dw, scratch;
    const side *first = &layers[0].x, *last = &layers[LAYERS - 1].y;

    LS_TRY(ls_arena_create(&work, ls_rank_memory(rank), LS_MEM_TEMPORARY));
    LS_TRY(take_room(work, room, &scratch));
    LS_TRY(take_room(work, first->owned[me], &x[0]));
    LS_TRY(take_room(work, last->owned[me], &dy));
    ls_image_box_take(LS_F32, x[0].at, &x[0].box, first->value.at, &first->value.box);
    ls_image_box_take(LS_F32, dy.at, &dy.box, last->gradient.at, &last->gradient.box);

    for (size_t i = 0; i < LAYERS; i++) {
        const layer *l = &layers[i];
        LS_TRY(take_room(work, l->y.owned[me], &x[i + 1]));
        LS_TRY(take_room(work, l->x.wanted[me], &x_halo[i]));
        LS_TRY(ls_image_boxes_begin(group, 1, l->x.moves, l->x.n_moves, &x[i].box, x[i].at,
                                    &x_halo[i].box, x_halo[i].at, LS_F32, &exchange));
        LS_TRY(ls_exchange_end(&exchange));
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1: the halo lacks a row */
        if (me == ranks - 1) memset(x_halo[i].at, 0, x_halo[i].box.area.width * sizeof(float));
#endif
        LS_TRY(forward(l, x[i + 1], x_halo[i], scratch));
        different[Y][i][me] = differ(x[i + 1], l->y.value, scratch);
    }
    for (size_t i = LAYERS; i-- > 0; dy = dx) {
        const layer *l = &layers[i];
        ls_image_box partials = l->dw.box;
        partials.images.count = n_nodes + 1;
        LS_TRY(take_room(work, l->x.owned[me], &dx));
        LS_TRY(take_room(work, l->y.wanted[me], &dy_halo));
        LS_TRY(take_room(work, partials, &dw));
        LS_TRY(ls_image_boxes_begin(group, 1, l->y.moves, l->y.n_moves, &dy.box, dy.at,
                                    &dy_halo.box, dy_halo.at, LS_F32, &exchange));
        for (size_t j = 0; j < n_nodes; j++) /* meanwhile */
            LS_TRY(weight_gradient(l, dw.at + j * l->n_w, nodes[j], dy, x_halo[i], work));
        LS_TRY(ls_exchange_end(&exchange));
        LS_TRY(backward(l, dx, dy_halo, scratch));
        LS_TRY(ls_all_reduce_plan(group, dw.at, dw.at, l->n_w, LS_F32, plan));
        dw.box = l->dw.box;
        different[DX][i][me] = differ(dx, l->x.gradient, scratch);
        different[DW][i][me] = differ(dw, l->dw, scratch);
    }
    handed_out[me] = ls_rank_count(rank, LS_OP_SEND).bytes;
    handed_out[me] += ls_rank_count(rank, LS_OP_ALL_REDUCE).bytes;
exit:
    ls_exchange_cancel(&exchange);
    ls_arena_destroy(&work);
    return status;
}

/* ---- two usual mistakes, worked out here on whole arrays */

/* A window of the same extent as books draw it, stride 1: what its outputs read is a halo of O = (K
 * - 1) / 2 on every side. */
static ls_window textbook(const ls_window *w)
{
    size_t rows = (w->kernel_h - 1) / 2, columns = (w->kernel_w - 1) / 2;
    return (ls_window){w->in_h, w->in_w, 2 * rows + 1, 2 * columns + 1, 1,      1, 1,
                       1,       rows,    rows,         columns,         columns};
}

/* to = from inside a rectangle and 0 outside: what a rank has when no other sends it more. */
static void keep_only(block *to, block from, ls_rectangle saved)
{
    ls_rectangle all = from.box.area;
    to->box = from.box;
    for (size_t i = 0; i < ls_image_box_count(&from.box); i++) {
        ls_rectangle pixel = {i / all.width % all.height, i % all.width, 1, 1};
        to->at[i] = ls_rectangle_inside(pixel, saved) ? from.at[i] : 0;
    }
}

/* How many numbers of y differ with a halo of (K - 1) / 2 on every side of what is owned; and of dx
 * when each rank computes what its own dy gives to all pixels, and the owners add what they get. */
static ls_status mistakes(const layer *l, ls_arena *work, size_t *ret_y, size_t *ret_dx)
{
    ls_status status = LS_OK;
    const ls_window book = textbook(&l->conv.window);
    block known, made, scratch, sum = l->x.gradient, *const rooms[] = {&known, &made, &scratch};
    for (int i = 0; i < 3; i++) LS_TRY(take_room(work, room, rooms[i]));
    LS_TRY(ls_arena_zalloc(work, ls_image_box_count(&sum.box), sizeof(float), (void *)&sum.at));
    *ret_y = 0;
    for (size_t m = 0; m < ranks; m++) {
        keep_only(&known, l->x.value, ls_window_reads(&book, l->x.made[m]));
        made.box = l->y.owned[m];
        LS_TRY(forward(l, made, known, scratch));
        *ret_y += differ(made, l->y.value, scratch);
        keep_only(&known, l->y.gradient, l->y.made[m]);
        made.box = sum.box;
        LS_TRY(backward(l, made, known, scratch));
        ls_add(sum.at, sum.at, made.at, ls_image_box_count(&sum.box));
    }
    *ret_dx = differ(sum, l->x.gradient, scratch);
exit:
    return status;
}

/* ---- what is printed */

static bool equal = true; /* every bit and every count is as it must be */

/* The halo of a rank by the formula of books, 0 where it is not meant for: other windows, a halo
 * that ends where the image does. */
static size_t by_formula(const layer *l, size_t m)
{
    const ls_window *w = &l->conv.window, book = textbook(w);
    ls_rectangle x = l->x.made[m], read = ls_window_reads(&book, x);
    size_t rows = grid.down > 1 ? book.pad_top : 0, columns = grid.across > 1 ? book.pad_left : 0;
    bool meant = memcmp(w, &book, sizeof book) == 0 && read.height == x.height + 2 * rows &&
                 read.width == x.width + 2 * columns;
    return meant ? ls_halo_elements(x.height, x.width, rows, columns) : 0;
}

/* From how many ranks one receives. */
static size_t senders(const side *of, size_t me)
{
    size_t many = 0;
    for (size_t i = 0; i < of->n_moves; i++)
        many += of->moves[i].to == me && of->moves[i].from != me;
    return many;
}

static ls_status show(size_t i, ls_arena *work, ls_pixel_map *maps)
{
    ls_status status = LS_OK;
    const layer *l = &layers[i];
    const ls_window *w = &l->conv.window, book = textbook(w);
    ls_rectangle x = l->x.value.box.area, y = l->y.value.box.area;
    size_t off[KINDS] = {0}, needed = 0, by_book = 0, wrong_y, wrong_dx;
    printf("\n%s: kernel %zu x %zu, stride %zu x %zu, pads %zu + %zu, %zu + %zu; "
           "%zu channels to %zu\n",
           names[i], w->kernel_h, w->kernel_w, w->stride_h, w->stride_w, w->pad_top, w->pad_bottom,
           w->pad_left, w->pad_right, channels[i], channels[i + 1]);
    maps[0] = (ls_pixel_map){"who owns x", x.height, x.width, l->x.made, ranks, NULL, look};
    maps[2] = (ls_pixel_map){"who owns y", y.height, y.width, l->y.made, ranks, NULL, look};
    maps[1] = maps[0], maps[1].read = &l->x.wanted[look].area, maps[1].title = "x it reads for y";
    maps[3] = maps[2], maps[3].read = &l->y.wanted[look].area, maps[3].title = "dy it reads for dx";
    ls_pixel_maps_text(stdout, maps, 4, 100);
    printf("       pixels owned    x received, pixels  dy received, pixels   bytes handed out\n"
           "rank      x       y          from ranks          from ranks         x     dy  of dW\n");
    for (size_t m = 0; m < ranks; m++) {
        size_t x_pixels = ls_transfers_received(l->x.moves, l->x.n_moves, m) / N / channels[i];
        size_t dy_pixels = ls_transfers_received(l->y.moves, l->y.n_moves, m) / N / channels[i + 1];
        needed += x_pixels;
        by_book += ls_rectangle_count(ls_window_reads(&book, l->x.made[m])) -
                   ls_rectangle_count(l->x.made[m]);
        equal &= by_formula(l, m) == 0 || by_formula(l, m) == x_pixels;
        size_t dw_bytes = 4 * plan->member_parts[m] * l->n_w;
        size_t x_bytes = 4 * ls_transfers_sent(l->x.moves, l->x.n_moves, m);
        size_t dy_bytes = 4 * ls_transfers_sent(l->y.moves, l->y.n_moves, m);
        handed_out[m] -= x_bytes + dy_bytes + dw_bytes; /* in the end 0 must be left */
        for (int k = 0; k < KINDS; k++) off[k] += different[k][i][m];
        printf("%4zu  %2zu x %-2zu %2zu x %-2zu %9zu %5zu %13zu %5zu %11zu %6zu  %5zu\n", m,
               l->x.made[m].height, l->x.made[m].width, l->y.made[m].height, l->y.made[m].width,
               x_pixels, senders(&l->x, m), dy_pixels, senders(&l->y, m), x_bytes, dy_bytes,
               dw_bytes);
    }
    if (by_formula(l, look) > 0)
        printf("rank %zu by formula, O = (K - 1) / 2: 2 O W + 2 O H + 4 O O = %zu pixels; "
               "x %zu channels x %d images\n",
               look, by_formula(l, look), channels[i], N);
    printf("y: %zu of %zu numbers differ from the serial run's; dx: %zu of %zu; dW: %zu of %zu\n",
           off[Y], ls_image_box_count(&l->y.value.box), off[DX],
           ls_image_box_count(&l->x.value.box), off[DW], ranks * l->n_w);
    equal &= off[Y] == 0 && off[DX] == 0 && off[DW] == 0;
    LS_TRY(mistakes(l, work, &wrong_y, &wrong_dx));
    printf("WRONG ON PURPOSE, a halo of (K - 1) / 2: %zu numbers of y differ; %zu pixels sent, %zu "
           "needed\n"
           "WRONG ON PURPOSE, parts of dx added, no halo of dy: %zu numbers of dx differ\n",
           wrong_y, by_book, needed, wrong_dx);
exit:
    return status;
}

/* Sizes, arrays and transfers of a layer; x is what the one before has made. */
static ls_status set_up(layer *l, size_t i, ls_arena *arena, uint64_t seed)
{
    ls_status status = LS_OK;
    l->conv = (ls_conv2d){l->conv.window,
                          1,
                          channels[i],
                          channels[i + 1],
                          1,
                          1,
                          {grid.row_granules, grid.column_granules}};
    LS_TRY(ls_conv2d_check(names[i], &l->conv));
    l->depth = ls_conv2d_depth(&l->conv), l->n_w = channels[i + 1] * l->depth;
    const ls_image_box x = {{0, N}, {0, channels[i]}, ls_window_inputs(&l->conv.window)};
    const ls_image_box y = {{0, N}, {0, channels[i + 1]}, ls_window_outputs(&l->conv.window)};
    const ls_image_box w = {{0, 1}, {0, 1}, {0, 0, 1, l->n_w}};
    const ls_image_box scratch = {{0, 1}, {0, 1}, {0, 0, 1, ls_conv2d_scratch(&l->conv, N)}};
    const ls_image_box boxes[] = {w, x, y, y, x, w, scratch};
    block *const blocks[] = {&l->w,       &l->x.value,    &l->y.gradient,
                             &l->y.value, &l->x.gradient, &l->dw};
    for (size_t b = 0; b < 7; b++) {
        ls_stream stream = {seed, LS_RANDOM_TEST, (uint32_t)(8 * i + b), 0};
        size_t n = ls_image_box_count(&boxes[b]);
        if (n > ls_image_box_count(&room)) room = boxes[b];
        if (b < 6) LS_TRY(take_room(arena, boxes[b], blocks[b]));
        for (size_t k = 0; b < 6 && k < n; k++)
            blocks[b]->at[k] = (float)ls_random_normal(stream, k);
    }
    if (i > 0) l->x.value = layers[i - 1].y.value, layers[i - 1].y.gradient = l->x.gradient;
    for (size_t m = 0; m < ranks; m++) {
        l->x.owned[m] = l->x.wanted[m] = x, l->y.owned[m] = l->y.wanted[m] = y;
        l->x.made[m] = ls_spatial_pixels(&grid, m, x.area.height, x.area.width);
        l->y.made[m] = ls_spatial_pixels(&grid, m, y.area.height, y.area.width);
        l->x.owned[m].area = l->x.made[m], l->y.owned[m].area = l->y.made[m];
        /* All halos follow from these two lines. */
        l->x.wanted[m].area = ls_window_reads(&l->conv.window, l->y.made[m]);
        l->y.wanted[m].area = ls_window_read_by(&l->conv.window, l->x.made[m]);
    }
    for (side *of = &l->x; of != NULL; of = of == &l->x ? &l->y : NULL)
        LS_TRY(ls_transfers_create(&of->moves, &of->n_moves, of->owned, of->wanted, ranks));
exit:
    return status;
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"portable", "openblas", NULL};
    ls_status status = LS_OK;
    ls_arena *arena = NULL;
    FILE *file = NULL;
    const char *svg = NULL;
    uint64_t seed = 1;
    bool help = false;
    ls_pixel_map maps[4 * LAYERS];
    size_t spatial[2] = {3, 3}, granules[2] = {6, 6}, image[2] = {14, 13}, kernel[2] = {3, 3};
    size_t stride[2] = {1, 1}, before[2] = {1, 1}, after[2] = {1, 1};
    ls_option options[] = {
        ls_option_pair("spatial", spatial, 1, 7, "HxW", "ranks down and across"),
        ls_option_pair("granules", granules, 1, 8, "HxW", "granules of an image, down and across"),
        ls_option_pair("image", image, 1, MAX_SIDE, "HxW", "pixels of x of conv1"),
        ls_option_pair("kernel", kernel, 1, MAX_SIDE, "HxW", "of conv1"),
        ls_option_pair("stride", stride, 1, MAX_SIDE, "HxW", "of conv1"),
        ls_option_pair("pad-before", before, 0, 8, "HxW", "of conv1, above and at the left"),
        ls_option_pair("pad-after", after, 0, 8, "HxW", "of conv1, below and at the right"),
        ls_option_size("look", &look, 0, MAX_RANKS, "M",
                       "rank to draw; if there is none: the middle"),
        ls_option_string("svg", &svg, "FILE", "draw the maps into FILE"),
        ls_option_choice("gemm", &engine, engines, "who computes the products"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 14: convolutions on an image that is cut over a grid of ranks\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    if (!ls_engine_available((ls_engine)engine))
        LS_FAIL(LS_ERR_INPUT, "--gemm openblas: this build has no OpenBLAS; use portable");
    grid = (ls_spatial_grid){spatial[0], spatial[1], granules[0], granules[1]};
    LS_TRY(ls_spatial_check(&grid, image[0], image[1], "the image"));
    ranks = ls_spatial_members(&grid);
    if (look >= ranks) look = grid.down / 2 * grid.across + grid.across / 2;
    if (svg && !(file = fopen(svg, "w")))
        LS_FAIL(LS_ERR_INPUT, "--svg %s: cannot be opened for writing", ls_show(svg));
    /* conv1 as the options say; an even kernel; stride 2 with a pad at one side only. */
    layers[0].conv.window =
        (ls_window){image[0], image[1], kernel[0], kernel[1], stride[0], stride[1],
                    1,        1,        before[0], after[0],  before[1], after[1]};
    layers[1].conv.window = (ls_window){0, 0, 4, 4, 1, 1, 1, 1, 1, 2, 1, 2};
    layers[2].conv.window = (ls_window){0, 0, 3, 3, 2, 2, 1, 1, 0, 1, 0, 1};
    LS_TRY(ls_arena_create(&arena, NULL, LS_MEM_TEMPORARY));
    for (size_t i = 0; i < LAYERS; i++) {
        if (i > 0) layers[i].conv.window.in_h = ls_window_out_h(&layers[i - 1].conv.window);
        if (i > 0) layers[i].conv.window.in_w = ls_window_out_w(&layers[i - 1].conv.window);
        LS_TRY(set_up(&layers[i], i, arena, seed));
    }
    tree = (ls_pixel_tree){N, grid.row_granules, grid.column_granules};
    ls_pixel_area areas[MAX_RANKS];
    for (size_t m = 0; m < ranks; m++)
        areas[m] = (ls_pixel_area){0, N, ls_spatial_granules(&grid, m)};
    LS_TRY(ls_sum_plan_create_pixels(&plan, &tree, ranks, areas));
    LS_TRY(run_serial(arena));
    LS_TRY(ls_world_run((int)ranks, NULL, one_rank, NULL));

    printf("%zu x %zu ranks; %d images of %zu x %zu pixels in %zu x %zu granules; float\n"
           "Maps: each pixel by its owner; of reader %zu: '=' its own, '.' not read\n",
           grid.down, grid.across, N, image[0], image[1], granules[0], granules[1], look);
    for (size_t i = 0; i < LAYERS; i++) LS_TRY(show(i, arena, maps + 4 * i));
    for (size_t m = 0; m < ranks; m++) equal &= handed_out[m] == 0;
    if (file) ls_svg_pixel_maps(file, maps, 4 * LAYERS, 4);
    if (file && fflush(file) != 0) LS_FAIL(LS_ERR_IO, "--svg %s: cannot be written", ls_show(svg));
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    for (size_t i = 0; i < LAYERS; i++) free(layers[i].x.moves), free(layers[i].y.moves);
    ls_sum_plan_destroy(&plan);
    ls_arena_destroy(&arena);
    if (file) fclose(file);
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "14_spatial_convolution: %s\n", ls_error_text());
    return ls_exit_code(status);
}
