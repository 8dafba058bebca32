/* serial_net_sum.c - sums over images and pixels in the order of rule 9.
 *
 * T over the images; in each the tree P over the granule rectangles of its pixels, rows and columns
 * halved in turn. Values come one after another and meet on a stack of partial sums. */
#include <string.h>

#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/pixel_sum.h"
#include "serial/serial_net.h"

ls_status ls_serial_net_list_granules(ls_serial *serial)
{
    ls_status status = LS_OK;
    ls_serial_net *net = serial->net;
    const ls_pixel_tree tree = {1, net->net->row_granules, net->net->column_granules};
    const ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
    const ls_node image = {0, numbered.leaves};
    net->n_granules = numbered.leaves;
    net->stack = ls_binary_tree_stack(&numbered, image);
    LS_TRY(ls_arena_alloc(serial->kept, net->n_granules, sizeof *net->granules, &net->granules));
    for (size_t i = 0; i < net->n_granules; i++) {
        net->granules[i].at = ls_pixel_area_of(&tree, (ls_node){i, i + 1}).granules;
        net->granules[i].closes = ls_binary_tree_merges_after(&numbered, image, i);
    }
exit:
    return status;
}

ls_rectangle ls_serial_net_pixels(const ls_serial_net *net, size_t i, const ls_net_shape *shape)
{
    return ls_rectangle_of_granules(net->granules[i].at, net->net->row_granules,
                                    net->net->column_granules, shape->height, shape->width);
}

/* So many times the two values on top become their sum. top: where the next value goes. */
static ls_real *close_nodes(ls_real *top, size_t count, size_t closes)
{
    for (; closes > 0; closes--) {
        top -= count;
        ls_add(top - count, top - count, top, count);
    }
    return top;
}

ls_status ls_serial_net_sum_images(const ls_serial *serial, ls_real *sum, size_t count,
                                   size_t images, ls_serial_net_image_leaf *leaf,
                                   const void *context)
{
    ls_status status = LS_OK;
    const ls_binary_tree tree = ls_binary_tree_plain(images);
    const ls_node all = {0, images};
    const size_t mark = ls_arena_mark(serial->temporary);
    ls_real *stack = NULL, *top;
    LS_TRY(ls_arena_alloc(serial->temporary, ls_binary_tree_stack(&tree, all) * count,
                          sizeof *stack, &stack));
    top = stack;
    for (size_t b = 0; b < images; b++) {
        LS_TRY(leaf(serial, top, context, b));
        top = close_nodes(top + count, count, ls_binary_tree_merges_after(&tree, all, b));
    }
    memcpy(sum, stack, count * sizeof *sum);
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

/* A sum over the pixels of every image. */
typedef struct pixel_sum {
    const ls_net_shape *shape;
    ls_serial_net_pixel_leaf *leaf;
    const void *context;
} pixel_sum;

static ls_status inside_image(const ls_serial *serial, ls_real *value, const void *context,
                              size_t image)
{
    ls_status status = LS_OK;
    const pixel_sum *of = context;
    const ls_serial_net *net = serial->net;
    const size_t C = of->shape->channels, mark = ls_arena_mark(serial->temporary);
    ls_real *stack = NULL, *top;
    LS_TRY(ls_arena_alloc(serial->temporary, net->stack * C, sizeof *stack, &stack));
    top = stack;
    for (size_t i = 0; i < net->n_granules; i++) {
        of->leaf(top, of->context, image, ls_serial_net_pixels(net, i, of->shape));
        top = close_nodes(top + C, C, net->granules[i].closes);
    }
    memcpy(value, stack, C * sizeof *value);
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

ls_status ls_serial_net_sum_pixels(const ls_serial *serial, ls_real *sum, const ls_net_shape *shape,
                                   size_t images, ls_serial_net_pixel_leaf *leaf,
                                   const void *context)
{
    const pixel_sum pixels = {shape, leaf, context};
    return ls_serial_net_sum_images(serial, sum, shape->channels, images, inside_image, &pixels);
}

/* x by itself is summed. */
typedef struct plain_values {
    const ls_net_shape *shape;
    const ls_real *x;
} plain_values;

static void plain_leaf(ls_real *value, const void *context, size_t image, ls_rectangle pixels)
{
    const plain_values *of = context;
    const ls_image_layout layout = ls_serial_net_layout(of->shape);
    ls_pixel_sum(value, of->x + image * layout.stride, layout, pixels, of->shape->channels);
}

ls_status ls_serial_net_sum_plainly(const ls_serial *serial, ls_real *sum, const ls_real *x,
                                    const ls_net_shape *shape, size_t images)
{
    const plain_values values = {shape, x};
    return ls_serial_net_sum_pixels(serial, sum, shape, images, plain_leaf, &values);
}
