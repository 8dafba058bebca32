/* im2col.c - the pixels that each place of a kernel meets, as rows of a matrix. */
#include "kernels/im2col.h"

#include <stdint.h>

#include "kernels/pixel_run.h"

/* The targets low .. end that meet a source at one place; the source that `low` meets. */
typedef struct run {
    size_t low, end, source;
} run;

static run met(const ls_im2col_axis *a, size_t place)
{
    const ptrdiff_t first = a->first + (ptrdiff_t)place * a->place_step;
    const ptrdiff_t step = (ptrdiff_t)a->step, sources = (ptrdiff_t)a->sources;
    const run none = {0, 0, 0};
    const ptrdiff_t low = first < 0 ? (-first + step - 1) / step : 0;
    if (first >= sources) return none;
    ptrdiff_t end = (sources - 1 - first) / step + 1;
    if (end > (ptrdiff_t)a->targets) end = (ptrdiff_t)a->targets;
    if (low >= end) return none;
    return (run){(size_t)low, (size_t)end, (size_t)(first + low * step)};
}

static void every_second(ls_real *restrict to, const ls_real *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i] = from[2 * i];
}

/* A row that is read some rows later: a processor does not guess which rows are stepped over. */
static void ask_for(const ls_real *source, size_t ahead, size_t n)
{
    const uintptr_t first = (uintptr_t)(const void *)source + ahead * sizeof *source;
    for (size_t at = 0; at < n * sizeof *source; at += 64)
        __builtin_prefetch((const void *)(first + at));
}

/* One channel at one place of the kernel. */
static void fill_channel(ls_real *restrict to, const ls_im2col_map *m,
                         const ls_real *restrict source, size_t line, run rows, run columns)
{
    const size_t width = m->columns.targets, step = m->columns.step;
    ls_zero_pixel_run(to, rows.low * width);
    for (size_t r = rows.low; r < rows.end; r++, source += m->rows.step * line) {
        ls_real *row = to + r * width;
        if (m->rows.step > 1)
            ask_for(source, 16 * m->rows.step * line, (columns.end - columns.low) * step);
        ls_zero_pixel_run(row, columns.low);
        if (step == 1)
            ls_copy_pixel_run(row + columns.low, source, columns.end - columns.low);
        else if (step == 2) /* a constant, so that the compiler takes every second of a vector */
            every_second(row + columns.low, source, columns.end - columns.low);
        else
            for (size_t c = columns.low; c < columns.end; c++)
                row[c] = source[(c - columns.low) * step];
        ls_zero_pixel_run(row + columns.end, width - columns.end);
    }
    ls_zero_pixel_run(to + rows.end * width, (m->rows.targets - rows.end) * width);
}

void ls_im2col(ls_real *to, size_t ld, const ls_im2col_map *m, const ls_real *source,
               ls_rectangle held, size_t channels)
{
    const size_t places = m->rows.places * m->columns.places;
    for (size_t i = 0; i < m->rows.places; i++)
        for (size_t j = 0; j < m->columns.places; j++) {
            run rows = met(&m->rows, i), columns = met(&m->columns, j);
            size_t corner = 0;
            if (columns.low == columns.end)
                rows = (run){0, 0, 0};
            else if (rows.low < rows.end)
                corner = (rows.source - held.top) * held.width + (columns.source - held.left);
            for (size_t ch = 0; ch < channels; ch++)
                fill_channel(to + (ch * places + i * m->columns.places + j) * ld, m,
                             source + ch * held.height * held.width + corner, held.width, rows,
                             columns);
        }
}
