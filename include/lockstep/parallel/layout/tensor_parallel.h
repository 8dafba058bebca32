/* tensor_parallel.h - what every tensor-parallel operation needs, and the two conjugate operators.
 *
 * Megatron-LM (arXiv 1909.08053, section 3) puts two operators around a block whose first matrix is
 * cut by columns and whose second by rows:
 *
 *     f: identity forward, all-reduce backward      before the column-cut matrix
 *     g: all-reduce forward, identity backward      after the row-cut matrix
 *
 * Both all-reduces finish a sum over a cut axis: forward over the inputs of the second matrix,
 * backward over the outputs of the first. Each rank sends the nodes of the sum's tree that its
 * granules make (contract rule 8), so the sum is the serial one. With sequence parallelism an
 * all-reduce becomes a reduce-scatter, and its identity an all-gather (sequence_parallel.h): then
 * "tokens, the same on every member" means own tokens of every member.
 *
 * Of every operation that takes an ls_tensor_parallel: all members of the group call it together.
 * Outputs are overwritten, and overlap no input unless its comment says so. Errors: LS_ERR_MEMORY,
 * those of ls_gemm, and where something is sent those of collectives.h; outputs are then undefined.
 */
#ifndef LS_PARALLEL_LAYOUT_TENSOR_PARALLEL_H
#define LS_PARALLEL_LAYOUT_TENSOR_PARALLEL_H

#include <stdbool.h>

#include "lockstep/base/memory.h"
#include "lockstep/base/real.h"
#include "lockstep/comm/collectives.h"
#include "lockstep/numerics/gemm_fused.h"
#include "lockstep/parallel/layout/batch_sums.h"

LS_BEGIN_DECLS

typedef struct ls_tensor_parallel {
    ls_group *group;           /* the tp group, as this member sees it                          */
    ls_engine engine;          /* of the local products                                         */
    ls_arena *temporary;       /* workspace: every operation leaves it as found                 */
    bool sequence_parallel;    /* outside the blocks each member has its share of the tokens
                                  (sequence_parallel.h) */
    const ls_batch_sums *sums; /* where sums over the batch go; NULL: into one */
    struct ls_observation *observation; /* a stage's: the observer, and what is under way
                                   (observer.h); NULL: none */
} ls_tensor_parallel;

/* An axis and who owns which of its granules. */
typedef struct ls_cut {
    ls_axis whole; /* as the model has it                                           */
    const size_t
        *bounds; /* member r owns granules bounds[r] .. bounds[r + 1]; group size + 1 numbers */
} ls_cut;

/* The part of a cut axis that `member` owns. */
static inline ls_axis ls_cut_held(const ls_cut *cut, int member)
{
    return ls_axis_of(cut->bounds[member + 1] - cut->bounds[member], cut->whole.granule);
}

LS_END_DECLS

#endif
