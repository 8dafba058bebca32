/* serial_net_sum.c - sums over images and pixels in the order of rule 9.
 *
 * T over the images; in each the tree P over the granule rectangles of its pixels, rows and columns
 * halved in turn. The leaves come one after another and meet on a stack of partial sums. */
#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/pixel_sum.h"
#include "serial/serial_net.h"

ls_pixel_tree ls_serial_net_tree(const ls_serial *serial, size_t images)
{
    const ls_net *net = serial->net->net;
    ls_pixel_tree tree = {images, net->row_granules, net->column_granules};
    return tree;
}

ls_status ls_serial_net_sum(const ls_serial *serial, ls_real *sum, size_t count, ls_pixel_tree tree,
                            size_t h, size_t w, ls_serial_net_leaf *leaf, const void *context)
{
    ls_status status = LS_OK;
    const ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
    const ls_node all = {0, numbered.leaves};
    const size_t mark = ls_arena_mark(serial->temporary);
    ls_real *stack = NULL;
    LS_TRY(ls_arena_alloc(serial->temporary, ls_binary_tree_stack(&numbered, all) * count,
                          sizeof *stack, &stack));
    ls_real *top = stack; /* where the next partial sum goes */
    for (size_t i = 0; i < all.hi; i++) {
        const ls_pixel_area area = ls_pixel_area_of(&tree, (ls_node){i, i + 1});
        LS_TRY(leaf(top, context, area.first,
                    ls_rectangle_of_granules(area.granules, tree.rows, tree.columns, h, w)));
        top += count;
        for (size_t c = ls_binary_tree_closes(&numbered, all, i); c > 0; c--) {
            top -= count;
            ls_add(top - count, top - count, top, count);
        }
    }
    ls_scale(sum, stack, 1, count);
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

/* What is summed over pixels. */
typedef struct pixel_values {
    const ls_real *x;
    const ls_net_shape *shape;
} pixel_values;

static ls_status pixel_leaf(ls_real *value, const void *context, size_t image, ls_rectangle pixels)
{
    const pixel_values *v = context;
    const ls_image_layout layout = ls_serial_net_layout(v->shape);
    ls_pixel_sum(value, v->x + image * layout.stride, layout, pixels, v->shape->channels);
    return LS_OK;
}

ls_status ls_serial_net_sum_pixels(const ls_serial *serial, ls_real *sum, const ls_real *x,
                                   const ls_net_shape *shape, size_t images)
{
    const pixel_values values = {x, shape};
    return ls_serial_net_sum(serial, sum, shape->channels, ls_serial_net_tree(serial, images),
                             shape->height, shape->width, pixel_leaf, &values);
}
