#include <assert.h>
#include <string.h>

#include "lockstep/numerics/binary_tree.h"

/* Elements handled together: 1 KiB. */
enum { BLOCK = 1024 / sizeof(ls_real) };

typedef struct cover_cursor {
    const ls_binary_tree *tree;
    const ls_real *const *parts;
    const ls_node *nodes;
    size_t n_parts, next; /* next: the part that covers the first leaf not yet used */
    size_t first, width;  /* the block of elements                                  */
} cover_cursor;

/* The value of node lo..hi: a part as it stands, or the sum of the children, written to buffer. */
static const ls_real *finish_node(cover_cursor *c, size_t lo, size_t hi, ls_real *buffer)
{
    assert(c->next < c->n_parts && c->nodes[c->next].lo == lo);
    if (c->nodes[c->next].hi == hi) return c->parts[c->next++] + c->first;
    assert(hi - lo >= 2);

    ls_real spare[BLOCK];
    size_t middle = c->tree->cut(c->tree->shape, lo, hi);
    const ls_real *left = finish_node(c, lo, middle, buffer);
    const ls_real *right = finish_node(c, middle, hi, spare);
    for (size_t i = 0; i < c->width; i++) buffer[i] = left[i] + right[i];
    return buffer;
}

void ls_binary_tree_finish(ls_real *y, const ls_real *const *parts, const ls_node *nodes,
                           size_t n_parts, const ls_binary_tree *tree, ls_node within, size_t count)
{
    if (within.lo == within.hi) {
        for (size_t i = 0; i < count; i++) y[i] = (ls_real)0;
        return;
    }
    for (size_t i = 0; i < count; i += BLOCK) {
        ls_real buffer[BLOCK];
        size_t width = count - i < BLOCK ? count - i : BLOCK;
        cover_cursor c = {tree, parts, nodes, n_parts, 0, i, width};
        const ls_real *sum = finish_node(&c, within.lo, within.hi, buffer);
        assert(c.next == n_parts);
        /* All parts of this block have been read: y may be one of them. */
        if (sum != y + i) memcpy(y + i, sum, width * sizeof *y);
    }
}
