/* cross_entropy.c - softmax cross-entropy over a vocabulary made of granules, in pieces.
 *
 * Every piece walks token by token over the columns held, granule by granule, and looks at logical
 * columns only. No piece knows how the granules are shared out. */
#include "lockstep/kernels/cross_entropy.h"

#include <math.h>

#include "kernels/row_lanes.h"
#include "lockstep/numerics/functions.h"
#include "lockstep/numerics/row_sum.h"

/* Logical columns among `width` columns of which the first is column `first` of the vocabulary. */
static size_t logical_columns(size_t first, size_t width, size_t V)
{
    if (first >= V) return 0;
    return V - first < width ? V - first : width;
}

static size_t first_column(ls_vocab_shard shard)
{
    return shard.first_granule * shard.held.granule;
}

/* Logical columns held. */
static size_t columns_held(ls_vocab_shard shard)
{
    return logical_columns(first_column(shard), ls_axis_extent(shard.held), shard.V);
}

/* The column of the shard where a target is, or `columns` when it is ignored or not held. */
static size_t target_column(int32_t target, size_t first, size_t columns)
{
    if (target < 0 || (size_t)target < first || (size_t)target - first >= columns) return columns;
    return (size_t)target - first;
}

void ls_cross_entropy_max(ls_real *ret_max, const ls_real *z, size_t n, size_t ld,
                          ls_vocab_shard shard)
{
    const size_t columns = columns_held(shard);
    for (size_t t = 0; t < n; t++)
        ret_max[t] = columns ? ls_row_max(z + t * ld, columns, NULL) : (ls_real)-INFINITY;
}

/* Sum of exp(z - max) over the columns of one granule by rule 10; -0 when there is none. */
static ls_real sum_of_exp(const ls_real *z, ls_real max, size_t columns)
{
    row_lanes sum = row_lanes_none();
    for (size_t b = 0; b < columns; b += BLOCK) {
        ls_real e[BLOCK];
        const size_t width = block_length(b, columns);
        for (size_t i = 0; i < width; i++) e[i] = z[b + i] - max;
        ls_exp_n(e, e, width);
        row_lanes_add(&sum, e, width);
    }
    return row_lanes_end(sum);
}

void ls_cross_entropy_sums(ls_real *ret_sum_exp, ls_real *ret_sum_z, ls_real *ret_target,
                           const ls_real *z, const ls_real *max, const int32_t *targets, size_t n,
                           size_t ld, ls_vocab_shard shard)
{
    const size_t granule = shard.held.granule, first = first_column(shard);
    const size_t columns = columns_held(shard);

    for (size_t g = 0; g < shard.held.granules; g++) {
        const size_t width = logical_columns(first + g * granule, granule, shard.V);
        for (size_t t = 0; t < n; t++) {
            const ls_real *row = z + t * ld + g * granule;
            ret_sum_exp[g * n + t] = sum_of_exp(row, max[t], width);
            if (ret_sum_z) ret_sum_z[g * n + t] = width ? ls_row_sum(row, width) : (ls_real)-0.0;
        }
    }
    for (size_t t = 0; t < n; t++) {
        const size_t c = target_column(targets[t], first, columns);
        ret_target[t] = c < columns ? z[t * ld + c] : (ls_real)-0.0;
    }
}

void ls_cross_entropy_loss(ls_real *ret_loss, const ls_real *max, const ls_real *sum_exp,
                           const ls_real *sum_z, const ls_real *target, const int32_t *targets,
                           size_t n, size_t V, double smoothing)
{
    const ls_real at_target = (ls_real)(1.0 - smoothing), at_all = (ls_real)smoothing;
    for (size_t t = 0; t < n; t++) {
        if (targets[t] == LS_IGNORE) {
            ret_loss[t] = (ls_real)-0.0;
            continue;
        }
        const ls_real lse = ls_log(sum_exp[t]);
        const ls_real of_target = lse - (target[t] - max[t]);
        if (smoothing == 0.0) {
            ret_loss[t] = of_target;
        } else {
            const ls_real of_all = lse - (sum_z[t] / (ls_real)V - max[t]);
            ret_loss[t] = at_target * of_target + at_all * of_all;
        }
    }
}

/* Differentiates loss = lse - (z_target - max), lse = log(sum of exp(z - max)), and its smoothed
 * form: dloss/dz_j = softmax_j - q_j, where q is a / V everywhere and 1 - a more at the target.
 * What goes through max cancels. */
void ls_cross_entropy_backward(ls_real *dz, const ls_real *z, const ls_real *max,
                               const ls_real *sum_exp, const int32_t *targets, size_t n, size_t ld,
                               ls_vocab_shard shard, double smoothing, ls_real factor)
{
    const size_t first = first_column(shard), columns = columns_held(shard);
    const size_t extent = ls_axis_extent(shard.held);
    const double share = smoothing / (double)shard.V;
    const ls_real q = (ls_real)share, q_target = (ls_real)(share + (1.0 - smoothing));

    for (size_t t = 0; t < n; t++, z += ld, dz += ld) {
        if (targets[t] == LS_IGNORE) {
            for (size_t c = 0; c < extent; c++) dz[c] = (ls_real)0;
            continue;
        }
        const ls_real inverse = (ls_real)1 / sum_exp[t];
        for (size_t c = 0; c < columns; c++) dz[c] = z[c] - max[t];
        ls_exp_n(dz, dz, columns);

        const size_t target = target_column(targets[t], first, columns);
        const ls_real e_target = target < columns ? dz[target] : (ls_real)0;
        for (size_t c = 0; c < columns; c++) dz[c] = (dz[c] * inverse - q) * factor;
        if (target < columns) dz[target] = (e_target * inverse - q_target) * factor;

        for (size_t c = columns; c < extent; c++) dz[c] = (ls_real)0;
    }
}
