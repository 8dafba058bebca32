/* operation_net_batch.c - batch normalisation: per channel over images and pixels.
 *
 *     mean = sum of x / N,  rstd = 1 / sqrt(sum of (x - mean)^2 / N + eps)
 *     xhat = (x - mean) rstd,  y = xhat scale + shift
 *     dscale = sum of dy xhat,  dshift = sum of dy
 *     dx = scale rstd (dy - dshift / N - xhat dscale / N)
 *     running = (1 - momentum) running + momentum m,  m = mean, or sum of (x - mean)^2 / (N - 1)
 *
 * Errors are carried from mean to rstd to y, as in operation_norm.c. The variants cut images and
 * pixels into blocks, each with statistics of its own, or with means over the blocks. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/partition/share.h"
#include "step_graph/operation_net.h"
#include "base/allocate.h"

/* What a block, or the whole, divides and subtracts by. */
typedef struct statistics {
    double count;
    approx mean, variance, rstd;
} statistics;

typedef struct batch {
    net_layer l;
    size_t blocks;  /* 1 unless a variant cuts */
    size_t *block;  /* of each element of a channel: images, rows, columns */
    size_t *offset; /* of each: where it is in the first channel; behind `block` */
    statistics *of; /* [blocks]: of one channel */
    approx_sum *sums;
} batch;

static void number_blocks(size_t *number, size_t extent, size_t granules, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++) {
        const ls_share own = ls_net_block_pixels(extent, granules, blocks, b);
        for (size_t i = 0; i < own.count; i++) number[own.first + i] = b;
    }
}

static void batch_free(batch *b)
{
    free(b->block);
    free(b->of);
    free(b->sums);
}

/* Where every element of a channel is, and in which block. */
static void place_elements(batch *b, const size_t *image, const size_t *row, const size_t *column,
                           size_t down, size_t across)
{
    size_t i = 0;
    for (size_t n = 0; n < b->l.images; n++)
        for (size_t r = 0; r < b->l.in.height; r++)
            for (size_t c = 0; c < b->l.in.width; c++, i++) {
                b->block[i] = (image[n] * down + row[r]) * across + column[c];
                b->offset[i] = n * b->l.in.channels * b->l.in_pixels + r * b->l.in.width + c;
            }
}

static ls_status batch_create(const evaluation *e, const ls_graph_node *node, batch *ret_batch)
{
    ls_status status = LS_OK;
    batch b = {.l = ls_net_layer_at(e, node)};
    const ls_variant_grid *grid = &e->variant.grid;
    const bool cut =
        e->variant.statistics != LS_STATISTICS_AS_IS || e->variant.statistics_back_means;
    const size_t samples = cut && grid->samples ? grid->samples : 1;
    const size_t down = cut && grid->down ? grid->down : 1;
    const size_t across = cut && grid->across ? grid->across : 1;
    const size_t images = b.l.images, height = b.l.in.height, width = b.l.in.width;
    size_t *numbers = NULL;
    b.blocks = samples * down * across;
    LS_ROOM(b.block, 2 * images * b.l.in_pixels);
    LS_NEW(b.of, b.blocks);
    LS_NEW(b.sums, 2 * b.blocks);
    LS_NEW(numbers, images + height + width);
    b.offset = b.block + images * b.l.in_pixels;
    number_blocks(numbers, images, images, samples);
    number_blocks(numbers + images, height, b.l.net->row_granules, down);
    number_blocks(numbers + images + height, width, b.l.net->column_granules, across);
    place_elements(&b, numbers, numbers + images, numbers + images + height, down, across);
    *ret_batch = b;
    b = (batch){.block = NULL};
exit:
    free(numbers);
    batch_free(&b);
    return status;
}

static size_t elements_of_channel(const batch *b)
{
    return b->l.images * b->l.in_pixels;
}

/* The block of element i of a channel, i counting images, rows and columns; and where it is. */
static size_t block_of(const batch *b, size_t i)
{
    return b->block[i];
}

static size_t place_of(const batch *b, size_t channel, size_t i)
{
    return b->offset[i] + channel * b->l.in_pixels;
}

/* ---- statistics ---- */

static double total(const batch *b)
{
    return (double)elements_of_channel(b);
}

