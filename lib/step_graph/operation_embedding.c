/* operation_embedding.c - rows of tables added, and the gradients of the tables.
 *
 *     e = token_row + position_row + type_row          a sum of up to three terms
 *     row v of a table: sum of de over the tokens that took it; none: 0 exactly */
#include <string.h>

#include "step_graph/operation_parts.h"

/* Which row of table `slot` token t took. */
static size_t row_of(const evaluation *e, int slot, size_t t)
{
    if (slot == 0) return (size_t)e->batch->tokens[t];
    if (slot == 1) {
        const size_t rows = e->config->seq, position = position_of(e, t % e->S);
        if (e->variant.position_wraps) return position % rows;
        return position < rows ? position : rows - 1;
    }
    return e->batch->segments ? (size_t)e->batch->segments[t] : 0;
}

ls_status ls_evaluate_embedding(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    const size_t D = e->config->d_model;
    for (int slot = 0; slot < LS_NODE_PARAMS; slot++) {
        const double *table = param_of(e, node->params[slot]);
        for (size_t t = 0; table && t < e->B * e->S; t++)
            for (size_t c = 0; c < D; c++)
                approx_sum_add(&out[t * D + c], approx_exact(table[row_of(e, slot, t) * D + c]));
    }
    return LS_OK;
}

ls_status ls_evaluate_embedding_params(const evaluation *e, const ls_graph_node *reader, int slot,
                                       approx_sum *out)
{
    const size_t D = e->config->d_model;
    const double *dy = gradient_of(e, reader);
    for (size_t t = 0; t < e->B * e->S; t++) {
        approx_sum *row = out + row_of(e, slot, t) * D;
        if (e->variant.row_written == LS_ROW_FIRST && row->count > 0) continue;
        if (e->variant.row_written == LS_ROW_LAST) memset(row, 0, D * sizeof *row);
        for (size_t c = 0; c < D; c++) approx_sum_add(&row[c], approx_input(e->p, dy[t * D + c]));
    }
    return LS_OK;
}
