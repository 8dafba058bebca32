/* graph_evaluation.h - every node of a graph, evaluated in order from weights and batch. */
#ifndef LS_TEST_GRAPH_EVALUATION_H
#define LS_TEST_GRAPH_EVALUATION_H

#include <stdio.h>

#include "../serial/serial_fixture.h"
#include "step_graph/operation.h"

typedef struct whole_step {
    ls_graph *graph;
    ls_operands operands;
    double *weights;       /* all parameters, table order */
    const double **params; /* into it */
    double **values;       /* per node */
} whole_step;

static inline whole_step whole_step_create(const ls_param_table *table, const ls_batch *batch,
                                           const ls_update *update, double max_norm)
{
    whole_step s = {0};
    ck_assert_int_eq(ls_graph_create(&s.graph, table, batch->B, batch->S), LS_OK);
    s.weights = fixture_noise(table);
    s.params = calloc(table->count, sizeof *s.params);
    s.values = calloc(s.graph->count, sizeof *s.values);
    ck_assert(s.params && s.values);
    const double *next = s.weights;
    for (size_t p = 0; p < table->count; p++) {
        s.params[p] = next;
        next += ls_param_elements(&table->params[p]);
    }
    s.operands.graph = s.graph;
    s.operands.batch = batch;
    s.operands.values = (const double *const *)s.values;
    s.operands.params = s.params;
    s.operands.update = update;
    s.operands.max_norm = max_norm;
    return s;
}

static inline void whole_step_destroy(whole_step *s)
{
    for (size_t i = 0; i < s->graph->count; i++) free(s->values[i]);
    free(s->values);
    free(s->params);
    free(s->weights);
    ls_graph_destroy(&s->graph);
}

/* Node `place` from those before it; rounded to binary32 when asked. */
static inline void whole_step_node(whole_step *s, int place, bool rounded)
{
    const size_t n = ls_graph_elements(s->graph, place);
    double *values = malloc(n * sizeof *values);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < n; i++) values[i] = (double)NAN;
    ck_assert_msg(ls_operation_evaluate(&s->operands, place, ls_precision_of(LS_F64, 1), values,
                                        NULL) == LS_OK,
                  "%s", ls_error_text());
    for (size_t i = 0; rounded && i < n; i++) values[i] = (double)(float)values[i];
    free(s->values[place]);
    s->values[place] = values;
}

/* The weights of a parameter, to be changed. */
static inline double *whole_step_param(const whole_step *s, size_t param)
{
    return s->weights + (s->params[param] - s->weights);
}

static inline double *whole_step_values(const whole_step *s, const char *name)
{
    const int place = ls_graph_find(s->graph, name);
    ck_assert_msg(place >= 0, "no node %s", name);
    return s->values[place];
}

/* Places where |values - truth| is not within the bound; NaN is never within. */
static inline size_t count_outside(const double *values, const double *truth, const double *bound,
                                   size_t n)
{
    size_t outside = 0;
    for (size_t i = 0; i < n; i++)
        if (!(fabs(values[i] - truth[i]) <= bound[i])) outside++;
    return outside;
}

#endif