/* A block without elements has no share in a mean of blocks. */
static approx mean_of(const ls_precision *p, const batch *b, const approx *values, size_t stride)
{
    approx_sum sum = {0};
    for (size_t g = 0; g < b->blocks; g++)
        if (b->of[g].count > 0)
            approx_sum_add(&sum,
                           *(const approx *)(const void *)((const char *)values + g * stride));
    return approx_divide(p, approx_sum_end(p, &sum), approx_exact(sum.count));
}

static void clear_sums(batch *b)
{
    memset(b->sums, 0, 2 * b->blocks * sizeof *b->sums);
}

static approx over(const ls_precision *p, const approx_sum *sum, double count)
{
    return count > 0 ? approx_divide(p, approx_sum_end(p, sum), approx_exact(count))
                     : approx_exact(0);
}

static void find_means(const evaluation *e, batch *b, const double *x, size_t channel)
{
    const ls_statistics_form form = e->variant.statistics;
    clear_sums(b);
    for (size_t i = 0; i < elements_of_channel(b); i++)
        approx_sum_add(&b->sums[block_of(b, i)], approx_input(e->p, x[place_of(b, channel, i)]));
    for (size_t g = 0; g < b->blocks; g++) {
        b->of[g].count = b->sums[g].count;
        b->of[g].mean =
            over(e->p, &b->sums[g], form == LS_STATISTICS_UNREDUCED ? total(b) : b->sums[g].count);
    }
    if (form == LS_STATISTICS_ABOUT_MEAN) {
        const approx mean = mean_of(e->p, b, &b->of[0].mean, sizeof *b->of);
        for (size_t g = 0; g < b->blocks; g++) b->of[g].mean = mean;
    }
}

/* Sums of (x - mean)^2 per block; for the form of moments, of x^2. */
static void find_variances(const evaluation *e, batch *b, const double *x, size_t channel)
{
    const ls_statistics_form form = e->variant.statistics;
    const bool one_less = e->variant.unbiased;
    clear_sums(b);
    for (size_t i = 0; i < elements_of_channel(b); i++) {
        const size_t g = block_of(b, i);
        approx d = approx_input(e->p, x[place_of(b, channel, i)]);
        if (form != LS_STATISTICS_MOMENTS) d = approx_subtract(e->p, d, b->of[g].mean);
        approx_sum_add(&b->sums[g], approx_product(d, d));
    }
    for (size_t g = 0; g < b->blocks; g++) {
        const double count = form == LS_STATISTICS_UNREDUCED ? total(b) : b->of[g].count;
        b->of[g].variance = over(e->p, &b->sums[g], one_less && count > 1 ? count - 1 : count);
    }
}

static bool is_averaged(ls_statistics_form form)
{
    return form == LS_STATISTICS_AVERAGED || form == LS_STATISTICS_ABOUT_MEAN ||
           form == LS_STATISTICS_MOMENTS;
}

static approx rstd_of(const evaluation *e, const net_layer *l, approx variance)
{
    const double other = fmax(0, e->variant.norm_eps);
    const approx eps = approx_constant(e->p, e->variant.norm_eps != 0 ? other : l->layer->eps);
    const approx below = e->variant.eps_outside
                             ? approx_add(e->p, approx_root(e->p, variance), eps)
                             : approx_root(e->p, approx_add(e->p, variance, eps));
    return approx_divide(e->p, approx_exact(1), below);
}

/* Of all blocks of one channel. */
static void find_statistics(const evaluation *e, batch *b, const double *x, size_t channel)
{
    const ls_precision *p = e->p;
    find_means(e, b, x, channel);
    find_variances(e, b, x, channel);
    if (is_averaged(e->variant.statistics)) {
        const approx mean = mean_of(p, b, &b->of[0].mean, sizeof *b->of);
        approx variance = mean_of(p, b, &b->of[0].variance, sizeof *b->of);
        if (e->variant.statistics == LS_STATISTICS_MOMENTS)
            variance = approx_subtract(p, variance, approx_multiply(p, mean, mean));
        for (size_t g = 0; g < b->blocks; g++) b->of[g].mean = mean, b->of[g].variance = variance;
    }
    for (size_t g = 0; g < b->blocks; g++) b->of[g].rstd = rstd_of(e, &b->l, b->of[g].variance);
}

