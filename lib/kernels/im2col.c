/* im2col.c - the pixels that each place of a kernel meets, as rows of a matrix. */
#include "kernels/im2col.h"

/* The targets low .. end that meet a source at one place; the source that `low` meets. */
typedef struct run {
    size_t low, end, source;
} run;

static run met(const ls_meeting_axis *a, size_t place)
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

static void zero(ls_real *to, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i] = (ls_real)0;
}

/* One channel at one place of the kernel. */
static void fill_channel(ls_real *restrict to, const ls_meetings *m, const ls_real *restrict source,
                         size_t line, run rows, run columns)
{
    const size_t width = m->columns.targets, step = m->columns.step;
    zero(to, rows.low * width);
    for (size_t r = rows.low; r < rows.end; r++, source += m->rows.step * line) {
        ls_real *row = to + r * width;
        zero(row, columns.low);
        if (step == 1)
            for (size_t c = columns.low; c < columns.end; c++) row[c] = source[c - columns.low];
        else
            for (size_t c = columns.low; c < columns.end; c++)
                row[c] = source[(c - columns.low) * step];
        zero(row + columns.end, width - columns.end);
    }
    zero(to + rows.end * width, (m->rows.targets - rows.end) * width);
}

void ls_im2col(ls_real *to, size_t ld, const ls_meetings *m, const ls_real *source,
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
