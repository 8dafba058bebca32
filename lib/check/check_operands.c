/* check_operands.c - what an operation reads, from the candidate's own tensors, in binary64.
 *
 * Parameters of the first step are the golden directory's weights, which every candidate was given;
 * of a later step what the candidate itself had after the step before. The optimizer's moments
 * follow from the candidate's own clipped gradients of all steps before. Where a candidate computes
 * in bf16 or f16 the weights are in that format too, but for the optimizer's: it updates what it
 * keeps. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "base/allocate.h"
#include "check/check_parts.h"
#include "train/training.h"

void ls_check_unload(ls_check_operands *loaded)
{
    for (size_t i = 0; i < loaded->rooms; i++) free(loaded->room[i]);
    free(loaded->room), free(loaded->roundoff);
    free(loaded->values), free(loaded->params), free(loaded->moment1), free(loaded->moment2);
    memset(loaded, 0, sizeof *loaded);
}

static ls_status begin(ls_check_operands *loaded, const struct ls_check *check,
                       const ls_check_place *place)
{
    ls_status status = LS_OK;
    const size_t params = check->graph->table->count;
    const ls_run *run = &check->golden->run;
    memset(loaded, 0, sizeof *loaded);
    LS_NEW(loaded->room, check->nodes + 3 * params + check->steps + 1);
    LS_NEW(loaded->values, check->nodes + 1);
    LS_NEW(loaded->params, params + 1);
    LS_NEW(loaded->moment1, params + 1);
    LS_NEW(loaded->moment2, params + 1);
    LS_NEW(loaded->roundoff, check->nodes + 1);
    loaded->own = true;
    loaded->update = ls_step_update(run, place->golden->step);
    loaded->operands = (ls_operands){.graph = check->graph,
                                     .batch = ls_golden_batch(check->golden, place->golden->step),
                                     .values = loaded->values,
                                     .params = loaded->params,
                                     .moment1 = loaded->moment1,
                                     .moment2 = loaded->moment2,
                                     .update = &loaded->update,
                                     .max_norm = run->clip,
                                     .roundoff = loaded->roundoff};
exit:
    return status;
}

static ls_status keep(ls_check_operands *loaded, double **ret_values, ls_dtype dtype,
                      const void *values, size_t count)
{
    ls_status status = LS_OK;
    LS_TRY(ls_check_widen(ret_values, dtype, values, count));
    loaded->room[loaded->rooms++] = *ret_values;
exit:
    return status;
}

/* A node of the same step. *ret_there: the candidate has it, or it was filled in. */
static ls_status load_node(ls_check_operands *loaded, const struct ls_check *check, uint64_t step,
                           int node, bool fill, bool *ret_there)
{
    ls_status status = LS_OK;
    const ls_check_place *place = ls_check_at(check, step, node);
    const ls_candidate_tensor *mine = place->candidate;
    double *values = NULL;
    *ret_there = true;
    if (loaded->values[node]) goto exit;
    if (mine) {
        LS_TRY(keep(loaded, &values, mine->dtype, mine->values, place->golden->count));
        loaded->coarsest = ls_check_coarser(loaded->coarsest, place->passed);
        loaded->roundoff[node] = ls_precision_of(place->passed, 1).u;
    } else {
        /* A candidate that omits a given input is assumed to have used it. */
        const bool given = place->golden && place->golden->given;
        if (!given) loaded->own = false;
        *ret_there = given || (fill && place->golden);
        if (!*ret_there) goto exit;
        LS_TRY(keep(loaded, &values, place->golden->dtype, place->golden->values,
                    place->golden->count));
        loaded->roundoff[node] = ls_precision_of(place->golden->dtype, 1).u;
    }
    loaded->values[node] = values;
exit:
    return status;
}

static ls_status load_param(ls_check_operands *loaded, const struct ls_check *check, uint64_t step,
                            int param, bool fill, bool *ret_there)
{
    ls_status status = LS_OK;
    const size_t count = ls_param_elements(&check->graph->table->params[param]);
    double *values = NULL;
    *ret_there = true;
    if (loaded->params[param]) goto exit;
    if (step > check->golden->first_step) {
        const ls_check_place *before = ls_check_at(check, step - 1, check->updated[param]);
        const ls_candidate_tensor *mine = before->candidate;
        if (mine) {
            LS_TRY(keep(loaded, &values, mine->dtype, mine->values, count));
        } else {
            loaded->own = false;
            *ret_there = fill;
        }
    }
    if (!values && *ret_there) {
        ls_dtype dtype = LS_F32;
        const void *given = ls_golden_param(check->golden, step, param, &dtype);
        *ret_there = given != NULL;
        if (given) LS_TRY(keep(loaded, &values, dtype, given, count));
    }
    loaded->params[param] = values;
exit:
    return status;
}

/* ---- the optimizer ---- */

/* The moments that the directory gives, or zeros. */
static ls_status first_moments(ls_check_operands *loaded, const struct ls_check *check, int param,
                               double *m, double *v)
{
    const size_t count = ls_param_elements(&check->graph->table->params[param]);
    double *const moments[] = {m, v};
    for (int which = 0; which < 2; which++) {
        ls_dtype dtype = LS_F32;
        const void *given = ls_golden_moment(check->golden, param, which, &dtype);
        if (given)
            ls_widen(LS_F64, moments[which], dtype, given, count);
        else
            memset(moments[which], 0, count * sizeof *m);
    }
    loaded->moment1[param] = m;
    loaded->moment2[param] = v;
    return LS_OK;
}

