/* search_parts.c - a sum taken apart: what factor each part of it has in the candidate.
 *
 * A linear operation's result is the sum of what parts of an operand give: the columns of an input
 * that one granule holds, a sequence's tokens, the bias. A candidate made of the same parts with
 * other factors (2, 1/3, 0) shows them by least squares; the factors are then rounded to what they
 * can be and the sum is computed again with them and compared element by element: the fit only
 * proposes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "causes/search.h"

void ls_parts_add(ls_parts *parts, const ls_search *search, bool is_param, int index, size_t inner,
                  size_t extent, size_t from, size_t to, int group)
{
    if (parts->count == LS_PARTS) return;
    if (extent == 0) { /* the whole array */
        inner = is_param ? ls_param_elements(&search->graph->table->params[index])
                         : ls_graph_elements(search->graph, index);
        extent = 1, from = 0, to = 1;
    }
    const ls_part part = {is_param, index, inner, extent, from, to, group, 1, true};
    parts->part[parts->count++] = part;
}

/* Multiplies every element of the parts' operands by its part's factor; only >= 0: by 1 in that
 * part, by 0 in all others. */
static ls_status apply(const ls_parts *parts, ls_change *change, int only)
{
    ls_status status = LS_OK;
    for (size_t p = 0; p < parts->count; p++) {
        const ls_part *part = &parts->part[p];
        const double factor = only < 0 ? part->factor : (int)p == only ? 1 : 0;
        double *values;
        size_t n;
        if (factor == 1) continue;
        if (part->is_param) {
            n = ls_param_elements(&change->operands.graph->table->params[part->index]);
            LS_TRY(ls_change_param(change, part->index, &values));
        } else {
            n = ls_graph_elements(change->operands.graph, part->index);
            LS_TRY(ls_change_value(change, part->index, &values));
        }
        const size_t block = part->inner * part->extent; /* never 0: the array has one or more */
        for (size_t first = 0; first < n; first += block)
            for (size_t e = first + part->from * part->inner;
                 e < first + part->to * part->inner && e < n; e++)
                values[e] *= factor;
    }
exit:
    return status;
}

/* ---- least squares ---- */

typedef struct fit {
    size_t rows, columns;
    size_t *place; /* elements that are looked at */
    double *a;     /* columns x rows */
    double *y;
    double *normal; /* columns x (columns + 1) */
} fit;

enum { FIT_ROWS = 16384 };

/* Half of the elements evenly, half among those that are wrong; those that are no numbers not. */
static ls_status begin(fit *f, const ls_search *s, size_t columns)
{
    ls_status status = LS_OK;
    const size_t most = s->n < FIT_ROWS ? s->n : FIT_ROWS;
    size_t wrong = 0;
    f->columns = columns;
    LS_ROOM(f->place, most);
    LS_ROOM(f->y, most);
    LS_ROOM(f->a, most * columns);
    LS_NEW(f->normal, columns * (columns + 1));
    for (size_t i = 0; i < s->n; i++) wrong += ls_search_is_wrong(s, i);
    const size_t step = s->n <= most ? 1 : 2 * s->n / most + 1;
    const size_t wrong_step = 2 * wrong / most + 1;
    for (size_t i = 0, w = 0; i < s->n && f->rows < most; i++) {
        const bool other = ls_search_is_wrong(s, i) && w++ % wrong_step == 0;
        if ((i % step && !other) || !isfinite(s->candidate[i])) continue;
        if (s->held && !s->held[i]) continue;
        f->place[f->rows] = i;
        f->y[f->rows++] = s->candidate[i];
    }
exit:
    return status;
}

static void end(fit *f)
{
    free(f->place), free(f->y), free(f->a), free(f->normal);
}

/* Gauss with pivots on the diagonal: the matrix is symmetric and not negative. A column that is 0,
 * or a combination of others, has no factor of its own. */
