/* test_box_exchange.c - a convolution over sample x spatial ranks, put together from boxes,
 * exchanges and a sum plan, against the same loops over the whole batch: y, dx and dW with the bits
 * of one rank (contract rules 9 and 17). The loops are the plainest there are: what is tested is
 * that every rank has what it reads, and that dW's order is that of the tree. */
#include "comm/comm_test.h"

#include <math.h>

#include "lockstep/comm/sum_plan.h"
#include "lockstep/parallel/spatial/box_exchange.h"
#include "lockstep/partition/spatial.h"
#include "numerics/pixel_reference.h"
#include "numerics/tree_reference.h"
#include "partition/reach.h"

enum { IMAGES = 4, CHANNELS = 2, FILTERS = 3, MOST_PIXELS = 13 * 13, MOST_TAPS = CHANNELS * 25 };

typedef struct conv_case {
    stencil s;
    size_t rows, columns; /* granules */
    size_t runs, down, across;
} conv_case;

static size_t y_height(const conv_case *c)
{
    return reach_outputs(&c->s.rows);
}

static size_t y_width(const conv_case *c)
{
    return reach_outputs(&c->s.columns);
}

/* ---- the loops */

static const ls_real *at(const ls_real *block, const ls_image_box *box, size_t n, size_t c,
                         size_t h, size_t w)
{
    ls_image_box one = {{n, 1}, {c, 1}, {h, w, 1, 1}};
    size_t counts[4], strides[4];
    return block + ls_image_box_place(box, &one, counts, strides);
}

/* x where output (oh, ow) has its observer (kh, kw); padding is +0. */
static ls_real x_read(const conv_case *v, const ls_real *x, const ls_image_box *box, size_t n,
                      size_t c, size_t oh, size_t ow, size_t kh, size_t kw)
{
    const reach *r = &v->s.rows, *k = &v->s.columns;
    size_t h = oh * r->stride + kh * r->dilation, w = ow * k->stride + kw * k->dilation;
    if (h < r->pad_before || h >= r->pad_before + r->extent) return 0;
    if (w < k->pad_before || w >= k->pad_before + k->extent) return 0;
    return *at(x, box, n, c, h - r->pad_before, w - k->pad_before);
}

static ls_real weight(const conv_case *v, const ls_real *weights, size_t co, size_t ci, size_t kh,
                      size_t kw)
{
    return weights[((co * CHANNELS + ci) * v->s.rows.kernel + kh) * v->s.columns.kernel + kw];
}

static void forward(const conv_case *v, ls_real *y, const ls_image_box *made, const ls_real *x,
                    const ls_image_box *box, const ls_real *weights)
{
    for (size_t n = made->images.first; n < made->images.first + made->images.count; n++)
        for (size_t co = 0; co < FILTERS; co++)
            for (size_t h = made->area.top; h < made->area.top + made->area.height; h++)
                for (size_t w = made->area.left; w < made->area.left + made->area.width; w++) {
                    ls_real sum = 0;
                    for (size_t ci = 0; ci < CHANNELS; ci++)
                        for (size_t kh = 0; kh < v->s.rows.kernel; kh++)
                            for (size_t kw = 0; kw < v->s.columns.kernel; kw++)
                                sum += x_read(v, x, box, n, ci, h, w, kh, kw) *
                                       weight(v, weights, co, ci, kh, kw);
                    *y++ = sum;
                }
}

/* The output that reads input q with observer k, or SIZE_MAX. */
static size_t output_of(const reach *r, size_t q, size_t k)
{
    size_t place = q + r->pad_before, back = k * r->dilation;
    if (back > place || (place - back) % r->stride != 0) return SIZE_MAX;
    size_t o = (place - back) / r->stride;
    return o < reach_outputs(r) ? o : SIZE_MAX;
}

