/* axis.h - an axis and its granules (contract rule 7).
 *
 * Whatever a layout may cut is made of equal granules whose number the model alone fixes: heads for
 * the attention width, sequences for the tokens of a batch. An axis that is never cut is one
 * granule. A rank that owns a run of granules describes what it holds by the same type with fewer
 * granules, so the same code serves one rank and many. */
#ifndef LS_NUMERICS_AXIS_H
#define LS_NUMERICS_AXIS_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/api.h"

LS_BEGIN_DECLS

typedef struct ls_axis {
    size_t granules; /* how many                       */
    size_t granule;  /* elements of each, all the same */
} ls_axis;

/* Elements of the axis; SIZE_MAX when their number does not fit: no array has so many. */
static inline size_t ls_axis_extent(ls_axis axis)
{
    if (axis.granule != 0 && axis.granules > SIZE_MAX / axis.granule) return SIZE_MAX;
    return axis.granules * axis.granule;
}

/* An axis of n elements that is never cut. */
static inline ls_axis ls_axis_whole(size_t n)
{
    ls_axis axis = {1, n};
    return axis;
}

/* The axis of `granules` granules of `granule` elements. */
static inline ls_axis ls_axis_of(size_t granules, size_t granule)
{
    ls_axis axis = {granules, granule};
    return axis;
}

LS_END_DECLS

#endif
