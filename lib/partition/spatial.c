#include "lockstep/partition/spatial.h"

/* ---- who owns what */

ls_status ls_spatial_check(const ls_spatial_grid *grid, size_t height, size_t width,
                           const char *what)
{
    ls_status status = LS_OK;
    if (grid->down == 0 || grid->across == 0)
        LS_FAIL(LS_ERR_INPUT, "a spatial grid of %zu x %zu ranks: at least 1 x 1", grid->down,
                grid->across);
    if (grid->row_granules == 0 || grid->column_granules == 0)
        LS_FAIL(LS_ERR_INPUT, "%zu x %zu granules of an image: at least 1 x 1", grid->row_granules,
                grid->column_granules);
    if (grid->down > height || grid->across > width)
        LS_FAIL(LS_ERR_INPUT,
                "a spatial grid of %zu x %zu ranks is larger than %s of %zu x %zu pixels; at most "
                "one rank per row and column",
                grid->down, grid->across, what, height, width);
exit:
    return status;
}

size_t ls_spatial_members(const ls_spatial_grid *grid)
{
    return grid->down * grid->across;
}

ls_rectangle ls_spatial_granules(const ls_spatial_grid *grid, size_t member)
{
    ls_share rows = ls_share_of(grid->row_granules, grid->down, member / grid->across);
    ls_share columns = ls_share_of(grid->column_granules, grid->across, member % grid->across);
    return (ls_rectangle){rows.first, columns.first, rows.count, columns.count};
}

ls_rectangle ls_spatial_pixels(const ls_spatial_grid *grid, size_t member, size_t height,
                               size_t width)
{
    return ls_rectangle_of_granules(ls_spatial_granules(grid, member), grid->row_granules,
                                    grid->column_granules, height, width);
}

/* ---- what is read */

size_t ls_reach_outputs(const ls_reach *reach)
{
    if (reach->extent == 0 || reach->kernel == 0 || reach->stride == 0 || reach->dilation == 0)
        return 0;
    size_t padded = reach->extent + reach->pad_before + reach->pad_after;
    size_t span = (reach->kernel - 1) * reach->dilation + 1;
    return span > padded ? 0 : (padded - span) / reach->stride + 1;
}

ls_share ls_reach_reads(const ls_reach *reach, ls_share outputs)
{
    if (outputs.count == 0) return (ls_share){0, 0};
    /* Counted from the beginning of the padding; input 0 is at pad_before. Output by output,
     * because with dilation the outermost one may step over all inputs. */
    size_t first = reach->extent, end = 0;
    for (size_t o = outputs.first; o < outputs.first + outputs.count; o++)
        for (size_t k = 0; k < reach->kernel; k++) {
            size_t at = o * reach->stride + k * reach->dilation;
            if (at < reach->pad_before || at >= reach->pad_before + reach->extent) continue;
            at -= reach->pad_before;
            if (at < first) first = at;
            if (at + 1 > end) end = at + 1;
        }
    return first < end ? (ls_share){first, end - first} : (ls_share){0, 0};
}

ls_share ls_reach_read_by(const ls_reach *reach, ls_share inputs)
{
    if (inputs.count == 0) return (ls_share){0, 0};
    size_t outputs = ls_reach_outputs(reach), first = outputs, end = 0;
    for (size_t q = inputs.first; q < inputs.first + inputs.count; q++)
        for (size_t k = 0; k < reach->kernel; k++) {
            /* o stride = q + pad_before - k dilation */
            size_t at = q + reach->pad_before, back = k * reach->dilation;
            if (back > at || (at - back) % reach->stride != 0) continue;
            size_t o = (at - back) / reach->stride;
            if (o >= outputs) continue;
            if (o < first) first = o;
            if (o + 1 > end) end = o + 1;
        }
    return first < end ? (ls_share){first, end - first} : (ls_share){0, 0};
}

void ls_reach_pads(const ls_reach *reach, ls_share outputs, size_t *ret_before, size_t *ret_after)
{
    size_t begin = outputs.first * reach->stride, inputs_end = reach->pad_before + reach->extent;
    size_t end = (outputs.first + outputs.count - 1) * reach->stride +
                 (reach->kernel - 1) * reach->dilation + 1;
    *ret_before = begin < reach->pad_before ? reach->pad_before - begin : 0;
    *ret_after = end > inputs_end ? end - inputs_end : 0;
}

/* ---- halos */

static ls_rectangle of_both(ls_share rows, ls_share columns)
{
    if (rows.count == 0 || columns.count == 0) return (ls_rectangle){0, 0, 0, 0};
    return (ls_rectangle){rows.first, columns.first, rows.count, columns.count};
}

ls_rectangle ls_stencil_reads(const void *stencil, ls_rectangle outputs)
{
    const ls_stencil *s = stencil;
    if (ls_rectangle_is_empty(outputs)) return (ls_rectangle){0, 0, 0, 0};
    return of_both(ls_reach_reads(&s->rows, (ls_share){outputs.top, outputs.height}),
                   ls_reach_reads(&s->columns, (ls_share){outputs.left, outputs.width}));
}

ls_rectangle ls_stencil_read_by(const void *stencil, ls_rectangle inputs)
{
    const ls_stencil *s = stencil;
    if (ls_rectangle_is_empty(inputs)) return (ls_rectangle){0, 0, 0, 0};
    return of_both(ls_reach_read_by(&s->rows, (ls_share){inputs.top, inputs.height}),
                   ls_reach_read_by(&s->columns, (ls_share){inputs.left, inputs.width}));
}

void ls_halo_wanted(ls_image_box *ret_wanted, const ls_rectangle *made, size_t members,
                    ls_area_function need, const void *window, ls_share images, ls_share channels)
{
    for (size_t m = 0; m < members; m++)
        ret_wanted[m] = (ls_image_box){images, channels, need(window, made[m])};
}

size_t ls_halo_elements(size_t height, size_t width, size_t rows, size_t columns)
{
    return 2 * rows * width + 2 * columns * height + 4 * rows * columns;
}
