/* reach.h - windows given axis by axis, for tests that cut one axis or count out small windows:
 * what they read and who reads them, as the library's ls_window has it. */
#ifndef REACH_H
#define REACH_H

#include "lockstep/kernels/window.h"
#include "lockstep/partition/image_box.h"

/* Output o reads the inputs o stride - pad_before + k dilation, 0 <= k < kernel; those outside 0 ..
 * extent are padding. */
typedef struct reach {
    size_t extent, kernel, stride, dilation, pad_before, pad_after;
} reach;

typedef struct stencil {
    reach rows, columns;
} stencil;

static inline ls_window window_of_stencil(const stencil *s)
{
    const reach *r = &s->rows, *c = &s->columns;
    return (ls_window){r->extent,     c->extent,    r->kernel,     c->kernel,
                       r->stride,     c->stride,    r->dilation,   c->dilation,
                       r->pad_before, r->pad_after, c->pad_before, c->pad_after};
}

/* Rows are as the reach says, and the one column reads itself. */
static inline ls_window window_of_reach(const reach *r)
{
    const stencil s = {*r, {1, 1, 1, 1, 0, 0}};
    return window_of_stencil(&s);
}

/* 0 when there is no such window. */
static inline size_t reach_outputs(const reach *r)
{
    const ls_window w = window_of_reach(r);
    const bool is_one = ls_window_check("reach", &w) == LS_OK;
    ls_error_clear();
    return is_one ? ls_window_out_h(&w) : 0;
}

static inline ls_share reach_reads(const reach *r, ls_share outputs)
{
    const ls_window w = window_of_reach(r);
    if (reach_outputs(r) == 0) return (ls_share){0, 0};
    const ls_rectangle in = ls_window_reads(&w, (ls_rectangle){outputs.first, 0, outputs.count, 1});
    return (ls_share){in.top, in.height};
}

static inline ls_share reach_read_by(const reach *r, ls_share inputs)
{
    const ls_window w = window_of_reach(r);
    if (reach_outputs(r) == 0) return (ls_share){0, 0};
    const ls_rectangle out =
        ls_window_read_by(&w, (ls_rectangle){inputs.first, 0, inputs.count, 1});
    return (ls_share){out.top, out.height};
}

/* The wanted boxes of a halo exchange: member m makes the pixels made[m] and wants, of the images
 * and channels given, what these read; backward made is dx and what is wanted is dy. */
static inline void halo_wanted(ls_image_box *ret_wanted, const ls_rectangle *made, size_t members,
                               bool backward, const stencil *s, ls_share images, ls_share channels)
{
    const ls_window w = window_of_stencil(s);
    for (size_t m = 0; m < members; m++)
        ret_wanted[m] = (ls_image_box){
            images, channels, (backward ? ls_window_read_by : ls_window_reads)(&w, made[m])};
}

#endif
