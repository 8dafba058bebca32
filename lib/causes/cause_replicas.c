/* cause_replicas.c - what ranks hold that should hold the same, and do not.
 *
 * When what each rank holds differs and their sum is the right value, the reduction is missing.
 * Else each rank's own tensor is a candidate by itself, elements that it does not hold being right.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "base/allocate.h"
#include "causes/families.h"

/* Adds a block, or writes it in its place. held: how often an element was met. */
static void lay(const ls_search *search, const ls_candidate_block *block, bool add, double *values,
                unsigned char *held)
{
    const ls_graph_node *node = search->node;
    const size_t width = ls_dtype_bytes(block->dtype);
    size_t at[LS_VIEW_DIMS] = {0}, n = 1;
    for (int d = 0; d < node->n_dims; d++) n *= block->runs[d].count;
    for (size_t i = 0; i < n; i++) {
        size_t rest = i, place = 0;
        for (int d = node->n_dims - 1; d >= 0; d--)
            at[d] = rest % block->runs[d].count, rest /= block->runs[d].count;
        for (int d = 0; d < node->n_dims; d++)
            place = place * node->dims[d] + block->runs[d].first + at[d];
        double v;
        ls_widen(LS_F64, &v, block->dtype, (const char *)block->values + i * width, 1);
        values[place] = add && held[place] ? values[place] + v : v;
        if (held[place] < 255) held[place]++;
    }
}

/* The sum of all ranks' tensors is the right one, each addend counted once, or each rank's copies
 * of it. */
static ls_status try_sum(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const ls_candidate_tensor *given = search->of->as_given;
    const ls_graph_node *node = search->node;
    const ls_param *param = node->make == LS_MAKE_PARAM_GRADIENT
                                ? &search->graph->table->params[node->params[0]]
                                : NULL;
    double *sum = NULL, *without = NULL;
    unsigned char *held = NULL;
    const double *own = search->candidate;
    ls_change change = {0};
    size_t copies = 0;
    LS_NEW(sum, search->n);
    LS_NEW(held, search->n);
    for (size_t b = 0; b < given->n_blocks; b++) lay(search, &given->blocks[b], true, sum, held);
    for (size_t i = 0; i < search->n; i++)
        if (held[i] > copies) copies = held[i];
    /* a bias that each rank added: as many of it as there are parts too many */
    const bool linear = node->make == LS_MAKE_LINEAR || node->make == LS_MAKE_LINEAR_TURNED;
    if (linear && node->params[1] >= 0) {
        double *bias;
        bool done = false;
        LS_ROOM(without, search->n);
        LS_TRY(ls_change_begin(&change, &search->of->operands));
        LS_TRY(ls_change_param(&change, node->params[1], &bias));
        memset(bias, 0,
               ls_param_elements(&search->graph->table->params[node->params[1]]) * sizeof *bias);
        LS_TRY(ls_search_compute(search, search->of->node, &change.operands, without, NULL, &done));
        if (!done) free(without), without = NULL;
    }
    for (size_t each = 1; each < copies; each++) { /* equal copies of every part */
        if (copies % each) continue;
        const double parts = (double)copies / (double)each;
        for (int biases = 0; biases < (without ? 3 : 1); biases++) {
            double left = 0, there = 0;
            bool fits = true;
            for (size_t i = 0; i < search->n && fits; i++) {
                const double b = without ? search->of->right[i] - without[i] : 0;
                const double more = biases == 1 ? parts - 1 : biases == 2 ? -1 : 0;
                const double off = fabs(sum[i] / (double)each - (search->of->right[i] + more * b));
                const double allowed =
                    2 * search->of->bound[i] +
                    4 * (double)copies * search->of->precision.u *
                        (fabs(search->of->right[i]) + fabs(more * b) + fabs(own[i]));
                if (held[i] != copies || !(off <= allowed)) fits = false;
                if (off > left) left = off, there = allowed;
            }
            if (!fits) continue;
            const bool replicated =
                param && param->cut < 0 && search->of->whole && search->of->whole->has_layout &&
                search->of->whole->layout.tp > 1 && (double)search->of->whole->layout.tp == parts;
            snprintf(text, sizeof text,
                     "what %.0f ranks hold differs, and added it is the right tensor%s", parts,
                     biases == 1   ? " with the bias once per rank"
                     : biases == 2 ? " without the bias"
                                   : "");
            const ls_cause cause = param && search->config->kind == LS_MODEL_NET
                                       ? LS_CAUSE_WEIGHT_GRADIENT
                                   : replicated ? LS_CAUSE_REPLICATED_GRADIENT
                                                : LS_CAUSE_NOT_REDUCED;
            ls_search_take(search, cause, text, left, there);
            goto exit;
        }
    }
exit:
    ls_change_end(&change);
    free(without);
    free(held);
    free(sum);
    return status;
}

ls_status ls_cause_replicas(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_candidate_tensor *given = search->of->as_given;
    if (!given || !given->replicas_differ || given->n_blocks < 2 || search->best.cause) goto exit;
    LS_TRY(try_sum(search));
exit:
    return status;
}

void ls_rank_tensor(const ls_search *search, int rank, double *ret_values, unsigned char *ret_held,
                    bool *ret_differs)
{
    const ls_candidate_tensor *given = search->of->as_given;
    memset(ret_held, 0, search->n);
    memcpy(ret_values, search->of->right, search->n * sizeof *ret_values);
    for (size_t b = 0; b < given->n_blocks; b++)
        if (given->blocks[b].rank == rank)
            lay(search, &given->blocks[b], false, ret_values, ret_held);
    *ret_differs = false;
    for (size_t i = 0; i < search->n; i++)
        if (!(fabs(ret_values[i] - search->of->right[i]) <= search->of->bound[i]))
            *ret_differs = true;
}