static approx xhat_of(const evaluation *e, const batch *b, double x, size_t g)
{
    const approx d = approx_subtract(e->p, approx_input(e->p, x), b->of[g].mean);
    return approx_multiply(e->p, d, b->of[g].rstd);
}

/* ---- forward ---- */

static size_t shown_block(const evaluation *e, const batch *b)
{
    return e->variant.statistics_block < b->blocks ? e->variant.statistics_block : 0;
}

ls_status ls_evaluate_batch_norm(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    ls_status status = LS_OK;
    const double *x = operand_of(e, node, 0);
    const double *scale = param_of(e, node->params[0]), *shift = param_of(e, node->params[1]);
    batch b = {0};
    LS_TRY(batch_create(e, node, &b));
    for (size_t channel = 0; channel < b.l.in.channels; channel++) {
        find_statistics(e, &b, x, channel);
        if (node->make != LS_MAKE_BATCH_NORM) {
            const statistics *shown = &b.of[shown_block(e, &b)];
            approx_sum_add(&out[channel],
                           node->make == LS_MAKE_BATCH_MEAN ? shown->mean : shown->rstd);
            continue;
        }
        for (size_t i = 0; i < elements_of_channel(&b); i++) {
            const size_t at = place_of(&b, channel, i);
            approx y = xhat_of(e, &b, x[at], block_of(&b, i));
            y = approx_multiply(e->p, y, approx_exact(scale[channel]));
            approx_sum_add(&out[at], approx_add(e->p, y, approx_exact(shift[channel])));
        }
    }
exit:
    batch_free(&b);
    return status;
}

/* ---- backward ---- */

/* dshift and dscale of every block into b->sums: [blocks] and [blocks]. */
static void find_gradient_sums(const evaluation *e, batch *b, const double *x, const double *dy,
                               size_t channel)
{
    clear_sums(b);
    for (size_t i = 0; i < elements_of_channel(b); i++) {
        const size_t at = place_of(b, channel, i), g = block_of(b, i);
        const approx d = approx_input(e->p, dy[at]);
        approx_sum_add(&b->sums[g], d);
        approx_sum_add(&b->sums[b->blocks + g], approx_product(d, xhat_of(e, b, x[at], g)));
    }
}

static approx_sum all_of(const approx_sum *sums, size_t blocks)
{
    approx_sum all = {0};
    for (size_t g = 0; g < blocks; g++) {
        all.value += sums[g].value;
        all.error += sums[g].error;
        all.variance += sums[g].variance;
        all.squares += sums[g].squares;
        all.magnitude += sums[g].magnitude;
        all.count += sums[g].count;
    }
    return all;
}

/* The means that dx subtracts: of the block, or of everything. */
static void gradient_means(const evaluation *e, const batch *b, size_t g, approx *ret_shift,
                           approx *ret_scale)
{
    const approx_sum *sums[2] = {b->sums, b->sums + b->blocks};
    approx *means[2] = {ret_shift, ret_scale};
    const bool own =
        e->variant.statistics == LS_STATISTICS_LOCAL && !e->variant.statistics_back_whole;
    for (int k = 0; k < 2 && e->variant.statistics_back_means; k++) {
        approx_sum sum = {0};
        for (size_t at = 0; at < b->blocks; at++)
            approx_sum_add(&sum, over(e->p, &sums[k][at], b->of[at].count));
        *means[k] = over(e->p, &sum, (double)b->blocks);
    }
    if (e->variant.statistics_back_means) return;
    for (int k = 0; k < 2; k++) {
        const approx_sum sum = own ? sums[k][g] : all_of(sums[k], b->blocks);
        *means[k] = over(e->p, &sum, own ? b->of[g].count : total(b));
    }
}

/* The blocks' statistics are those of everything: only the gradient's means are the blocks' own. */
static ls_status share_statistics(const evaluation *e, const ls_graph_node *reader, batch *b,
                                  const double *x, size_t channel)
{
    ls_status status = LS_OK;
    evaluation plain = *e;
    batch all = {0};
    plain.variant.statistics_back_means = false;
    LS_TRY(batch_create(&plain, reader, &all));
    find_statistics(&plain, &all, x, channel);
    for (size_t g = 0; g < b->blocks; g++)
        b->of[g].mean = all.of[0].mean, b->of[g].rstd = all.of[0].rstd;
exit:
    batch_free(&all);
    return status;
}