static void backward(const conv_case *v, ls_real *dx, const ls_image_box *made, const ls_real *dy,
                     const ls_image_box *box, const ls_real *weights)
{
    for (size_t n = made->images.first; n < made->images.first + made->images.count; n++)
        for (size_t ci = 0; ci < CHANNELS; ci++)
            for (size_t h = made->area.top; h < made->area.top + made->area.height; h++)
                for (size_t w = made->area.left; w < made->area.left + made->area.width; w++) {
                    ls_real sum = 0;
                    for (size_t co = 0; co < FILTERS; co++)
                        for (size_t kh = 0; kh < v->s.rows.kernel; kh++)
                            for (size_t kw = 0; kw < v->s.columns.kernel; kw++) {
                                size_t oh = output_of(&v->s.rows, h, kh);
                                size_t ow = output_of(&v->s.columns, w, kw);
                                if (oh == SIZE_MAX || ow == SIZE_MAX) continue;
                                sum += *at(dy, box, n, co, oh, ow) *
                                       weight(v, weights, co, ci, kh, kw);
                            }
                    *dx++ = sum;
                }
}

/* Leaf of dW for filter 1, one observer: the pixels of a granule, row by row. */
static ls_real dw_leaf(const conv_case *v, ls_rectangle granule, size_t n, size_t ci, size_t kh,
                       size_t kw, const ls_real *dy, const ls_image_box *dy_box, const ls_real *x,
                       const ls_image_box *x_box)
{
    ls_rectangle p =
        ls_rectangle_of_granules(granule, v->rows, v->columns, y_height(v), y_width(v));
    ls_real sum = 0;
    for (size_t h = p.top; h < p.top + p.height; h++)
        for (size_t w = p.left; w < p.left + p.width; w++)
            sum += *at(dy, dy_box, n, 1, h, w) * x_read(v, x, x_box, n, ci, h, w, kh, kw);
    return sum;
}

/* ---- the ranks */

typedef struct whole {
    const conv_case *v;
    ls_image_box x_box, y_box;
    ls_real *x, *dy, *weights, *y, *dx, dw[MOST_TAPS];
} whole;

static ls_status move(ls_group *group, const ls_image_box *owned, const ls_image_box *wanted,
                      const void *from, void *to)
{
    ls_status status = LS_OK;
    size_t own = (size_t)ls_group_rank(group), members = (size_t)ls_group_size(group), n = 0;
    ls_transfer *list = NULL;
    ls_exchange *exchange = NULL;
    uint64_t before = ls_group_count(group, LS_OP_SEND).bytes;
    LS_TRY(ls_transfers_create(&list, &n, owned, wanted, members));
    LS_TRY(ls_image_boxes_begin(group, 1, list, n, &owned[own], from, &wanted[own], to,
                                LS_REAL_DTYPE, &exchange));
    LS_TRY(ls_exchange_end(&exchange));
    EXPECT(ls_group_count(group, LS_OP_SEND).bytes - before ==
               ls_transfers_sent(list, n, own) * sizeof(ls_real),
           "bytes of a halo");
exit:
    free(list);
    return status;
}

static guarded block_of(const ls_image_box *box)
{
    return guarded_new(ls_image_box_count(box) * sizeof(ls_real));
}

static void copy_box(ls_real *to, const ls_image_box *box, const ls_real *all,
                     const ls_image_box *all_box)
{
    for (size_t n = box->images.first; n < box->images.first + box->images.count; n++)
        for (size_t c = box->channels.first; c < box->channels.first + box->channels.count; c++)
            for (size_t h = box->area.top; h < box->area.top + box->area.height; h++)
                for (size_t w = box->area.left; w < box->area.left + box->area.width; w++)
                    *to++ = *at(all, all_box, n, c, h, w);
}

static void compare(const char *what, const ls_real *got, const ls_image_box *box,
                    const ls_real *all, const ls_image_box *all_box)
{
    guarded right = block_of(box);
    copy_box((ls_real *)right.data, box, all, all_box);
    EXPECT(memcmp(got, right.data, right.bytes) == 0, "%s differs", what);
    guarded_free(&right);
}

