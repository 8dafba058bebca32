/* net_params.h - the parameters of a convolutional network. */
#ifndef LS_MODEL_NET_PARAMS_H
#define LS_MODEL_NET_PARAMS_H

#include "lockstep/model/param_table.h"

enum { LS_NET_PARAMS = 4 }; /* of one layer at most */

/* Appends the parameters of table->config.net; there is room for LS_NET_PARAMS of each layer. */
void ls_net_params_add(ls_param_table *table);

#endif