ls_status ls_evaluate_batch_norm_backward(const evaluation *e, const ls_graph_node *reader,
                                          int slot, approx_sum *out)
{
    ls_status status = LS_OK;
    const ls_precision *p = e->p;
    const double *x = operand_of(e, reader, 0), *dy = gradient_of(e, reader);
    const double *scale = param_of(e, reader->params[0]);
    approx *means = NULL;
    batch b = {0};
    (void)slot;
    LS_TRY(batch_create(e, reader, &b));
    LS_ROOM(means, 2 * b.blocks);
    for (size_t channel = 0; channel < b.l.in.channels; channel++) {
        find_statistics(e, &b, x, channel);
        if (e->variant.statistics_back_means) LS_TRY(share_statistics(e, reader, &b, x, channel));
        find_gradient_sums(e, &b, x, dy, channel);
        for (size_t g = 0; g < b.blocks; g++)
            gradient_means(e, &b, g, &means[2 * g], &means[2 * g + 1]);
        for (size_t i = 0; i < elements_of_channel(&b); i++) {
            const size_t at = place_of(&b, channel, i), g = block_of(&b, i);
            const approx along = approx_multiply(p, xhat_of(e, &b, x[at], g), means[2 * g + 1]);
            approx d = approx_subtract(p, approx_input(p, dy[at]), means[2 * g]);
            d = approx_subtract(p, d, along);
            const approx factor = approx_multiply(p, approx_exact(scale[channel]), b.of[g].rstd);
            approx_sum_add(&out[at], approx_multiply(p, factor, d));
        }
    }
exit:
    free(means);
    batch_free(&b);
    return status;
}

ls_status ls_evaluate_batch_norm_params(const evaluation *e, const ls_graph_node *reader, int slot,
                                        approx_sum *out)
{
    ls_status status = LS_OK;
    const double *x = operand_of(e, reader, 0), *dy = gradient_of(e, reader);
    batch b = {0};
    LS_TRY(batch_create(e, reader, &b));
    for (size_t channel = 0; channel < b.l.in.channels; channel++) {
        if (slot == 0) find_statistics(e, &b, x, channel);
        for (size_t i = 0; i < elements_of_channel(&b); i++) {
            const size_t at = place_of(&b, channel, i);
            const approx d = approx_input(e->p, dy[at]);
            approx_sum_add(&out[channel],
                           slot == 0 ? approx_product(d, xhat_of(e, &b, x[at], block_of(&b, i)))
                                     : d);
        }
    }
exit:
    batch_free(&b);
    return status;
}

/* ---- running statistics ---- */

ls_status ls_evaluate_running(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    ls_status status = LS_OK;
    const ls_precision *p = e->p;
    const bool variance = e->graph->table->params[node->params[0]].role == LS_BATCH_NORM_VARIANCE;
    const double *before = param_of(e, node->params[0]), *x = operand_of(e, node, 0);
    const double momentum = e->config->net.layers[node->layer].momentum;
    const double m = e->variant.momentum_turned ? 1 - momentum : momentum;
    const size_t times = e->variant.running_times ? e->variant.running_times : 1;
    evaluation plain = *e; /* what divides in the norm itself is another matter */
    batch b = {0};
    plain.variant.unbiased = false;
    LS_TRY(batch_create(e, node, &b));
    for (size_t channel = 0; channel < b.l.in.channels; channel++) {
        find_statistics(&plain, &b, x, channel);
        const statistics *of = &b.of[shown_block(e, &b)];
        const double count = e->variant.statistics == LS_STATISTICS_LOCAL ? of->count : total(&b);
        approx now = variance ? of->variance : of->mean, running = approx_exact(before[channel]);
        if (variance && !e->variant.biased_running && count > 1)
            now = approx_multiply(p, now, approx_constant(p, count / (count - 1)));
        for (size_t t = 0; t < times; t++)
            running = approx_add(p, approx_multiply(p, approx_constant(p, 1 - m), running),
                                 approx_multiply(p, approx_constant(p, m), now));
        approx_sum_add(&out[channel], running);
    }
exit:
    batch_free(&b);
    return status;
}