static ls_status train(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const whole *a = argument;
    const conv_case *v = a->v;
    ls_spatial_grid grid = {v->down, v->across, v->rows, v->columns};
    size_t members = ls_spatial_members(&grid), world = v->runs * members;
    size_t me = (size_t)ls_rank_index(rank), run = me / members, own = me % members;
    ls_group *group = NULL;
    LS_TRY(ls_group_split(ls_rank_world_group(rank), (int)run, (int)own, "spatial", &group));
    ls_share images = ls_share_of(IMAGES, v->runs, run);
    ls_image_box x[12], y[12], x_wanted[12], dy_wanted[12];
    ls_rectangle x_made[12], y_made[12];
    for (size_t m = 0; m < members; m++) {
        x_made[m] = ls_spatial_pixels(&grid, m, v->s.rows.extent, v->s.columns.extent);
        y_made[m] = ls_spatial_pixels(&grid, m, y_height(v), y_width(v));
        x[m] = (ls_image_box){images, {0, CHANNELS}, x_made[m]};
        y[m] = (ls_image_box){images, {0, FILTERS}, y_made[m]};
    }
    halo_wanted(x_wanted, y_made, members, false, &v->s, images, x->channels);
    halo_wanted(dy_wanted, x_made, members, true, &v->s, images, y->channels);

    guarded x_own = block_of(&x[own]), x_halo = block_of(&x_wanted[own]);
    guarded dy_own = block_of(&y[own]), dy_halo = block_of(&dy_wanted[own]);
    guarded made = block_of(&y[own]), dx = block_of(&x[own]);
    ls_real *x_read_from = (ls_real *)x_halo.data;
    copy_box((ls_real *)x_own.data, &x[own], a->x, &a->x_box);
    copy_box((ls_real *)dy_own.data, &y[own], a->dy, &a->y_box);

    LS_TRY(move(group, x, x_wanted, x_own.data, x_halo.data));
    forward(v, (ls_real *)made.data, &y[own], x_read_from, &x_wanted[own], a->weights);
    compare("y", (ls_real *)made.data, &y[own], a->y, &a->y_box);
    LS_TRY(move(group, y, dy_wanted, dy_own.data, dy_halo.data));
    backward(v, (ls_real *)dx.data, &x[own], (ls_real *)dy_halo.data, &dy_wanted[own], a->weights);
    compare("dx", (ls_real *)dx.data, &x[own], a->dx, &a->x_box);

    /* dW: nodes of the own granules of the own images. x with its halo is still there. */
    ls_pixel_tree tree = {IMAGES, v->rows, v->columns};
    ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
    ls_pixel_area areas[12];
    ls_node nodes[IMAGES * 64];
    ls_sum_plan *plan = NULL;
    for (size_t m = 0; m < world; m++) {
        ls_share of = ls_share_of(IMAGES, v->runs, m / members);
        areas[m] = (ls_pixel_area){of.first, of.count, ls_spatial_granules(&grid, m % members)};
    }
    LS_TRY(ls_sum_plan_create_pixels(&plan, &tree, world, areas));
    size_t n = ls_pixel_forest(&tree, areas[me], nodes), taps = 0;
    size_t all_taps = CHANNELS * v->s.rows.kernel * v->s.columns.kernel;
    ls_real *partials = malloc((n + 1) * MOST_TAPS * sizeof *partials), dw[MOST_TAPS];
    for (size_t ci = 0; ci < CHANNELS; ci++)
        for (size_t kh = 0; kh < v->s.rows.kernel; kh++)
            for (size_t kw = 0; kw < v->s.columns.kernel; kw++, taps++)
                for (size_t j = 0; j < n; j++) {
                    ls_real stack[32];
                    size_t top = 0;
                    for (size_t leaf = nodes[j].lo; leaf < nodes[j].hi; leaf++) {
                        ls_pixel_area g = ls_pixel_area_of(&tree, (ls_node){leaf, leaf + 1});
                        stack[top++] =
                            dw_leaf(v, g.granules, g.first, ci, kh, kw, (ls_real *)dy_own.data,
                                    &y[own], x_read_from, &x_wanted[own]);
                        for (size_t k = ls_binary_tree_merges_after(&numbered, nodes[j], leaf);
                             k > 0; k--, top--)
                            stack[top - 2] += stack[top - 1];
                    }
                    partials[j * all_taps + taps] = stack[0];
                }
    LS_TRY(
        ls_all_reduce_plan(ls_rank_world_group(rank), dw, partials, all_taps, LS_REAL_DTYPE, plan));
    EXPECT(memcmp(dw, a->dw, all_taps * sizeof *dw) == 0, "dW differs");
    free(partials);
    ls_sum_plan_destroy(&plan);
    guarded_free(&x_own);
    guarded_free(&x_halo);
    guarded_free(&dy_own);
    guarded_free(&dy_halo);
    guarded_free(&made);
    guarded_free(&dx);
exit:
    return status;
}

