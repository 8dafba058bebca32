/* cause_corrupted.c - of a whole tensor one row is wrong, in most of its elements: no formula does
 * that. It is said last. */
#include <math.h>
#include <stdio.h>

#include "base/append.h"
#include "causes/families.h"

/* Fewer rows than that may be a tensor's share of a mistake. */
enum { ROWS = 8 };

ls_status ls_cause_corrupted(ls_search *search)
{
    const ls_graph_node *node = search->node;
    const size_t width = node->n_dims > 0 ? node->dims[node->n_dims - 1] : 1;
    char text[LS_EVIDENCE], place[96];
    size_t wrong = 0, row = 0, rows = 0;
    size_t length = 0;
    if (search->best.cause != LS_CAUSE_NONE || search->held || !search->of->own_inputs)
        return LS_OK;
    if (node->n_dims < 2 || node->make == LS_MAKE_DROPOUT || search->n / width < ROWS) return LS_OK;
    for (size_t i = 0; i < search->n; i++) {
        const bool here = ls_search_is_wrong(search, i);
        if (here && (rows == 0 || i / width != row)) row = i / width, rows++;
        wrong += here;
        search->trial[i] = here ? search->candidate[i] : search->of->right[i];
    }
    if (rows != 1 || wrong < 2 || 2 * wrong < width) return LS_OK;
    size_t rest = row, unit = search->n / width;
    for (int d = 0; d + 1 < node->n_dims; d++) {
        unit /= node->dims[d];
        length = ls_append(place, sizeof place, length, "%s%zu", d ? ", " : "", rest / unit);
        rest %= unit;
    }
    snprintf(text, sizeof text,
             "row [%s] of %zu is wrong in %zu of %zu elements, all others are "
             "right",
             place, search->n / width, wrong, width);
    ls_search_take(search, LS_CAUSE_CORRUPTED_ROW, text, 0, 0);
    return LS_OK;
}
