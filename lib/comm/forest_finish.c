#include "comm/forest_finish.h"

#include <string.h>

#define ls_forest_finish LS_TYPED(ls_forest_finish)

void ls_forest_finish(const ls_team *team, void *scratch, ls_real *y, size_t stride, size_t lo,
                      size_t hi)
{
    size_t n = 0, n_parts = 0;
    for (int m = 0; m < team->size; m++) n += team->posts[m].n_nodes;
    ls_node *nodes = scratch;
    const ls_real **parts = (const ls_real **)(void *)(nodes + n);
    for (int m = 0; m < team->size; m++) {
        const ls_post *post = &team->posts[m];
        const ls_real *in = post->in;
        for (size_t j = 0; j < post->n_nodes; j++) {
            nodes[n_parts] = post->nodes[j];
            parts[n_parts++] = in + j * stride + lo;
        }
    }
    ls_tree_finish(y, parts, nodes, n_parts, team->posts[0].call.leaves, hi - lo);
}
