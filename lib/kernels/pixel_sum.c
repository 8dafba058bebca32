/* pixel_sum.c - what one granule rectangle of one image gives to a sum over pixels.
 *
 * A rectangle may be a whole image; its terms are made TERMS at a time. Every node over m leaves is
 * T(m), so a node small enough is filled in and summed, a larger one is split as the tree is. */
#include "lockstep/kernels/pixel_sum.h"

#include "kernels/pixel_tree_leaf.h"
#include "lockstep/numerics/tree.h"

enum { TERMS = 256 };

ls_real ls_pixel_sum_run(const pixel_line *line, size_t first, size_t n, pixel_fill *fill)
{
    if (n > TERMS) {
        size_t left = ls_tree_split(n);
        ls_real sum = ls_pixel_sum_run(line, first, left, fill);
        return sum + ls_pixel_sum_run(line, first + left, n - left, fill);
    }
    ls_real term[TERMS];
    fill(term, line, first, n);
    if ((n & (n - 1)) != 0) return ls_tree_sum(term, n, 1);
    for (; n > 1; n /= 2) /* a power of two: neighbours, then neighbours of these */
        for (size_t i = 0; i < n / 2; i++) term[i] = term[2 * i] + term[2 * i + 1];
    return term[0];
}

static inline ls_real element(ls_real a, ls_real b, ls_real mean, ls_real rstd)
{
    (void)b;
    (void)mean;
    (void)rstd;
    return a;
}

static void fill_elements(ls_real *terms, const pixel_line *line, size_t first, size_t n)
{
    pixel_fill_with(terms, line, first, n, element);
}

void ls_pixel_sum(ls_real *sum, const ls_real *x, ls_image_layout layout, ls_rectangle pixels,
                  size_t channels)
{
    const pixel_block a = pixel_block_of(x, layout, pixels);
    const pixel_terms t = {.a = a, .b = a};
    pixel_sums(sum, &t, pixels, channels, element, fill_elements);
}
