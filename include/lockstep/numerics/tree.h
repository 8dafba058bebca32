/* tree.h - the one order of addition (contract rules 5, 6, 8).
 *
 * T(1) is the leaf. For even n, T(n) = T(first half) + T(second half); for odd n > 1, T(n) =
 * T(first 2^p) + T(rest) with 2^p the largest power of two below n. One rounded addition per node.
 *
 *            T(6)                       T(7)
 *         .--'--.                    .---'---.
 *       T(3)   T(3)                T(4)     T(3)
 *       .'.     .'.               .'  '.     .'.
 *    T(2) 2  T(2) 5            T(2)  T(2) T(2)  6
 *     0 1     3 4               0 1   2 3  4 5
 *
 * Every node over m leaves is itself T(m), wherever it hangs: so a rank that owns the leaves of a
 * node can finish it alone, and a tree can be finished from any set of nodes that covers it. Such a
 * set over a run of leaves, largest nodes first possible, is a forest. */
#ifndef LS_NUMERICS_TREE_H
#define LS_NUMERICS_TREE_H

#include <stddef.h>

#include "lockstep/base/real.h"
#include "lockstep/numerics/axis.h"

LS_BEGIN_DECLS

/* A node of some T(n): the leaves lo <= i < hi. */
typedef struct ls_node {
    size_t lo, hi;
} ls_node;

/* No forest over one run has more nodes than this (two per level of a tree of 2^64 leaves). */
enum { LS_FOREST_MAX = 128 };

/* Leaves of the left child of T(n), n >= 2. */
LS_API size_t ls_tree_split(size_t n);

/* Writes the largest complete nodes of T(n) inside the run lo <= i < hi, in ascending order, and
 * returns how many. hi <= n. An empty run has none. ret_nodes: LS_FOREST_MAX entries, or NULL to
 * count. */
LS_API size_t ls_tree_forest(size_t n, size_t lo, size_t hi, ls_node *ret_nodes);

/* The scalar sum T(n) of x[0], x[stride], ...; n = 0 gives +0. */
#define ls_tree_sum LS_TYPED(ls_tree_sum)
LS_API ls_real ls_tree_sum(const ls_real *x, size_t n, size_t stride);

/* T(n) in binary64, for code over either precision: the gradient norm (rule 16). */
#ifndef LS_REAL_IS_F64
LS_API double ls_tree_sum_f64(const double *x, size_t n, size_t stride);
#endif

/* y[c] = T over rows r of x[r][c]: the sum down the columns, where rows are `rows.granules`
 * granules, T inside each granule with one row as leaf, then T over the granules (rule 9: tokens
 * inside a sequence, then sequences). x: extent(rows) x cols, row stride ld >= cols. y: cols,
 * overwritten (+0 when there are no rows); may not overlap x. Cost: extent(rows) * cols additions.
 */
#define ls_tree_sum_rows LS_TYPED(ls_tree_sum_rows)
LS_API void ls_tree_sum_rows(ls_real *y, const ls_real *x, ls_axis rows, size_t cols, size_t ld);

/* The same over products that are rounded first: y[c] = T over r of (a[r][c] * b[r][c]). */
#define ls_tree_dot_rows LS_TYPED(ls_tree_dot_rows)
LS_API void ls_tree_dot_rows(ls_real *y, const ls_real *a, size_t lda, const ls_real *b, size_t ldb,
                             ls_axis rows, size_t cols);

/* Finishes T(n) element by element from a forest that covers it: y[i] = T(n) with node j's value
 * parts[j][i]. parts: n_parts pointers to count values each; nodes: their places, ascending,
 * complete nodes of T(n), together exactly 0 <= i < n. y: count values; may be one of the parts,
 * may not overlap them otherwise. */
#define ls_tree_finish LS_TYPED(ls_tree_finish)
LS_API void ls_tree_finish(ls_real *y, const ls_real *const *parts, const ls_node *nodes,
                           size_t n_parts, size_t n, size_t count);

LS_END_DECLS

#endif
