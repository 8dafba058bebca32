/* layout.h - how a run is split over ranks, and where each rank stands in the grid. Pure
 * arithmetic. */
#ifndef LS_PARTITION_LAYOUT_H
#define LS_PARTITION_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/api.h"

LS_BEGIN_DECLS

/* Degrees of parallelism; each at least 1. Rank r has the coordinates of Megatron-LM's order: tp
 * fastest, then cp, dp, pp: r = tp_rank + tp (cp_rank + cp (dp_rank + dp pp_rank)). */
typedef struct ls_layout {
    int tp; /* tensor parallel                          */
    int cp; /* context parallel: 1 in this version      */
    int dp; /* data parallel                            */
    int pp; /* pipeline stages                          */
} ls_layout;

typedef struct ls_coordinates {
    int tp, cp, dp, pp;
} ls_coordinates;

static inline ls_layout ls_layout_serial(void)
{
    ls_layout layout = {1, 1, 1, 1};
    return layout;
}

/* Ranks of the grid; -1 when the product overflows. */
LS_API int ls_layout_ranks(const ls_layout *layout);

LS_API ls_coordinates ls_layout_coordinates(const ls_layout *layout, int rank);
LS_API int ls_layout_rank(const ls_layout *layout, ls_coordinates at);

/* Writes the layout as "tp 2 x pp 2" (degrees of 1 left out; "one rank" when all are); buffer: size
 * bytes, always terminated. */
LS_API void ls_layout_describe(const ls_layout *layout, char *buffer, size_t size);

LS_END_DECLS

#endif