static void solve(fit *f, ls_parts *parts)
{
    const size_t n = f->columns, width = n + 1;
    double *m = f->normal;
    bool used[LS_PARTS] = {false};
    double whole[LS_PARTS];
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= n; j++) {
            const double *left = f->a + i * f->rows, *right = j < n ? f->a + j * f->rows : f->y;
            double sum = 0;
            for (size_t r = 0; r < f->rows; r++) sum += left[r] * right[r];
            m[i * width + j] = sum;
        }
        whole[i] = m[i * width + i];
    }
    for (size_t done = 0; done < n; done++) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (!used[i] && whole[i] > 0 && m[i * width + i] > 1e-11 * whole[i] &&
                (best == n || m[i * width + i] / whole[i] > m[best * width + best] / whole[best]))
                best = i;
        if (best == n) break;
        used[best] = true;
        for (size_t i = 0; i < n; i++) {
            if (i == best) continue;
            const double factor = m[i * width + best] / m[best * width + best];
            for (size_t j = 0; j <= n; j++) m[i * width + j] -= factor * m[best * width + j];
        }
    }
    for (size_t i = 0; i < n; i++) {
        parts->part[i].known = used[i];
        parts->part[i].factor = used[i] ? m[i * width + n] / m[i * width + i] : 1;
    }
}

ls_status ls_parts_fit(ls_parts *parts, ls_search *search, bool *ret_done)
{
    ls_status status = LS_OK;
    fit f = {0};
    ls_change change = {0};
    bool done = parts->count > 0;
    *ret_done = false;
    LS_TRY(begin(&f, search, parts->count));
    if (f.rows < parts->count) done = false;
    for (size_t c = 0; done && c < parts->count; c++) {
        LS_TRY(ls_change_begin(&change, &search->of->operands));
        change.variant.sparse = true;
        LS_TRY(apply(parts, &change, (int)c));
        const double work = search->work;
        LS_TRY(ls_search_compute(search, search->of->node, &change.operands, search->trial, NULL,
                                 &done));
        /* what is zero costs nothing */
        search->work = work - (work - search->work) / (double)parts->count;
        ls_change_end(&change);
        for (size_t r = 0; done && r < f.rows; r++) f.a[c * f.rows + r] = search->trial[f.place[r]];
    }
    if (done) solve(&f, parts);
    *ret_done = done;
exit:
    ls_change_end(&change);
    end(&f);
    return status;
}

double ls_parts_common(const ls_parts *parts, size_t first, size_t count, bool *ret_same)
{
    double factor = (double)NAN;
    *ret_same = true;
    for (size_t p = first; p < first + count; p++) {
        if (!parts->part[p].known) continue;
        if (isnan(factor)) factor = parts->part[p].factor;
        if (parts->part[p].factor != factor) *ret_same = false;
    }
    return factor;
}

void ls_parts_set(ls_parts *parts, size_t first, size_t count, double factor)
{
    for (size_t p = first; p < first + count; p++) parts->part[p].factor = factor;
}

void ls_parts_round(ls_parts *parts)
{
    for (size_t p = 0; p < parts->count; p++)
        parts->part[p].factor = ls_round_factor(parts->part[p].factor);
}

ls_status ls_parts_propose(const ls_parts *parts, ls_search *search, ls_cause cause,
                           const char *evidence)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    if (cause == LS_CAUSE_NONE) goto exit;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(apply(parts, &change, -1));
    LS_TRY(ls_search_evaluate(search, cause, &change.operands, evidence));
exit:
    ls_change_end(&change);
    return status;
}

double ls_round_factor(double value)
{
    if (fabs(value) < 0.008) return 0;
    if (value > 0.75 && fabs(value - rint(value)) < 0.1) return rint(value);
    if (value > 0 && value < 0.75 && fabs(1 / value - rint(1 / value)) < 0.15)
        return 1 / rint(1 / value);
    return value;
}

const char *ls_factor_text(double factor, char text[16])
{
    if (factor > 0 && factor < 1)
        snprintf(text, 16, "1/%.4g", 1 / factor);
    else
        snprintf(text, 16, "%.4g", factor);
    return text;
}
