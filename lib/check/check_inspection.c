/* check_inspection.c - one tensor's whole story: its values next to the golden and the right ones,
 * and where in it those are that are off. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "check/check_parts.h"

/* ---- values ---- */

/* The bound of a run holds for every element alike. */
static ls_status take_truth(ls_inspection *look, const struct ls_check *check,
                            const ls_check_place *place)
{
    ls_status status = LS_OK;
    const double *truth = NULL;
    const double bound = ls_check_bound(check, place, &truth);
    const double u = ls_precision_of(place->judged->format, 1).u;
    if (!isfinite(bound)) goto exit;
    if (!truth) truth = look->golden;
    LS_ROOM(look->right, look->count);
    LS_ROOM(look->bound, look->count);
    for (size_t i = 0; i < look->count; i++) {
        look->right[i] = truth[i];
        look->bound[i] = bound + u * fabs(truth[i]);
    }
exit:
    return status;
}

static ls_status take_values(ls_inspection *look, const struct ls_check *check,
                             const ls_check_place *place)
{
    ls_status status = LS_OK;
    const ls_judged *judged = place->judged;
    const ls_golden_tensor *golden = place->golden;
    LS_TRY(ls_check_widen(&look->candidate, judged->candidate->dtype, judged->candidate->values,
                          look->count));
    if (check->golden->kind == LS_GOLDEN_INTEGERS) ls_check_one_zero(look->candidate, look->count);
    LS_TRY(ls_check_widen(&look->golden, golden->dtype, golden->values, look->count));
    if (ls_check_is_coarser(judged->format, golden->dtype))
        ls_check_round(judged->format, look->golden, look->count);
    if (judged->local == LS_LOCAL_OUTSIDE)
        LS_TRY(ls_check_again(check, place, &look->right, &look->bound));
    look->right_is_local = look->right != NULL;
    if (!look->right) LS_TRY(take_truth(look, check, place));
exit:
    return status;
}

/* ---- which are off ---- */

static bool is_outside(const ls_inspection *look, size_t i)
{
    if (!look->right) return false;
    return !ls_check_allowed(look->candidate[i], look->right[i], look->bound[i]);
}

static bool is_off(const ls_inspection *look, size_t i)
{
    if (look->off_is_outside) return is_outside(look, i);
    return ls_check_ulps(look->judged->format, look->candidate[i], look->golden[i]) > 0;
}

static double score(const ls_inspection *look, size_t i)
{
    const double right = look->right ? look->right[i] : look->golden[i];
    const double error = fabs(look->candidate[i] - right);
    const double unit = look->bound && look->bound[i] > 0 ? look->bound[i] : 1;
    return isnan(error) ? HUGE_VAL : error / unit;
}

static void keep_worst(ls_inspection *look, size_t i)
{
    const double mine = score(look, i);
    size_t at = look->n_worst;
    while (at > 0 && mine > score(look, look->worst[at - 1])) at--;
    if (at == LS_INSPECTION_WORST) return;
    if (look->n_worst < LS_INSPECTION_WORST) look->n_worst++;
    for (size_t k = look->n_worst - 1; k > at; k--) look->worst[k] = look->worst[k - 1];
    look->worst[at] = i;
}

/* ---- where they are ---- */

/* Elements of a granule of dimension d; 0: the dimension is not made of any. */
static size_t granule_of(const ls_graph *graph, const ls_graph_node *node, int d)
{
    static const struct {
        const char *name;
        ls_granule_kind kind;
    } cut[] = {{"D[tp]", LS_GRANULE_HEADS},
               {"Dkv[tp]", LS_GRANULE_KV_HEADS},
               {"F[tp]", LS_GRANULE_FF},
               {"V[tp]", LS_GRANULE_VOCAB},
               {"H[tp]", LS_GRANULE_NONE}};
    const char *name = node->dim_names;
    for (int k = 0; k < d && name; k++) name = strchr(name, ' ') ? strchr(name, ' ') + 1 : NULL;
    for (size_t k = 0; name && k < sizeof cut / sizeof *cut; k++) {
        const size_t length = strlen(cut[k].name);
        if (strncmp(name, cut[k].name, length) != 0 || (name[length] && name[length] != ' '))
            continue;
        if (cut[k].kind == LS_GRANULE_NONE) return 1;
        return ls_granule_axis(&graph->table->config, cut[k].kind).granule;
    }
    return 0;
}

