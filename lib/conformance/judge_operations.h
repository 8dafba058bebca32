/* judge_operations.h - the operations that the judge knows, chapter by chapter.
 *
 * A new function of the table (a convolution, a halo exchange) is one judge_operation in a file of
 * its own: what it is called, where the table has it, its cases, its call; and one line in the
 * list of judge.c. */
#ifndef LS_CONFORMANCE_JUDGE_OPERATIONS_H
#define LS_CONFORMANCE_JUDGE_OPERATIONS_H

#include <stddef.h>

#include "lockstep/numerics/gemm.h"
#include "conformance/judge_trial.h"

typedef struct judge_chapter {
    const judge_operation *operations;
    size_t n;
} judge_chapter;

#define ls_judge_collectives LS_TYPED(ls_judge_collectives)
#define ls_judge_messages LS_TYPED(ls_judge_messages)
#define ls_judge_linear LS_TYPED(ls_judge_linear)
#define ls_judge_mlp LS_TYPED(ls_judge_mlp)
#define ls_judge_attention LS_TYPED(ls_judge_attention)
#define ls_judge_embedding LS_TYPED(ls_judge_embedding)
#define ls_judge_loss LS_TYPED(ls_judge_loss)
#define ls_judge_tokens LS_TYPED(ls_judge_tokens)
#define ls_judge_norm LS_TYPED(ls_judge_norm)
#define ls_judge_pointwise LS_TYPED(ls_judge_pointwise)
#define ls_judge_update LS_TYPED(ls_judge_update)
extern const judge_chapter ls_judge_collectives, ls_judge_messages, ls_judge_linear, ls_judge_mlp,
    ls_judge_attention, ls_judge_embedding, ls_judge_loss, ls_judge_tokens, ls_judge_norm,
    ls_judge_pointwise, ls_judge_update;

/* Rows of a chapter. JUDGE_BOTH and JUDGE_BOUNDED: an operation that has the function's name. */
#define JUDGE_AT(table_function) offsetof(ls_backend, table_function)
#define JUDGE_ROW(text, table_function, has_exact, has_bounded, cases, prepares, calls, way)       \
    {                                                                                              \
        .name = text, .function = JUDGE_AT(table_function), .exact = has_exact,                    \
        .bounded = has_bounded, .shapes = cases, .prepare = prepares, .call = calls, .form = way   \
    }
#define JUDGE_BOTH(function, shapes, prepare, call)                                                \
    JUDGE_ROW(#function, function, true, true, shapes, prepare, call, 0)
#define JUDGE_BOUNDED(function, shapes, prepare, call, form)                                       \
    JUDGE_ROW(#function, function, false, true, shapes, prepare, call, form)
#define JUDGE_CHAPTER(operations)                                                                  \
    {                                                                                              \
        operations, sizeof(operations) / sizeof *(operations)                                      \
    }

/* T over the ranks of what each adds, into tensor->ordered: the leaf of rank r is its own part, and
 * what is added once comes after the sum. */
#define ls_judge_order_parts LS_TYPED(ls_judge_order_parts)
ls_status ls_judge_order_parts(judge_trial *trial, judge_tensor *tensor) LS_MUST_USE;

/* value = sum of the parts, then what is added once; with its bound. */
#define ls_judge_sum_parts LS_TYPED(ls_judge_sum_parts)
void ls_judge_sum_parts(const judge_trial *trial, judge_tensor *tensor);

/* Room for the bits of tensor, and the same as ls_real of `numbers`. */
#define ls_judge_reals LS_TYPED(ls_judge_reals)
ls_status ls_judge_reals(judge_trial *trial, size_t n, const double *numbers,
                         ls_real **ret_reals) LS_MUST_USE;

/* tensor->ordered = op(A) op(B) + bias as ls_gemm has it with the portable engine; a, b:
 * contiguous, row-major as stored; bias NULL: none. */
#define ls_judge_order_product LS_TYPED(ls_judge_order_product)
ls_status ls_judge_order_product(judge_trial *trial, judge_tensor *tensor, ls_trans ta, ls_trans tb,
                                 ls_axis m, ls_axis n, ls_axis k, const double *a, const double *b,
                                 const double *bias) LS_MUST_USE;

/* tensor->ordered = the sum over the rows of x, rows x cols, by rule 9. */
#define ls_judge_order_rows LS_TYPED(ls_judge_order_rows)
ls_status ls_judge_order_rows(judge_trial *trial, judge_tensor *tensor, const double *x,
                              ls_axis rows, size_t cols) LS_MUST_USE;

#endif
