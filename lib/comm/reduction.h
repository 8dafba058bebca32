/* reduction.h - reductions whose result does not depend on an order. */
#ifndef LS_COMM_REDUCTION_H
#define LS_COMM_REDUCTION_H

#include <stdbool.h>

#include "lockstep/comm/collectives.h"

/* Whether this is a reduction without order of this type. */
bool ls_can_reduce(ls_dtype dtype, ls_reduction reduction);

/* a[i] = a[i] (reduction) b[i] for n elements. Integers are added modulo 2^bits. */
void ls_reduce_into(void *a, const void *b, size_t n, ls_dtype dtype, ls_reduction reduction);

#endif
