/* pixel_sum.c - what one granule rectangle of one image gives to a sum over pixels.
 *
 * A rectangle may be a whole image; its terms are made TERMS at a time. Every node over m leaves is
 * T(m), so a node small enough is filled in and summed, a larger one is split as the tree is. */
#include "lockstep/kernels/pixel_sum.h"

#include "kernels/pixel_tree_leaf.h"
#include "lockstep/numerics/tree.h"

enum { TERMS = 256 };

typedef struct leaf {
    pixel_terms *terms;
    const void *context;
    ls_rectangle pixels;
    size_t channel;
} leaf;

/* T over the pixels first .. first + n of the rectangle. */
static ls_real sum_pixels(const leaf *l, size_t first, size_t n)
{
    if (n > TERMS) {
        size_t left = ls_tree_split(n);
        ls_real sum = sum_pixels(l, first, left);
        return sum + sum_pixels(l, first + left, n - left);
    }
    ls_real term[TERMS];
    const size_t width = l->pixels.width;
    for (size_t done = 0; done < n;) {
        size_t row = (first + done) / width, column = (first + done) % width, run = width - column;
        if (run > n - done) run = n - done;
        l->terms(term + done, l->context, l->channel, l->pixels.top + row, l->pixels.left + column,
                 run);
        done += run;
    }
    return ls_tree_sum(term, n, 1);
}

void ls_pixel_terms_sum(ls_real *sum, pixel_terms *terms, const void *context, ls_rectangle pixels,
                        size_t channels)
{
    leaf l = {terms, context, pixels, 0};
    for (; l.channel < channels; l.channel++)
        sum[l.channel] = ls_rectangle_is_empty(pixels)
                             ? (ls_real)-0.0
                             : sum_pixels(&l, 0, ls_rectangle_count(pixels));
}

typedef struct plain_terms {
    const ls_real *x;
    ls_image_layout layout;
} plain_terms;

static void copy_terms(ls_real *terms, const void *context, size_t channel, size_t row,
                       size_t column, size_t n)
{
    const plain_terms *p = context;
    const ls_real *x = p->x + channel * ls_rectangle_count(p->layout.held) +
                       ls_image_offset(p->layout, (ls_rectangle){row, column, 1, n});
    for (size_t i = 0; i < n; i++) terms[i] = x[i];
}

void ls_pixel_sum(ls_real *sum, const ls_real *x, ls_image_layout layout, ls_rectangle pixels,
                  size_t channels)
{
    const plain_terms p = {x, layout};
    ls_pixel_terms_sum(sum, copy_terms, &p, pixels, channels);
}
