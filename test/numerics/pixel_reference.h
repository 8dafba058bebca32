/* pixel_reference.h - the tree over an image's granules written down once more, over rectangles and
 * by halving in turn, with nothing shared with lib/: the expectation of tests. */
#ifndef LS_TEST_PIXEL_REFERENCE_H
#define LS_TEST_PIXEL_REFERENCE_H

#include <stddef.h>

#include "lockstep/base/real.h"
#include "lockstep/base/rectangle.h"

static inline size_t reference_split(size_t n)
{
    size_t left = n / 2;
    if (n % 2 == 1) {
        left = 1;
        while (2 * left < n) left = 2 * left;
    }
    return left;
}

/* The sum over the granules t.., l.. (h x w) of x[row][column], rows `ld` apart; turn 0: rows are
 * halved next. */
static inline ls_real reference_pixels(const ls_real *x, size_t ld, size_t t, size_t l, size_t h,
                                       size_t w, int turn)
{
    if (h == 1 && w == 1) return x[t * ld + l];
    if (turn == 0 && h == 1) turn = 1;
    if (turn == 1 && w == 1) turn = 0;
    size_t k = reference_split(turn == 0 ? h : w);
    ls_real a, b;
    if (turn == 0) {
        a = reference_pixels(x, ld, t, l, k, w, 1);
        b = reference_pixels(x, ld, t + k, l, h - k, w, 1);
    } else {
        a = reference_pixels(x, ld, t, l, h, k, 0);
        b = reference_pixels(x, ld, t, l + k, h, w - k, 0);
    }
    return a + b;
}

/* The value of the node `wanted`, found on the way down from the rectangle t, l, h, w. */
static inline ls_real reference_pixel_node(const ls_real *x, size_t ld, ls_rectangle wanted,
                                           size_t t, size_t l, size_t h, size_t w, int turn)
{
    if (wanted.top == t && wanted.left == l && wanted.height == h && wanted.width == w)
        return reference_pixels(x, ld, t, l, h, w, turn);
    if (turn == 0 && h == 1) turn = 1;
    if (turn == 1 && w == 1) turn = 0;
    size_t k = reference_split(turn == 0 ? h : w);
    if (turn == 0) {
        if (wanted.top >= t + k) return reference_pixel_node(x, ld, wanted, t + k, l, h - k, w, 1);
        return reference_pixel_node(x, ld, wanted, t, l, k, w, 1);
    }
    if (wanted.left >= l + k) return reference_pixel_node(x, ld, wanted, t, l + k, h, w - k, 0);
    return reference_pixel_node(x, ld, wanted, t, l, h, k, 0);
}

#endif
