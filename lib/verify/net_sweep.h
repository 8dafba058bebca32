/* net_sweep.h - the layouts of a convolutional network that a verification goes through.
 *
 * Every (dp, down, across, channels) of at most so many ranks that the network and the batch allow;
 * for each of these
 *
 *     - no strategy, without overlap, and where pixels are cut with it;
 *     - with two ranks or more two strategies, taken in turn from the list of net_sweep.c, one
 *       without overlap and one with it: a layer in the middle that goes to samples only, to rows,
 *       to columns, to channels as far as they go; one that swaps rows and columns; one layer after
 *       another with a grid of its own; a dense layer by channels; one pixel cut into rows.
 *
 * A strategy that the network does not have, or that is what the layer has anyway, gives way to the
 * next. No chance: the same network, batch and number of ranks give the same list. */
#ifndef LS_VERIFY_NET_SWEEP_H
#define LS_VERIFY_NET_SWEEP_H

#include "verify/sweep.h"

/* Puts them at the end of the sweep, grid point by grid point. */
ls_status ls_net_sweep_fill(ls_sweep *sweep, const ls_config *config, int max_ranks) LS_MUST_USE;

#endif
