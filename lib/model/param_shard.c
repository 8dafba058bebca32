/* param_shard.c - shards of a parameter: their shape, and copies in and out of the whole tensor. */
#include "model/param_shard.h"

#include <string.h>

/* Of the run first .. first + count of an axis, how much lies below `end`. */
static size_t real_part(size_t first, size_t count, size_t end)
{
    if (first >= end) return 0;
    return end - first < count ? end - first : count;
}

ls_shard_window ls_param_window(const ls_param *param, ls_shard shard)
{
    size_t first[2] = {0, 0}, count[2] = {param->dims[0], param->dims[1]};
    if (param->cut >= 0) {
        first[param->cut] = shard.first * param->axis.granule;
        count[param->cut] = shard.count * param->axis.granule;
    }
    return (ls_shard_window){.first_row = first[0],
                             .first_col = first[1],
                             .rows = count[0],
                             .cols = count[1],
                             .real_rows = real_part(first[0], count[0], param->dims[0]),
                             .real_cols = real_part(first[1], count[1], param->dims[1])};
}

void ls_param_shard_shape(const ls_param *param, ls_shard shard, size_t *ret_rows, size_t *ret_cols)
{
    ls_shard_window window = ls_param_window(param, shard);
    /* A vector lies along a row: what is added to every row of a matrix looks like one. */
    *ret_rows = param->n_dims == 1 ? 1 : window.rows;
    *ret_cols = param->n_dims == 1 ? window.rows : window.cols;
}

void ls_param_shard_in(const ls_param *param, ls_shard shard, size_t element_bytes,
                       void *shard_data, const void *whole)
{
    ls_shard_window w = ls_param_window(param, shard);
    size_t shard_pitch = w.cols * element_bytes, whole_pitch = param->dims[1] * element_bytes;
    size_t real = w.real_cols * element_bytes;
    char *to = shard_data;
    const char *from = whole;
    for (size_t r = 0; r < w.rows; r++) {
        size_t copied = r < w.real_rows ? real : 0;
        if (copied > 0) {
            memcpy(to + r * shard_pitch,
                   from + (w.first_row + r) * whole_pitch + w.first_col * element_bytes, copied);
        }
        if (copied < shard_pitch) /* all bits zero is +0 */
            memset(to + r * shard_pitch + copied, 0, shard_pitch - copied);
    }
}

void ls_param_shard_out(const ls_param *param, ls_shard shard, size_t element_bytes, void *whole,
                        const void *shard_data)
{
    ls_shard_window w = ls_param_window(param, shard);
    size_t shard_pitch = w.cols * element_bytes, whole_pitch = param->dims[1] * element_bytes;
    size_t real = w.real_cols * element_bytes;
    char *to = whole;
    const char *from = shard_data;
    if (real == 0) return;
    for (size_t r = 0; r < w.real_rows; r++) {
        memcpy(to + (w.first_row + r) * whole_pitch + w.first_col * element_bytes,
               from + r * shard_pitch, real);
    }
}
