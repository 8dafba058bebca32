/* cause_net.h - what the files that name a network's mistakes share. */
#ifndef LS_CAUSES_CAUSE_NET_H
#define LS_CAUSES_CAUSE_NET_H

#include <stdio.h>

#include "causes/families.h"

enum { LS_SEARCH_GRIDS = 96 };

/* What may be cut. */
typedef struct net_cutting {
    bool samples, pixels;
} net_cutting;

/* Grids of a layer (LS_NET_IMAGE: of the image): those of the candidate's and the golden layout
 * first, *ret_known of them, then small ones, fewest blocks first. Returns how many. */
size_t ls_search_grids(const ls_search *search, int layer, const net_cutting *of,
                       ls_variant_grid grids[LS_SEARCH_GRIDS], size_t *ret_known);

/* "2 runs of images x 2 x 1 blocks of pixels" */
const char *ls_grid_text(const ls_variant_grid *grid, char text[64]);

#endif
