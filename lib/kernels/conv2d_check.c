/* conv2d_check.c - what a convolution may be, and how much scratch it takes. */
#include "kernels/conv2d_scratch.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t granule_most(ls_pixel_grid grid, ls_rectangle image)
{
    return ((image.height + grid.rows - 1) / grid.rows) *
           ((image.width + grid.columns - 1) / grid.columns);
}

ls_conv2d_scratch_parts ls_conv2d_scratch_of(const ls_conv2d *conv, size_t images)
{
    const ls_rectangle in = ls_window_inputs(&conv->window);
    const ls_rectangle out = ls_window_outputs(&conv->window);
    const size_t channels =
        larger(conv->in_channels / conv->groups, conv->out_channels / conv->groups);
    const size_t kernel = conv->window.kernel_h * conv->window.kernel_w;
    size_t pixels = larger(larger(in.width, out.width), LS_CONV2D_STRIP);
    pixels = smaller(pixels, images * larger(ls_rectangle_count(in), ls_rectangle_count(out)));
    pixels = larger(pixels, larger(granule_most(conv->grid, in), granule_most(conv->grid, out)));
    return (ls_conv2d_scratch_parts){pixels * channels * kernel, pixels * channels,
                                     conv->in_channels * (conv->out_channels / conv->groups) *
                                         kernel};
}

size_t ls_conv2d_scratch(const ls_conv2d *conv, size_t images)
{
    const ls_conv2d_scratch_parts parts = ls_conv2d_scratch_of(conv, images);
    return parts.columns + parts.product + parts.turned;
}

size_t ls_conv2d_node_scratch(const ls_conv2d *conv, const ls_conv2d_piece *pieces, size_t n_pieces)
{
    size_t pixels = 0;
    for (size_t i = 0; i < n_pieces; i++) pixels += ls_rectangle_count(pieces[i].outputs);
    return pixels * (ls_conv2d_depth(conv) + conv->out_channels / conv->groups);
}

static ls_status check_channels(const char *name, const char *which, size_t channels, size_t groups,
                                size_t granules)
{
    ls_status status = LS_OK;
    if (channels == 0 || channels > LS_WINDOW_MOST)
        LS_FAIL(LS_ERR_INPUT, "%s: %zu %s channels: 1 to %d are allowed", name, channels, which,
                LS_WINDOW_MOST);
    if (channels % groups != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: %zu %s channels in %zu groups: the groups must divide the channels", name,
                channels, which, groups);
    if (granules == 0 || channels / groups % granules != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: %zu %s channels of a group in %zu granules: the granules must divide them",
                name, channels / groups, which, granules);
exit:
    return status;
}

/* 2^48 numbers are more than any memory has; products of up to that and a channel count, a strip
 * or a size of a number do not wrap. */
static const double most_numbers = 281474976710656.0;

static ls_status check_numbers(const char *name, const char *what, double numbers)
{
    ls_status status = LS_OK;
    if (numbers > most_numbers)
        LS_FAIL(LS_ERR_INPUT, "%s: %g numbers of %s: more than 2^48 are not taken", name, numbers,
                what);
exit:
    return status;
}

/* Each number of a window and each channel count is legal, but not all together. */
static ls_status check_sizes(const char *name, const ls_conv2d *conv)
{
    ls_status status = LS_OK;
    const ls_window *w = &conv->window;
    const double in = (double)conv->in_channels, out = (double)conv->out_channels;
    const double kernel = (double)w->kernel_h * (double)w->kernel_w;
    const double depth = (in > out ? in : out) / (double)conv->groups * kernel;
    const double wide = (double)(w->in_w > ls_window_out_w(w) ? w->in_w : ls_window_out_w(w));
    LS_TRY(check_numbers(name, "its weight", in / (double)conv->groups * kernel * out));
    LS_TRY(check_numbers(name, "an image it reads", in * (double)w->in_h * (double)w->in_w));
    LS_TRY(check_numbers(name, "an image it makes",
                         out * (double)ls_window_out_h(w) * (double)ls_window_out_w(w)));
    LS_TRY(check_numbers(name, "what a row of pixels meets",
                         depth * (wide > LS_CONV2D_STRIP ? wide : LS_CONV2D_STRIP)));
exit:
    return status;
}

ls_status ls_conv2d_check(const char *name, const ls_conv2d *conv)
{
    ls_status status = LS_OK;
    LS_TRY(ls_window_check(name, &conv->window));
    if (conv->groups == 0) LS_FAIL(LS_ERR_INPUT, "%s: 0 groups: at least 1 is needed", name);
    LS_TRY(check_channels(name, "input", conv->in_channels, conv->groups, conv->in_granules));
    LS_TRY(check_channels(name, "output", conv->out_channels, conv->groups, conv->out_granules));
    if (conv->grid.rows == 0 || conv->grid.columns == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: %zu x %zu granules of pixels: at least 1 x 1 are needed", name,
                conv->grid.rows, conv->grid.columns);
    LS_TRY(check_sizes(name, conv));
exit:
    return status;
}
