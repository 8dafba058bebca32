/* pixel_tree_leaf.h - T over the pixels of a rectangle, with terms that are made on the fly. */
#ifndef LS_KERNELS_PIXEL_TREE_LEAF_H
#define LS_KERNELS_PIXEL_TREE_LEAF_H

#include "lockstep/base/real.h"
#include "lockstep/kernels/image_layout.h"

/* Writes the terms of n pixels of one row of the image to `terms`, from (row, column) on. */
#define pixel_terms LS_TYPED(pixel_terms)
typedef void pixel_terms(ls_real *terms, const void *context, size_t channel, size_t row,
                         size_t column, size_t n);

/* sum[ch] = T over the pixels, row by row; -0 for an empty rectangle. */
#define ls_pixel_terms_sum LS_TYPED(ls_pixel_terms_sum)
void ls_pixel_terms_sum(ls_real *sum, pixel_terms *terms, const void *context, ls_rectangle pixels,
                        size_t channels);

#endif
