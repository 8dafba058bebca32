#include "comm/plan_finish.h"

#include <string.h>

#define ls_plan_finish LS_TYPED(ls_plan_finish)

enum { BLOCK = LS_PLAN_BLOCK_BYTES / sizeof(ls_real) };

/* The plan over `width` elements from element `first` on. The stack holds addresses: of a part
 * where its member has it, or of this level's block, which takes the sums. */
static const ls_real *finish_block(const ls_team *team, const ls_sum_plan *plan,
                                   const ls_real **stack, ls_real *blocks, size_t stride,
                                   size_t first, size_t width)
{
    size_t top = 0;
    for (size_t p = 0; p < plan->n_parts; p++) {
        const ls_sum_part *part = &plan->parts[p];
        const ls_real *in = team->posts[part->member].in;
        stack[top++] = in + part->place * stride + first;
        for (size_t k = 0; k < part->additions; k++, top--) {
            const ls_real *left = stack[top - 2], *right = stack[top - 1];
            ls_real *sum = blocks + (top - 2) * BLOCK;
            for (size_t i = 0; i < width; i++) sum[i] = left[i] + right[i];
            stack[top - 2] = sum;
        }
    }
    return stack[0];
}

void ls_plan_finish(const ls_team *team, const ls_sum_plan *plan, void *scratch, ls_real *y,
                    size_t stride, size_t lo, size_t hi)
{
    if (plan->n_parts == 0) {
        for (size_t i = lo; i < hi; i++) y[i - lo] = (ls_real)0;
        return;
    }
    ls_real *blocks = scratch;
    const ls_real **stack = (const ls_real **)(void *)(blocks + plan->stack * BLOCK);
    for (size_t i = lo; i < hi; i += BLOCK) {
        size_t width = hi - i < BLOCK ? hi - i : BLOCK;
        const ls_real *sum = finish_block(team, plan, stack, blocks, stride, i, width);
        /* All parts of this block have been read: y may be one of them. */
        if (sum != y + (i - lo)) memcpy(y + (i - lo), sum, width * sizeof *y);
    }
}
