/* token_tree.c - sums down the tokens whose terms are made on the fly (contract rule 9).
 *
 * The recursion is the tree: the left half into y, the right half into a buffer of this level, one
 * addition per column. Columns go in blocks, so that a level's buffer is 1 or 2 KiB; blocks never
 * meet. */
#include "kernels/token_tree.h"

#include "lockstep/numerics/tree.h"

enum { COLUMNS = 256 };

typedef struct column_block {
    token_term *term;
    const void *context;
    size_t first, width;
} column_block;

static void add_to(ls_real *restrict y, const ls_real *restrict x, size_t width)
{
    for (size_t c = 0; c < width; c++) y[c] += x[c];
}

/* y = T over the n >= 1 tokens that start at `token`. */
static void sum_granule(ls_real *y, const column_block *b, size_t token, size_t n)
{
    if (n == 1) {
        b->term(y, b->context, token, b->first, b->width);
        return;
    }
    ls_real right[COLUMNS];
    size_t left = ls_tree_split(n);
    sum_granule(y, b, token, left);
    sum_granule(right, b, token + left, n - left);
    add_to(y, right, b->width);
}

/* y = T over the granules, none of them empty, that start at `token`. */
static void sum_granules(ls_real *y, const column_block *b, size_t token, ls_axis tokens)
{
    if (tokens.granules == 1) {
        sum_granule(y, b, token, tokens.granule);
        return;
    }
    ls_real right[COLUMNS];
    size_t left = ls_tree_split(tokens.granules);
    sum_granules(y, b, token, ls_axis_of(left, tokens.granule));
    sum_granules(right, b, token + left * tokens.granule,
                 ls_axis_of(tokens.granules - left, tokens.granule));
    add_to(y, right, b->width);
}

void ls_token_tree(ls_real *y, token_term *term, const void *context, ls_axis tokens, size_t cols)
{
    for (size_t c = 0; c < cols; c += COLUMNS) {
        column_block b = {term, context, c, cols - c < COLUMNS ? cols - c : COLUMNS};
        if (ls_axis_extent(tokens) == 0)
            for (size_t i = 0; i < b.width; i++) y[c + i] = (ls_real)0;
        else
            sum_granules(y + c, &b, 0, tokens);
    }
}
