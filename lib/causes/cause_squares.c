/* cause_squares.c - one pass over all gradients, for every norm that is asked for afterwards. */
#include <stdlib.h>

#include "lockstep/base/widen.h"
#include "base/allocate.h"
#include "causes/cause_norm.h"

void ls_squares_destroy(ls_squares **squares)
{
    if (!*squares) return;
    free((*squares)->first);
    free((*squares)->granules);
    free(*squares);
    *squares = NULL;
}

/* What an element of a parameter belongs to along the dimension that is cut. */
static size_t granule_of(const ls_param *param, size_t i)
{
    const size_t inner = param->cut == 1 || param->n_dims == 1 ? 1 : param->dims[1];
    const size_t extent = param->cut == 1 ? param->dims[1] : param->dims[0];
    return param->cut < 0 ? 0 : i / inner % extent / param->axis.granule;
}

static size_t granules_of(const ls_param *param)
{
    return param->cut < 0 ? 1 : param->axis.granules;
}

/* What the candidate's files hold of a gradient, rank by rank. */
static void add_files(ls_squares *squares, const ls_search *search, size_t place, const double *g)
{
    const ls_graph *graph = search->graph;
    const int node = ls_graph_param_gradient(graph, (int)place);
    const ls_candidate_tensor *given =
        search->of->whole ? ls_candidate_find(search->of->whole, search->of->step, node) : NULL;
    const size_t columns = graph->table->params[place].dims[1]; /* 1 of a vector */
    for (size_t b = 0; given && b < given->n_blocks; b++) {
        const ls_candidate_block *block = &given->blocks[b];
        /* A convolution's weight is cut only by its rows. */
        const bool matrix = graph->nodes[node].n_dims == 2;
        if (block->rank < 0 || block->rank >= LS_NORM_RANKS) continue;
        const ls_view_run rows = block->runs[0];
        const size_t from = matrix ? block->runs[1].first : 0;
        const size_t count = matrix ? block->runs[1].count : columns;
        squares->has_file[block->rank] = true;
        for (size_t r = rows.first; r < rows.first + rows.count; r++)
            for (size_t c = from; c < from + count; c++)
                squares->file[block->rank] += g[r * columns + c] * g[r * columns + c];
    }
}

static ls_status add_param(ls_squares *squares, ls_search *search, size_t place)
{
    ls_status status = LS_OK;
    const ls_param *param = &search->graph->table->params[place];
    const int node = ls_graph_param_gradient(search->graph, (int)place);
    const bool had = search->values[node] != NULL;
    double *sums = squares->granules + squares->first[place];
    LS_TRY(ls_search_need(search, node, &squares->there));
    if (!squares->there) goto exit;
    const double *g = search->values[node];
    for (size_t i = 0, n = ls_param_elements(param); i < n; i++)
        sums[granule_of(param, i)] += g[i] * g[i];
    add_files(squares, search, place, g);
    if (!had) { /* all gradients at once would need as much memory as the model */
        free(search->loaded[node]);
        search->loaded[node] = NULL;
        search->values[node] = NULL;
    }
exit:
    return status;
}

ls_status ls_squares_take(ls_search *search, const ls_squares **ret_squares)
{
    ls_status status = LS_OK;
    ls_squares **kept = search->of->squares ? search->of->squares : &search->squares;
    const ls_param_table *table = search->graph->table;
    ls_squares *squares = NULL;
    if (*kept && (*kept)->step == search->of->step) goto exit;
    ls_squares_destroy(kept);
    LS_NEW(squares, 1);
    LS_NEW(squares->first, table->count + 1);
    squares->step = search->of->step;
    squares->there = true;
    for (size_t p = 0; p < table->count; p++)
        squares->first[p + 1] = squares->first[p] + granules_of(&table->params[p]);
    LS_NEW(squares->granules, squares->first[table->count] + 1);
    for (size_t p = 0; p < table->count && squares->there; p++)
        if (!table->params[p].state) LS_TRY(add_param(squares, search, p));
    *kept = squares;
    squares = NULL;
exit:
    ls_squares_destroy(&squares);
    if (status == LS_OK) *ret_squares = *kept;
    return status;
}
