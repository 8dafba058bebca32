/* cause_pairing.c - a product whose inner dimension is cut: y = sum of x_a W_a over the shards. Of
 * every pair of shards (a, m) the factor of x_a W_m in the candidate is fitted: 1 for a = m where
 * it is right, 1 elsewhere where shards of the weight are held in another order, whatever that is.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/append.h"
#include "causes/families.h"

enum { SHARDS = 8 };

typedef struct pairing {
    const double *x, *w, *b;
    size_t in, out, rows; /* rows: as many as tell the factors */
    size_t count, share;  /* shards, rows of the weight in each */
    size_t from[SHARDS];  /* found: which shard of the weight meets shard a of x */
} pairing;

/* x_a W_m of one element. */
static double product(const pairing *p, size_t row, size_t column, size_t a, size_t m)
{
    double sum = 0;
    for (size_t k = 0; k < p->share; k++) {
        const size_t i = a * p->share + k, j = m * p->share + k;
        if (i < p->in && j < p->in) sum += p->x[row * p->in + i] * p->w[j * p->out + column];
    }
    return sum;
}

/* Solves n equations in place, with pivots; false: they do not tell. */
static bool solve(double *matrix, double *right, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        size_t pivot = k;
        for (size_t i = k + 1; i < n; i++)
            if (fabs(matrix[i * n + k]) > fabs(matrix[pivot * n + k])) pivot = i;
        if (!(fabs(matrix[pivot * n + k]) > 1e-12 * (1 + fabs(matrix[0])))) return false;
        for (size_t j = 0; j < n; j++) {
            const double kept = matrix[k * n + j];
            matrix[k * n + j] = matrix[pivot * n + j], matrix[pivot * n + j] = kept;
        }
        const double kept = right[k];
        right[k] = right[pivot], right[pivot] = kept;
        for (size_t i = 0; i < n; i++) {
            const double by = matrix[i * n + k] / matrix[k * n + k];
            if (i == k || by == 0) continue;
            for (size_t j = k; j < n; j++) matrix[i * n + j] -= by * matrix[k * n + j];
            right[i] -= by * right[k];
        }
    }
    for (size_t k = 0; k < n; k++) right[k] /= matrix[k * n + k];
    return true;
}

/* Which shard of the weight each shard of x meets; false: no such thing. */
static bool find(const ls_search *search, pairing *p, double *room)
{
    const size_t T = p->count, n = T * T;
    double *matrix = room, *right = room + n * n, *terms = right + n;
    bool moved = false;
    memset(room, 0, (n * n + n) * sizeof *room);
    for (size_t e = 0; e < p->rows * p->out; e++) {
        const size_t row = e / p->out, column = e % p->out;
        const double y = search->candidate[e] - (p->b ? p->b[column] : 0);
        for (size_t k = 0; k < n; k++) terms[k] = product(p, row, column, k / T, k % T);
        for (size_t k = 0; k < n; k++) {
            for (size_t l = 0; l < n; l++) matrix[k * n + l] += terms[k] * terms[l];
            right[k] += terms[k] * y;
        }
    }
    if (!solve(matrix, right, n)) return false;
    for (size_t a = 0; a < T; a++) {
        size_t met = T;
        for (size_t m = 0; m < T; m++) {
            const double factor = right[a * T + m];
            if (fabs(factor - 1) < 0.1 && met == T)
                met = m;
            else if (!(fabs(factor) < 0.1))
                return false;
        }
        if (met == T) return false;
        p->from[a] = met;
        moved |= met != a;
    }
    return moved;
}

static ls_status try_found(ls_search *search, const pairing *p, int param)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    char text[LS_EVIDENCE];
    double *w;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(ls_change_param(&change, param, &w));
    for (size_t i = 0; i < p->in; i++) {
        const size_t source = p->from[i / p->share] * p->share + i % p->share;
        for (size_t j = 0; j < p->out; j++)
            w[i * p->out + j] = source < p->in ? p->w[source * p->out + j] : 0;
    }
    size_t length = ls_append(text, sizeof text, 0, "%zu shards of what %s reads meet its shards",
                              p->count, search->graph->table->params[param].name);
    for (size_t a = 0; a < p->count && length < sizeof text - 8; a++)
        length = ls_append(text, sizeof text, length, " %zu", p->from[a]);
    LS_TRY(ls_search_evaluate(search, LS_CAUSE_SHARD_ORDER, &change.operands, text));
exit:
    ls_change_end(&change);
    return status;
}

ls_status ls_cause_pairing(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_graph_node *node = search->node;
    const int param = node->params[0];
    double *room = NULL;
    if (node->make != LS_MAKE_LINEAR || search->best.cause != LS_CAUSE_NONE || search->held)
        goto exit;
    const ls_param *w = &search->graph->table->params[param];
    const double *x = search->of->operands.values[node->inputs[0]];
    if (w->cut != 0 || w->n_dims != 2 || !x || !search->of->operands.params[param]) goto exit;
    enum { ALL = SHARDS * SHARDS };
    LS_ROOM(room, ALL * ALL + 2 * ALL);
    for (size_t T = 2; T <= SHARDS && !search->fits[LS_CAUSE_SHARD_ORDER]; T++) {
        pairing p = {.x = x,
                     .w = search->of->operands.params[param],
                     .b = node->params[1] < 0 ? NULL : search->of->operands.params[node->params[1]],
                     .in = w->dims[0],
                     .out = w->dims[1],
                     .count = T,
                     .share = ls_axis_extent(w->axis) / T};
        const size_t rows = search->n / p.out, enough = 1 + 8 * T * T / p.out;
        p.rows = enough < 2 * T ? 2 * T : enough; /* x_a of so many rows are independent */
        if (p.rows > rows) p.rows = rows;
        const double work = (double)(p.rows * p.out) * (double)(T * p.in + T * T * T * T);
        if (w->axis.granules % T || work > search->work / 4) continue;
        search->work -= work;
        if (find(search, &p, room)) LS_TRY(try_found(search, &p, param));
    }
exit:
    free(room);
    return status;
}
