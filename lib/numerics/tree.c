/* tree.c - the one order of addition (contract rules 5, 6, 8): tree and forest.
 *
 * All functions here recurse as the tree does: T(n) into a buffer is T(left) into the same buffer,
 * T(right) into a second one that lives on the stack of this level, then one addition per element.
 * The depth is at most 64. Arrays are taken in blocks of columns, so that a level's buffer is small
 * and stays in the first cache; blocks never meet, so they change nothing in the result. */
#include "lockstep/numerics/tree.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/* Columns handled together: 1 KiB. */
enum { BLOCK = 1024 / sizeof(ls_real) };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

ls_real ls_tree_sum(const ls_real *x, size_t n, size_t stride)
{
    if (n == 0) return (ls_real)0;
    if (n == 1) return x[0];
    if (n == 2) return x[0] + x[stride];
    size_t left = ls_tree_split(n);
    ls_real sum = ls_tree_sum(x, left, stride);
    return sum + ls_tree_sum(x + left * stride, n - left, stride);
}

/* ---- sums down the columns ---- */

/* Rows of terms: a[r][c], or the rounded a[r][c] * b[r][c] when b is set. */
typedef struct rows_of_terms {
    const ls_real *a, *b;
    size_t lda, ldb;
} rows_of_terms;

static rows_of_terms rows_from(rows_of_terms t, size_t row)
{
    t.a += row * t.lda;
    if (t.b) t.b += row * t.ldb;
    return t;
}

static void add_to(ls_real *restrict y, const ls_real *restrict x, size_t width)
{
    for (size_t c = 0; c < width; c++) y[c] += x[c];
}

/* Term r of column c; dot is a constant where this is called. */
static inline ls_real term(rows_of_terms t, bool dot, size_t r, size_t c)
{
    return dot ? t.a[r * t.lda + c] * t.b[r * t.ldb + c] : t.a[r * t.lda + c];
}

/* T(n) for n = 1, 2, 3, 4, 8 in one pass over the rows; n is a constant too. */
static inline __attribute__((always_inline)) void one_pass(ls_real *restrict y, rows_of_terms t,
                                                           size_t n, size_t width, bool dot)
{
#define X(r) term(t, dot, r, c)
    for (size_t c = 0; c < width; c++) {
        if (n == 1) y[c] = X(0);
        if (n == 2) y[c] = X(0) + X(1);
        if (n == 3) y[c] = (X(0) + X(1)) + X(2);
        if (n == 4) y[c] = (X(0) + X(1)) + (X(2) + X(3));
        if (n == 8) y[c] = ((X(0) + X(1)) + (X(2) + X(3))) + ((X(4) + X(5)) + (X(6) + X(7)));
    }
#undef X
}

static inline __attribute__((always_inline)) bool few_rows(ls_real *restrict y, rows_of_terms t,
                                                           size_t n, size_t width, bool dot)
{
    switch (n) {
    case 1:
        one_pass(y, t, 1, width, dot);
        return true;
    case 2:
        one_pass(y, t, 2, width, dot);
        return true;
    case 3:
        one_pass(y, t, 3, width, dot);
        return true;
    case 4:
        one_pass(y, t, 4, width, dot);
        return true;
    case 8:
        one_pass(y, t, 8, width, dot);
        return true;
    default:
        return false;
    }
}

/* y = T over n >= 1 rows. */
static void sum_granule(ls_real *restrict y, rows_of_terms t, size_t n, size_t width)
{
    if (t.b ? few_rows(y, t, n, width, true) : few_rows(y, t, n, width, false)) return;

    ls_real right[BLOCK];
    size_t left = ls_tree_split(n);
    sum_granule(y, t, left, width);
    sum_granule(right, rows_from(t, left), n - left, width);
    add_to(y, right, width);
}

/* y = T over the granules, none of them empty. */
static void sum_granules(ls_real *restrict y, rows_of_terms t, ls_axis rows, size_t width)
{
    if (rows.granules == 1) {
        sum_granule(y, t, rows.granule, width);
    } else {
        ls_real right[BLOCK];
        size_t left = ls_tree_split(rows.granules);
        sum_granules(y, t, ls_axis_of(left, rows.granule), width);
        sum_granules(right, rows_from(t, left * rows.granule),
                     ls_axis_of(rows.granules - left, rows.granule), width);
        add_to(y, right, width);
    }
}

static void sum_rows(ls_real *y, rows_of_terms t, ls_axis rows, size_t cols)
{
    if (ls_axis_extent(rows) == 0) {
        for (size_t c = 0; c < cols; c++) y[c] = (ls_real)0;
        return;
    }
    for (size_t c = 0; c < cols; c += BLOCK) {
        rows_of_terms block = t;
        block.a += c;
        if (block.b) block.b += c;
        sum_granules(y + c, block, rows, smaller(BLOCK, cols - c));
    }
}

void ls_tree_sum_rows(ls_real *y, const ls_real *x, ls_axis rows, size_t cols, size_t ld)
{
    sum_rows(y, (rows_of_terms){x, NULL, ld, 0}, rows, cols);
}

void ls_tree_dot_rows(ls_real *y, const ls_real *a, size_t lda, const ls_real *b, size_t ldb,
                      ls_axis rows, size_t cols)
{
    sum_rows(y, (rows_of_terms){a, b, lda, ldb}, rows, cols);
}

/* ---- a tree from a forest ---- */

typedef struct forest_cursor {
    const ls_real *const *parts;
    const ls_node *nodes;
    size_t n_parts, next; /* next: the part that covers the first leaf not yet used */
    size_t column, width; /* the block of elements                                  */
} forest_cursor;

/* The value of node lo <= i < hi: a part as it stands, or the sum of its children, written to
 * buffer. */
static const ls_real *finish_node(forest_cursor *f, size_t lo, size_t hi, ls_real *buffer)
{
    assert(f->next < f->n_parts && f->nodes[f->next].lo == lo);
    if (f->nodes[f->next].hi == hi) return f->parts[f->next++] + f->column;
    assert(hi - lo >= 2);

    ls_real spare[BLOCK];
    size_t middle = lo + ls_tree_split(hi - lo);
    const ls_real *left = finish_node(f, lo, middle, buffer);
    const ls_real *right = finish_node(f, middle, hi, spare);
    for (size_t i = 0; i < f->width; i++) buffer[i] = left[i] + right[i];
    return buffer;
}

void ls_tree_finish(ls_real *y, const ls_real *const *parts, const ls_node *nodes, size_t n_parts,
                    size_t n, size_t count)
{
    if (n == 0) {
        for (size_t i = 0; i < count; i++) y[i] = (ls_real)0;
        return;
    }
    for (size_t i = 0; i < count; i += BLOCK) {
        ls_real buffer[BLOCK];
        forest_cursor f = {parts, nodes, n_parts, 0, i, smaller(BLOCK, count - i)};
        const ls_real *sum = finish_node(&f, 0, n, buffer);
        assert(f.next == n_parts);
        /* Only now, when every part of this block has been read, may y be written: it may be a
         * part. */
        if (sum != y + i) memcpy(y + i, sum, f.width * sizeof *y);
    }
}