/* From step to step, each with the clipped gradient that the candidate had. */
static ls_status load_moments(ls_check_operands *loaded, const struct ls_check *check,
                              uint64_t step, int param, bool fill, bool *ret_there)
{
    ls_status status = LS_OK;
    const int node = check->updated[param];
    const int clipped = check->graph->nodes[node].inputs[0];
    const size_t count = ls_param_elements(&check->graph->table->params[param]);
    const double *gradient_now = loaded->values[clipped], *param_now = loaded->params[param];
    const ls_update update_now = loaded->update;
    double *room = NULL, *gradient = NULL;
    *ret_there = true;
    LS_NEW(room, 2 * count);
    loaded->room[loaded->rooms++] = room;
    LS_TRY(first_moments(loaded, check, param, room, room + count));
    for (uint64_t s = check->golden->first_step; s < step && *ret_there; s++) {
        const ls_check_place *at = ls_check_at(check, s, clipped);
        const ls_candidate_tensor *mine = at->candidate;
        if (!mine) loaded->own = false;
        *ret_there = mine || (fill && at->golden);
        if (!*ret_there) break;
        LS_TRY(ls_check_widen(&gradient, mine ? mine->dtype : at->golden->dtype,
                              mine ? mine->values : at->golden->values, count));
        loaded->values[clipped] = gradient;
        loaded->params[param] = NULL; /* SGD adds the decay of what the parameter was then */
        LS_TRY(load_param(loaded, check, s, param, fill, ret_there));
        if (!*ret_there) break;
        loaded->update = ls_step_update(&check->golden->run, s);
        LS_TRY(ls_operation_moments(&loaded->operands, node, room, room + count));
        free(gradient);
        gradient = NULL;
    }
exit:
    loaded->values[clipped] = gradient_now;
    loaded->params[param] = param_now;
    loaded->update = update_now;
    free(gradient);
    return status;
}

/* ---- all of it ---- */

static void settle_precision(ls_check_operands *loaded, const struct ls_check *check,
                             const ls_check_place *place)
{
    const ls_graph_node *node = &check->graph->nodes[place->golden->node];
    enum {
        PARTS = 8
    }; /* ranks whose parts of a sum meet in a coarse format, unless the layout says */
    size_t parts = PARTS;
    if (check->options.has_computed && ls_check_has_products(node->make))
        loaded->coarsest = ls_check_coarser(loaded->coarsest, check->options.computed);
    if (check->candidate->has_layout && ls_layout_ranks(&check->candidate->layout) > PARTS)
        parts = (size_t)ls_layout_ranks(&check->candidate->layout);
    loaded->precision = ls_precision_of(loaded->coarsest, parts);
    /* Programs that say that they compute in bf16 add up an embedding's rows in bf16. */
    if (check->options.has_computed && check->options.computed == LS_BF16 &&
        ls_check_embedding_of(check->graph, node) >= 0)
        loaded->precision.sum = loaded->precision.u;
    /* What the optimizer keeps was rounded once more in every step before. */
    if (node->make == LS_MAKE_UPDATED)
        loaded->precision.u *= (double)(place->golden->step - check->golden->first_step + 1);
    /* Small integers: there is nothing to round. */
    if (check->golden->kind == LS_GOLDEN_INTEGERS)
        memset(&loaded->precision, 0, sizeof(ls_precision));
}

static void round_params(ls_check_operands *loaded, const struct ls_check *check)
{
    if (loaded->coarsest != LS_F16 && loaded->coarsest != LS_BF16) return;
    for (size_t p = 0; p < check->graph->table->count; p++)
        if (loaded->params[p]) /* one of the arrays of `room`, which are ours */
            for (size_t i = 0; i < loaded->rooms; i++)
                if (loaded->room[i] == loaded->params[p])
                    ls_check_round(loaded->coarsest, loaded->room[i],
                                   ls_param_elements(&check->graph->table->params[p]));
}

ls_status ls_check_load(ls_check_operands *ret_loaded, const struct ls_check *check,
                        const ls_check_place *place, bool fill, bool everything)
{
    ls_status status = LS_OK;
    ls_check_operands loaded;
    const uint64_t step = place->golden->step;
    const int node = place->golden->node;
    bool there = true;
    size_t count;
    LS_TRY(begin(&loaded, check, place));
    loaded.coarsest = place->format;
    const int *list = ls_check_inputs(check, node, &count);
    for (size_t i = 0; i < count && there; i++)
        LS_TRY(load_node(&loaded, check, step, list[i], fill, &there));
    /* The norm adds tensors of several formats, narrow ones in binary32. */
    if (check->graph->nodes[node].make == LS_MAKE_GRADIENT_NORM && loaded.coarsest != LS_F64)
        loaded.coarsest = ls_check_coarser(place->format, LS_F32);
    list = ls_check_reads(check, node, &count);
    for (size_t i = 0; i < count && there; i++)
        LS_TRY(load_param(&loaded, check, step, list[i], fill, &there));
    for (int p = 0; everything && p < (int)check->graph->table->count; p++) {
        const bool own = loaded.own;
        LS_TRY(load_param(&loaded, check, step, p, true, &there));
        loaded.own = own;
        there = true;
    }
    const bool updated = check->graph->nodes[node].make == LS_MAKE_UPDATED;
    if (updated && there)
        LS_TRY(
            load_moments(&loaded, check, step, check->graph->nodes[node].params[0], fill, &there));
    if (!there) loaded.own = false;
    settle_precision(&loaded, check, place);
    if (!updated) round_params(&loaded, check);
    *ret_loaded = loaded;
    ret_loaded->operands.update = &ret_loaded->update;
    memset(&loaded, 0, sizeof loaded);
exit:
    ls_check_unload(&loaded);
    return status;
}
