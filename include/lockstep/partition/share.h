/* share.h - who owns which run of n things. Pure arithmetic. */
#ifndef LS_PARTITION_SHARE_H
#define LS_PARTITION_SHARE_H

#include <stddef.h>

#include "lockstep/base/status.h"

LS_BEGIN_DECLS

/* A run of consecutive things: first .. first + count. */
typedef struct ls_share {
    size_t first, count;
} ls_share;

/* Share of part `part` when n things are cut into `parts` runs as evenly as can be: the first n mod
 * parts runs have one more; a share may be empty. */
LS_API ls_share ls_share_of(size_t n, size_t parts, size_t part);

/* ret_bounds[r] = first thing of part r, ret_bounds[parts] = n: parts + 1 numbers. */
LS_API void ls_share_bounds(size_t n, size_t parts, size_t *ret_bounds);

/* Whether n things can be cut into `parts` equal runs. LS_ERR_INPUT lists what would do: "--tp 5:
 * 12 heads cannot be cut into 5 equal parts; use 1, 2, 3, 4, 6 or 12". option: "--tp"; things:
 * "heads".
 */
LS_API ls_status ls_share_check_equal(const char *option, size_t parts, size_t n,
                                      const char *things) LS_MUST_USE;

/* The key/value heads that query heads first .. first + count use, when `group` query heads share
 * one. */
LS_API ls_share ls_share_of_kv(ls_share query_heads, size_t group);

LS_END_DECLS

#endif
