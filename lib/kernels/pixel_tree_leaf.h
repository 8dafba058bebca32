/* pixel_tree_leaf.h - T over the pixels of a rectangle, with terms that are made on the fly.
 *
 * The function that makes a term is a constant where the sum is asked for, so it is compiled into
 * the loops. Rectangles of granules are small, often of 4 x 4 pixels or one: a sum is a few
 * instructions, and what is done once per channel weighs as much. */
#ifndef LS_KERNELS_PIXEL_TREE_LEAF_H
#define LS_KERNELS_PIXEL_TREE_LEAF_H

#include "lockstep/base/real.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/numerics/tree.h"

/* A rectangle of pixels of all channels: element (channel, r, c), r and c counted in the rectangle,
 * is at start[channel * plane + r * row + c]. */
#define pixel_block LS_TYPED(pixel_block)
typedef struct pixel_block {
    const ls_real *start;
    size_t plane, row;
} pixel_block;

static inline pixel_block pixel_block_of(const ls_real *x, ls_image_layout layout,
                                         ls_rectangle pixels)
{
    /* An empty rectangle may lie anywhere. */
    const size_t offset = ls_rectangle_is_empty(pixels) ? 0 : ls_image_offset(layout, pixels);
    return (pixel_block){x + offset, ls_rectangle_count(layout.held), layout.held.width};
}

/* What terms are made of: elements of a, and of b, mean and rstd where the terms have them. */
#define pixel_terms LS_TYPED(pixel_terms)
typedef struct pixel_terms {
    pixel_block a, b;
    const ls_real *mean, *rstd; /* per channel */
} pixel_terms;

/* One channel of them. */
#define pixel_line LS_TYPED(pixel_line)
typedef struct pixel_line {
    const ls_real *a, *b;
    size_t a_row, b_row, width;
    ls_real mean, rstd;
} pixel_line;

/* A term. */
#define pixel_term LS_TYPED(pixel_term)
typedef ls_real pixel_term(ls_real a, ls_real b, ls_real mean, ls_real rstd);

/* Writes the terms first .. first + n, numbered row by row: pixel_fill_with one kind of term. */
#define pixel_fill LS_TYPED(pixel_fill)
typedef void pixel_fill(ls_real *terms, const pixel_line *line, size_t first, size_t n);

#define PIXEL_INLINE static inline __attribute__((always_inline))

PIXEL_INLINE void pixel_fill_with(ls_real *terms, const pixel_line *l, size_t first, size_t n,
                                  pixel_term *term)
{
    size_t r = first / l->width, c = first % l->width;
    for (size_t done = 0; done < n; r++, c = 0) {
        const ls_real *a = l->a + r * l->a_row + c, *b = l->b + r * l->b_row + c;
        const size_t left = l->width - c, run = left < n - done ? left : n - done;
        for (size_t i = 0; i < run; i++) terms[done + i] = term(a[i], b[i], l->mean, l->rstd);
        done += run;
    }
}

/* T over the terms first .. first + n (pixel_sum.c). */
#define ls_pixel_sum_run LS_TYPED(ls_pixel_sum_run)
ls_real ls_pixel_sum_run(const pixel_line *line, size_t first, size_t n, pixel_fill *fill);

/* T over the terms of row r; width, of 1 to 4, is a constant here. */
PIXEL_INLINE ls_real pixel_row(const pixel_line *l, size_t r, size_t width, pixel_term *term)
{
    const ls_real *a = l->a + r * l->a_row, *b = l->b + r * l->b_row;
#define X(c) term(a[c], b[c], l->mean, l->rstd)
    if (width == 1) return X(0);
    if (width == 2) return X(0) + X(1);
    if (width == 3) return (X(0) + X(1)) + X(2);
    return (X(0) + X(1)) + (X(2) + X(3));
#undef X
}

/* T over 1, 2 or 4 rows: halving comes to whole rows. */
PIXEL_INLINE ls_real pixel_rows(const pixel_line *l, size_t height, size_t width, pixel_term *term)
{
    if (height == 1) return pixel_row(l, 0, width, term);
    if (height == 2) return pixel_row(l, 0, width, term) + pixel_row(l, 1, width, term);
    return (pixel_row(l, 0, width, term) + pixel_row(l, 1, width, term)) +
           (pixel_row(l, 2, width, term) + pixel_row(l, 3, width, term));
}

/* sum[ch] = T over the rectangle's terms, row by row; -0 for an empty one. term and fill:
 * constants, of the same kind. */
PIXEL_INLINE void pixel_sums(ls_real *sum, const pixel_terms *t, ls_rectangle pixels,
                             size_t channels, pixel_term *term, pixel_fill *fill)
{
    const size_t h = pixels.height, w = pixels.width;
    const size_t few = w <= 4 && (h == 1 || h == 2 || h == 4) ? 8 * h + w : 0;
    for (size_t ch = 0; ch < channels; ch++) {
        const pixel_line l = {.a = t->a.start + ch * t->a.plane,
                              .b = t->b.start + ch * t->b.plane,
                              .a_row = t->a.row,
                              .b_row = t->b.row,
                              .width = w,
                              .mean = t->mean ? t->mean[ch] : 0,
                              .rstd = t->rstd ? t->rstd[ch] : 0};
        switch (h * w == 0 ? 1 : few) {
        case 1:
            sum[ch] = (ls_real)-0.0;
            break;
#define FEW(height, width)                                                                         \
    case 8 * height + width:                                                                       \
        sum[ch] = pixel_rows(&l, height, width, term);                                             \
        break
            FEW(1, 1);
            FEW(1, 2);
            FEW(1, 3);
            FEW(1, 4);
            FEW(2, 1);
            FEW(2, 2);
            FEW(2, 3);
            FEW(2, 4);
            FEW(4, 1);
            FEW(4, 2);
            FEW(4, 3);
            FEW(4, 4);
#undef FEW
        default:
            sum[ch] = ls_pixel_sum_run(&l, 0, h * w, fill);
        }
    }
}

#endif
