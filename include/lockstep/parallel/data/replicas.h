/* replicas.h - checks that all members have equal data where they should.
 *
 * A tensor-parallel block assumes that its input is the same on all members and does not check:
 * members that were fed differently give one wrong answer together, since every all-reduce makes
 * them agree again. So code that brings data in from outside asks once. */
#ifndef LS_PARALLEL_DATA_REPLICAS_H
#define LS_PARALLEL_DATA_REPLICAS_H

#include "lockstep/base/real.h"
#include "lockstep/comm/group.h"

LS_BEGIN_DECLS

/* LS_ERR_RANK on every member, naming `what` and the first member that differs from member 0,
 * unless all have the same bits (any NaN for any NaN). values: count elements. Every member
 * calls it together with the same dtype; counts may differ, which is a difference. Cost: a SHA-256
 * of the values, 1 all-gather of its 64 digits. */
LS_API ls_status ls_replicas_check(ls_group *group, ls_dtype dtype, const void *values,
                                   size_t count, const char *what) LS_MUST_USE;

LS_END_DECLS

#endif
