/* net_strategy.h - where a layer's grid comes from. */
#ifndef LS_PARALLEL_LAYOUT_NET_STRATEGY_H
#define LS_PARALLEL_LAYOUT_NET_STRATEGY_H

#include "lockstep/partition/layout.h"

/* The strategy that a layout gives a layer; NULL: none. */
const ls_strategy *ls_net_strategy(const ls_layout *layout, int layer);

#endif
