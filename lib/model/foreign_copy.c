/* foreign_copy.c - elements between a parameter and the tensor that holds it elsewhere. */
#include <string.h>

#include "lockstep/model/foreign.h"
#include "model/param_shard.h"

/* Transposing goes through one of the two arrays in long strides: small squares let the lines that
 * were fetched be used before they are gone. */
enum { TILE = 16 };

/* Where output o of the parameter is among the tensor's. */
static inline size_t place_of(const ls_foreign_part *part, size_t o)
{
    size_t block = o / part->width, i = o % part->width, half = part->width / 2;
    if (part->paired) i = i < half ? 2 * i : 2 * (i - half) + 1;
    return part->base + block * part->stride + i;
}

/* What is copied: the real part of a window. Element (r, c) of it is number r * pitch + c of
 * `ours`. */
typedef struct move {
    const ls_param *param;
    const ls_foreign_tensor *tensor;
    const ls_foreign_part *part;
    ls_shard_window window;
    size_t pitch;
    bool out; /* from ours to the foreign tensor */
} move;

/* The element's number in the foreign tensor; (r, c) of the logical parameter. */
static inline size_t foreign_number(const move *m, size_t r, size_t c)
{
    if (m->param->n_dims == 1) return place_of(m->part, r);
    if (m->tensor->transposed) return place_of(m->part, c) * m->tensor->dims[1] + r;
    return r * m->tensor->dims[1] + place_of(m->part, c);
}

/* `bytes` is a constant wherever this is inlined, so that memcpy is one move. */
static inline void copy_elements(const move *m, size_t bytes, char *to, const char *from)
{
    const ls_shard_window *w = &m->window;
    for (size_t r0 = 0; r0 < w->real_rows; r0 += TILE) {
        size_t r_end = r0 + TILE < w->real_rows ? r0 + TILE : w->real_rows;
        for (size_t c0 = 0; c0 < w->real_cols; c0 += TILE) {
            size_t c_end = c0 + TILE < w->real_cols ? c0 + TILE : w->real_cols;
            for (size_t r = r0; r < r_end; r++)
                for (size_t c = c0; c < c_end; c++) {
                    size_t ours = r * m->pitch + c;
                    size_t theirs = foreign_number(m, w->first_row + r, w->first_col + c);
                    memcpy(to + (m->out ? theirs : ours) * bytes,
                           from + (m->out ? ours : theirs) * bytes, bytes);
                }
        }
    }
}

/* Rows as they are, one after another. */
static bool is_plain(const move *m)
{
    return m->tensor->n_parts == 1 && !m->tensor->transposed && !m->part->paired;
}

static void copy(const move *m, size_t bytes, void *to, const void *from)
{
    const ls_shard_window *w = &m->window;
    if (is_plain(m)) {
        /* A vector is a window one column wide, and one run of memory. */
        bool vector = m->param->n_dims == 1;
        size_t rows = vector ? 1 : w->real_rows, run = vector ? w->real_rows : w->real_cols;
        for (size_t r = 0; run > 0 && r < rows; r++) {
            size_t ours = r * m->pitch;
            size_t theirs = foreign_number(m, w->first_row + r, w->first_col);
            memcpy((char *)to + (m->out ? theirs : ours) * bytes,
                   (const char *)from + (m->out ? ours : theirs) * bytes, run * bytes);
        }
        return;
    }
    switch (bytes) {
    case 1:
        copy_elements(m, 1, to, from);
        break;
    case 2:
        copy_elements(m, 2, to, from);
        break;
    case 4:
        copy_elements(m, 4, to, from);
        break;
    default:
        copy_elements(m, 8, to, from);
        break;
    }
}

static move move_of(const ls_foreign_map *map, size_t param, ls_shard_window window, bool out)
{
    const ls_foreign_tensor *tensor = &map->tensors[map->places[param].tensor];
    return (move){.param = &map->table->params[param],
                  .tensor = tensor,
                  .part = &tensor->parts[map->places[param].part],
                  .window = window,
                  .pitch = window.cols,
                  .out = out};
}

/* The whole logical tensor as a window, without padding. */
static ls_shard_window whole_window(const ls_param *param)
{
    return (ls_shard_window){.rows = param->dims[0],
                             .cols = param->dims[1],
                             .real_rows = param->dims[0],
                             .real_cols = param->dims[1]};
}

void ls_foreign_shard_in(const ls_foreign_map *map, size_t param, ls_shard shard,
                         size_t element_bytes, void *shard_data, const void *foreign)
{
    ls_shard_window w = ls_param_window(&map->table->params[param], shard);
    move m = move_of(map, param, w, false);
    /* all bits zero is +0 */
    if (w.real_rows < w.rows || w.real_cols < w.cols)
        memset(shard_data, 0, w.rows * w.cols * element_bytes);
    copy(&m, element_bytes, shard_data, foreign);
}

void ls_foreign_whole_in(const ls_foreign_map *map, size_t param, size_t element_bytes, void *whole,
                         const void *foreign)
{
    move m = move_of(map, param, whole_window(&map->table->params[param]), false);
    copy(&m, element_bytes, whole, foreign);
}

void ls_foreign_whole_out(const ls_foreign_map *map, size_t param, size_t element_bytes,
                          void *foreign, const void *whole)
{
    move m = move_of(map, param, whole_window(&map->table->params[param]), true);
    copy(&m, element_bytes, foreign, whole);
}
