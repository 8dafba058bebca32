/* own_tokens.h - which tokens of a sequence a rank has outside the blocks: with sequence
 * parallelism its share, otherwise all. */
#ifndef LS_PARALLEL_LAYOUT_OWN_TOKENS_H
#define LS_PARALLEL_LAYOUT_OWN_TOKENS_H

#include "lockstep/parallel/layout/tensor_parallel.h"
#include "lockstep/partition/share.h"

LS_BEGIN_DECLS

/* Own tokens of a sequence of S. */
LS_API ls_share ls_own_share(const ls_tensor_parallel *tp, size_t S);

/* The axis of own tokens: B granules of S_r. */
LS_API ls_axis ls_own_tokens(const ls_tensor_parallel *tp, ls_axis tokens);

/* The same member inside a block, where the tokens are whole: f and g as without sequence
 * parallelism. */
LS_API ls_tensor_parallel ls_inside_block(const ls_tensor_parallel *tp);

LS_END_DECLS

#endif