/* Per index of a dimension how many elements are off, then what that looks like. */
static ls_status describe_dimension(ls_inspection *look, const ls_graph *graph,
                                    const size_t *counts, int d)
{
    ls_status status = LS_OK;
    const ls_graph_node *node = &graph->nodes[look->judged->golden->node];
    ls_inspection_dimension *of = &look->dimensions[d];
    const size_t extent = node->dims[d], granule = granule_of(graph, node, d);
    for (size_t i = 0; i < extent; i++) {
        if (counts[i] == 0) continue;
        if (of->touched++ == 0) of->first = i;
        of->last = i;
    }
    if (of->touched > 1 && (of->last - of->first) % (of->touched - 1) == 0) {
        of->period = (of->last - of->first) / (of->touched - 1);
        for (size_t i = of->first; i <= of->last; i += of->period)
            if (counts[i] == 0) of->period = extent; /* no period */
        if (of->period == extent) of->period = 0;
    }
    if (of->touched == 1) of->period = 1;
    if (granule == 0) goto exit;
    of->blocks = (extent + granule - 1) / granule;
    LS_NEW(of->in_block, of->blocks + 1);
    for (size_t i = 0; i < extent; i++) of->in_block[i / granule] += counts[i];
exit:
    return status;
}

static size_t cells(size_t extent, size_t most, size_t *ret_size)
{
    *ret_size = (extent + most - 1) / most;
    if (*ret_size == 0) *ret_size = 1;
    return (extent + *ret_size - 1) / *ret_size;
}

/* An output of a network with pixels. */
static bool is_image(const ls_graph_node *node)
{
    return node->n_dims == 4 && strstr(node->dim_names, "H[down]") && node->dims[2] > 1;
}

static void shape_grid(ls_inspection *look, const ls_graph_node *node)
{
    look->columns = node->n_dims > 0 ? node->dims[node->n_dims - 1] : 1;
    look->rows = look->columns > 0 ? look->count / look->columns : 0;
    look->layers = 1;
    if (is_image(node)) { /* where in an image it is, over all images and channels */
        look->rows = node->dims[2];
        look->layers = node->dims[0] * node->dims[1];
    }
    look->grid_rows = cells(look->rows, LS_INSPECTION_ROWS, &look->cell_rows);
    look->grid_columns = cells(look->columns, LS_INSPECTION_COLUMNS, &look->cell_columns);
}

static void count_in_grid(ls_inspection *look, size_t i)
{
    const size_t row = i / look->columns % look->rows / look->cell_rows;
    const size_t column = i % look->columns / look->cell_columns;
    const size_t high = look->rows - row * look->cell_rows;
    const size_t wide = look->columns - column * look->cell_columns;
    const size_t in_cell = (high < look->cell_rows ? high : look->cell_rows) *
                           (wide < look->cell_columns ? wide : look->cell_columns);
    look->share[row * look->grid_columns + column] += 1 / (double)(in_cell * look->layers);
}

static ls_status find_places(ls_inspection *look, const ls_graph *graph)
{
    ls_status status = LS_OK;
    const ls_graph_node *node = &graph->nodes[look->judged->golden->node];
    size_t *counts[LS_NODE_DIMS] = {NULL};
    for (int d = 0; d < node->n_dims; d++) LS_NEW(counts[d], node->dims[d] + 1);
    for (size_t i = 0; i < look->count; i++) {
        size_t rest = i;
        if (!is_off(look, i)) continue;
        look->off++;
        keep_worst(look, i);
        count_in_grid(look, i);
        for (int d = node->n_dims; d-- > 0; rest /= node->dims[d])
            counts[d][rest % node->dims[d]]++;
    }
    for (int d = 0; d < node->n_dims; d++) LS_TRY(describe_dimension(look, graph, counts[d], d));
exit:
    for (int d = 0; d < node->n_dims; d++) free(counts[d]);
    return status;
}

ls_status ls_inspection_create(ls_inspection **ret_look, const ls_judgement *judgement,
                               const ls_judged *judged)
{
    ls_status status = LS_OK;
    const struct ls_check *check = judgement->inside;
    const ls_golden_tensor *golden = judged->golden;
    ls_inspection *look = NULL;
    LS_NEW(look, 1);
    look->judged = judged;
    look->count = golden->count;
    LS_TRY(take_values(look, check, ls_check_at(check, golden->step, golden->node)));
    shape_grid(look, &check->graph->nodes[golden->node]);
    for (size_t i = 0; i < look->count && !look->off_is_outside; i++)
        look->off_is_outside = is_outside(look, i);
    LS_TRY(find_places(look, check->graph));
    *ret_look = look;
    look = NULL;
exit:
    ls_inspection_destroy(&look);
    return status;
}

void ls_inspection_destroy(ls_inspection **look)
{
    if (!*look) return;
    for (int d = 0; d < LS_NODE_DIMS; d++) free((*look)->dimensions[d].in_block);
    free((*look)->candidate), free((*look)->golden), free((*look)->right), free((*look)->bound);
    free(*look);
    *look = NULL;
}