/* ---- one rank */

static void whole_dw(whole *a)
{
    const conv_case *v = a->v;
    size_t taps = 0;
    for (size_t ci = 0; ci < CHANNELS; ci++)
        for (size_t kh = 0; kh < v->s.rows.kernel; kh++)
            for (size_t kw = 0; kw < v->s.columns.kernel; kw++) {
                ls_real images[IMAGES], leaves[64];
                for (size_t n = 0; n < IMAGES; n++) {
                    for (size_t g = 0; g < v->rows * v->columns; g++)
                        leaves[g] = dw_leaf(v, (ls_rectangle){g / v->columns, g % v->columns, 1, 1},
                                            n, ci, kh, kw, a->dy, &a->y_box, a->x, &a->x_box);
                    images[n] = reference_pixels(leaves, v->columns, 0, 0, v->rows, v->columns, 0);
                }
                a->dw[taps++] = reference_tree(images, IMAGES);
            }
}

static void try_case(const conv_case *v)
{
    whole a = {.v = v};
    static ls_real x[IMAGES * CHANNELS * MOST_PIXELS], dx[IMAGES * CHANNELS * MOST_PIXELS];
    static ls_real dy[IMAGES * FILTERS * MOST_PIXELS], y[IMAGES * FILTERS * MOST_PIXELS];
    static ls_real weights[FILTERS * MOST_TAPS];
    a.x_box =
        (ls_image_box){{0, IMAGES}, {0, CHANNELS}, {0, 0, v->s.rows.extent, v->s.columns.extent}};
    a.y_box = (ls_image_box){{0, IMAGES}, {0, FILTERS}, {0, 0, y_height(v), y_width(v)}};
    a.x = x;
    a.dx = dx;
    a.y = y;
    a.dy = dy;
    a.weights = weights;
    reference_fill(x, ls_image_box_count(&a.x_box), 1);
    reference_fill(dy, ls_image_box_count(&a.y_box), 2);
    reference_fill(weights, FILTERS * MOST_TAPS, 3);
    forward(v, y, &a.y_box, x, &a.x_box, weights);
    backward(v, dx, &a.x_box, dy, &a.y_box, weights);
    whole_dw(&a);
    run_well((int)(v->runs * v->down * v->across), NULL, train, &a);
}

/* Symmetric, one-sided and no padding, even kernels, stride, dilation; granules fewer and more than
 * rows; shards smaller than the halo, empty ones; backward, x and dy have different halos. */
START_TEST(samples_and_space)
{
    static const stencil windows[] = {{{9, 3, 1, 1, 1, 1}, {8, 5, 1, 1, 2, 2}},
                                      {{11, 3, 2, 1, 0, 1}, {7, 2, 2, 1, 0, 0}},
                                      {{5, 3, 1, 2, 2, 2}, {6, 4, 1, 1, 1, 2}},
                                      {{7, 5, 3, 1, 4, 0}, {4, 1, 1, 1, 0, 0}}};
    static const size_t grids[][3] = {{1, 1, 1}, {1, 2, 1}, {1, 1, 3}, {1, 2, 2}, {1, 3, 2},
                                      {1, 4, 1}, {2, 1, 2}, {3, 2, 1}, {2, 2, 2}, {1, 1, 7},
                                      {1, 5, 1}, {2, 3, 2}, {4, 1, 3}, {1, 4, 3}};
    static const size_t granules[][2] = {{8, 8}, {4, 3}, {5, 7}};
    for (size_t w = 0; w < 4; w++)
        for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
            const size_t *q = granules[(w + g) % 3];
            conv_case v = {windows[w], q[0], q[1], grids[g][0], grids[g][1], grids[g][2]};
            try_case(&v);
        }
}
END_TEST

TEST_MAIN("box_exchange", samples_and_space)
