/* embedding.c - rows of a table by index, forward and backward. */
#include "lockstep/kernels/embedding.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "lockstep/numerics/tree.h"
#include "base/allocate.h"

enum { COLUMNS = 256 };

/* The row of the shard that an index names, or `rows` when it is not held. */
static size_t row_of(int32_t id, size_t first_row, size_t rows)
{
    if (id < 0 || (size_t)id < first_row || (size_t)id - first_row >= rows) return rows;
    return (size_t)id - first_row;
}

static void fill(ls_real *y, ls_real value, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = value;
}

void ls_embedding_forward(ls_real *y, const ls_real *table, const int32_t *ids, size_t n, size_t D,
                          size_t first_row, size_t rows)
{
    for (size_t t = 0; t < n; t++, y += D) {
        const size_t row = row_of(ids[t], first_row, rows);
        if (row < rows)
            memcpy(y, table + row * D, D * sizeof *y);
        else
            fill(y, (ls_real)-0.0, D); /* the sum over the shards adds nothing here */
    }
}

void ls_normalize_zero(ls_real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = x[i] + (ls_real)0;
}

/* ---- backward
 *
 * Differentiates y[t] = table[ids[t]]: the gradient of a row is the sum of dy over the tokens that
 * name it. The tree is over all tokens of the batch; a token that names another row contributes
 * -0, and x + (-0) = x for every x. So for each row only its own tokens are visited: a node with
 * tokens on one side is that side's value, a node with tokens on both sides is one addition. */

/* A row's tokens in ascending order, and the columns being summed. */
typedef struct row_tokens {
    const ls_real *dy; /* at the first column */
    size_t D, width;
    const size_t *token;
} row_tokens;

/* The first of the row's tokens from .. to that does not lie below `place`. */
static size_t first_not_below(const row_tokens *r, size_t from, size_t to, size_t place)
{
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (r->token[middle] < place)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void add_to(ls_real *restrict y, const ls_real *restrict x, size_t width)
{
    for (size_t c = 0; c < width; c++) y[c] += x[c];
}

/* y = the node of T over `leaves` leaves of `leaf` tokens each that starts at token lo, restricted
 * to the row's tokens from .. to, at least one, all of which lie inside. A leaf of more than one
 * token is itself T over its tokens. */
static void sum_node(ls_real *y, const row_tokens *r, size_t from, size_t to, size_t lo,
                     size_t leaves, size_t leaf)
{
    if (to - from == 1) {
        memcpy(y, r->dy + r->token[from] * r->D, r->width * sizeof *y);
        return;
    }
    if (leaves == 1) {
        sum_node(y, r, from, to, lo, leaf, 1);
        return;
    }
    const size_t left = ls_tree_split(leaves), middle = lo + left * leaf;
    const size_t cut = first_not_below(r, from, to, middle);
    if (cut == to) {
        sum_node(y, r, from, to, lo, left, leaf);
    } else if (cut == from) {
        sum_node(y, r, from, to, middle, leaves - left, leaf);
    } else {
        ls_real right[COLUMNS];
        sum_node(y, r, from, cut, lo, left, leaf);
        sum_node(right, r, cut, to, middle, leaves - left, leaf);
        add_to(y, right, r->width);
    }
}

ls_status ls_embedding_backward(ls_real *dtable, const ls_real *dy, const int32_t *ids,
                                ls_axis tokens, size_t D, size_t first_row, size_t rows)
{
    ls_status status = LS_OK;
    const size_t n = ls_axis_extent(tokens);
    size_t *start = NULL; /* row v has the tokens order[start[v]] .. order[start[v + 1] - 1] */
    size_t *order = NULL;

    if (rows == 0) goto exit;
    if (n > LS_SIZE_MOST / sizeof *order - 1 || rows > LS_SIZE_MOST / sizeof *start - 2)
        LS_FAIL(LS_ERR_INPUT,
                "an index of %zu tokens by %zu embedding rows is more than can be addressed", n,
                rows);
    LS_NEW(start, rows + 2);
    LS_ROOM(order, n + 1);

    /* Counting sort; the tokens of a row stay in order. While it runs, start[v + 1] is the place of
     * the next token of row v. */
    for (size_t t = 0; t < n; t++) {
        const size_t row = row_of(ids[t], first_row, rows);
        if (row < rows) start[row + 2]++;
    }
    for (size_t v = 2; v < rows + 2; v++) start[v] += start[v - 1];
    for (size_t t = 0; t < n; t++) {
        const size_t row = row_of(ids[t], first_row, rows);
        if (row < rows) order[start[row + 1]++] = t;
    }

    for (size_t v = 0; v < rows; v++, dtable += D) {
        const size_t count = start[v + 1] - start[v];
        if (count == 0) {
            fill(dtable, (ls_real)-0.0, D);
            continue;
        }
        for (size_t c = 0; c < D; c += COLUMNS) {
            const size_t width = D - c < COLUMNS ? D - c : COLUMNS;
            const row_tokens r = {dy + c, D, width, order + start[v]};
            sum_node(dtable + c, &r, 0, count, 0, tokens.granules, tokens.granule);
        }
    }

exit:
    free(start);
    free(order);
    return status;
}
