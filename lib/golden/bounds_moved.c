/* bounds_moved.c - distances of runs, taken together. */
#include "golden/bounds_moved.h"
#include "base/allocate.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_TOGETHER = 32 };

size_t ls_bounds_run(const ls_graph *graph, int node)
{
    const ls_graph_node *of = &graph->nodes[node];
    const size_t row = of->n_dims > 0 ? of->dims[of->n_dims - 1] : 1;
    const size_t elements = ls_graph_elements(graph, node);
    if (row == 0 || elements <= LEAST_TOGETHER) return elements > 0 ? elements : 1;
    return row * ((LEAST_TOGETHER + row - 1) / row);
}

double ls_largest(const double *values, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        if (fabs(values[i]) > most) most = fabs(values[i]);
    return most;
}

double ls_root_mean_square(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i] * values[i];
    return count > 0 ? sqrt(sum / (double)count) : 0;
}

ls_status ls_moved_create(ls_moved **ret_moved, const ls_graph *graph, size_t steps)
{
    ls_status status = LS_OK;
    const size_t count = steps * graph->count;
    ls_moved *all = NULL;
    LS_NEW(all, count + 1);
    for (size_t i = 0; i < count; i++) {
        const int node = (int)(i % graph->count);
        ls_moved *m = &all[i];
        m->elements = ls_graph_elements(graph, node);
        m->run = ls_bounds_run(graph, node);
        m->groups = (m->elements + m->run - 1) / m->run;
        LS_NEW(m->squares, m->groups + 1);
        LS_NEW(m->now, m->groups + 1);
    }
    *ret_moved = all;
    all = NULL;
exit:
    ls_moved_destroy(&all, count);
    return status;
}

void ls_moved_destroy(ls_moved **moved, size_t count)
{
    for (size_t i = 0; *moved && i < count; i++) free((*moved)[i].squares), free((*moved)[i].now);
    free(*moved);
    *moved = NULL;
}

void ls_moved_end_run(ls_moved *moved, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ls_moved *m = &moved[i];
        double all = 0;
        for (size_t g = 0; g < m->groups; g++) {
            const size_t left = m->elements - g * m->run, n = left < m->run ? left : m->run;
            m->squares[g] = fmax(m->squares[g], m->now[g] / (double)n);
            all += m->now[g];
            m->now[g] = 0;
        }
        if (m->elements > 0)
            m->squares[m->groups] = fmax(m->squares[m->groups], all / (double)m->elements);
    }
}
