/* integers_fixture.h - a directory of integers, and the terms that its elements are sums of,
 * written down once more. */
#ifndef TEST_GOLDEN_INTEGERS_FIXTURE_H
#define TEST_GOLDEN_INTEGERS_FIXTURE_H

#include <math.h>
#include <stdlib.h>

#include "io/scratch.h"
#include "golden/dump.h"
#include "verify/observed_models.h"
#include "run_tests.h"

typedef struct fixture {
    ls_config config;
    ls_text text;
    ls_golden *golden;
    ls_dump_summary summary;
} fixture;

static inline void dump_integers(fixture *f, const ls_config *config, const char *name,
                                 uint64_t seed)
{
    f->config = *config;
    f->text = fixture_text();
    ls_run run = fixture_run(config, &f->text, 3);
    const ls_dump_options options = {.integers = true, .whole = true, .truth = true};
    run.seed = seed;
    expect_ok(ls_dump(&run, scratch_path(name), &options, &f->summary));
}

static inline void begin(fixture *f, const ls_config *config)
{
    dump_integers(f, config, "golden", 3);
    expect_ok(ls_golden_open(&f->golden, scratch_path("golden")));
}

static inline void end(fixture *f)
{
    ls_golden_close(&f->golden);
}

/* ---- values ---- */

static inline const float *values_of(const fixture *f, int node)
{
    const ls_golden_tensor *t = ls_golden_find(f->golden, 0, node);
    if (!t) ck_abort_msg("%s is missing", f->golden->graph->nodes[node].name);
    return t->values;
}

static inline const float *param_of(const fixture *f, int param)
{
    ls_dtype dtype;
    if (param < 0) return NULL;
    const float *values = ls_golden_param(f->golden, 0, param, &dtype);
    if (!values || dtype != LS_F32) ck_abort_msg("no parameter %d in binary32", param);
    return values;
}

static inline const ls_golden_tensor *tensor(const fixture *f, const char *name)
{
    const int node = ls_graph_find(f->golden->graph, name);
    ck_assert_msg(node >= 0, "no node %s", name);
    return ls_golden_find(f->golden, 0, node);
}

/* ---- the terms of an element ---- */

enum { MOST = 1 << 16 };

typedef struct terms {
    size_t count;
    double values[MOST];
} terms;

static inline void add(terms *t, double value)
{
    if (t->count == MOST) abort();
    t->values[t->count++] = value;
}

/* x W + b: inputs, outputs, and which element of the weight joins two of them. */
typedef struct product {
    size_t in, out;
    bool turned;
    const float *w, *b;
} product;

static inline product product_of(const fixture *f, const ls_graph_node *node)
{
    const ls_param *weight = &f->golden->table->params[node->params[0]];
    product m = {.turned = node->make == LS_MAKE_LOGITS};
    m.in = weight->dims[m.turned];
    m.out = weight->dims[!m.turned];
    m.w = param_of(f, node->params[0]);
    m.b = param_of(f, node->params[1]);
    return m;
}

static inline double weight_at(const product *m, size_t i, size_t j)
{
    return (double)m->w[m->turned ? j * m->in + i : i * m->out + j];
}

static inline size_t row_of(const fixture *f, int slot, size_t t)
{
    const ls_batch *batch = ls_golden_batch(f->golden, 0);
    if (slot == 0) return (size_t)batch->tokens[t];
    return slot == 1 ? t % batch->S : (size_t)batch->segments[t];
}

static inline void forward_terms(const fixture *f, const ls_graph_node *node, size_t e, terms *t)
{
    const size_t D = f->config.d_model;
    if (node->make == LS_MAKE_EMBEDDING) {
        for (int k = 0; k < LS_NODE_PARAMS; k++)
            if (node->params[k] >= 0)
                add(t, (double)param_of(f, node->params[k])[row_of(f, k, e / D) * D + e % D]);
    } else if (node->make == LS_MAKE_LINEAR || node->make == LS_MAKE_LOGITS) {
        const product m = product_of(f, node);
        const float *x = values_of(f, node->inputs[0]) + e / m.out * m.in;
        for (size_t i = 0; i < m.in; i++) add(t, (double)x[i] * weight_at(&m, i, e % m.out));
        if (m.b) add(t, (double)m.b[e % m.out]);
    } else {
        for (int k = 0; k < 2 && node->inputs[k] >= 0; k++)
            add(t, (double)values_of(f, node->inputs[k])[e]);
    }
}

static inline void gradient_terms(const fixture *f, const ls_graph_node *node, size_t e, terms *t)
{
    const ls_graph *graph = f->golden->graph;
    for (size_t r = 0; r < graph->count; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD || ls_graph_slot(reader, node->of) < 0) continue;
        const float *dy = values_of(f, ls_graph_gradient(graph, (int)r));
        if (reader->make == LS_MAKE_RESIDUAL || reader->make == LS_MAKE_DROPOUT) {
            add(t, (double)dy[e]);
            continue;
        }
        const product m = product_of(f, reader);
        for (size_t j = 0; j < m.out; j++)
            add(t, (double)dy[e / m.in * m.out + j] * weight_at(&m, e % m.in, j));
    }
}

static inline void param_terms(const fixture *f, const ls_graph_node *node, size_t e, terms *t)
{
    const ls_graph *graph = f->golden->graph;
    const size_t D = f->config.d_model;
    for (size_t r = 0; r < graph->count; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        const int slot = ls_graph_param_slot(reader, node->params[0]);
        if (reader->phase != LS_GRAPH_FORWARD || slot < 0) continue;
        if (node->of >= 0 && node->of != (int)r) continue;
        const float *dy = values_of(f, ls_graph_gradient(graph, (int)r));
        if (reader->make == LS_MAKE_EMBEDDING) {
            for (size_t k = 0; k < graph->B * graph->S; k++)
                if (row_of(f, slot, k) == e / D) add(t, (double)dy[k * D + e % D]);
            continue;
        }
        const product m = product_of(f, reader);
        const float *x = values_of(f, reader->inputs[0]);
        const size_t rows = ls_graph_elements(graph, (int)r) / m.out;
        const size_t i = m.turned ? e % m.in : e / m.out;
        const size_t j = slot == 1 ? e : m.turned ? e / m.in : e % m.out;
        for (size_t k = 0; k < rows; k++)
            add(t, (slot == 1 ? 1 : (double)x[k * m.in + i]) * (double)dy[k * m.out + j]);
    }
}

static inline void terms_of(const fixture *f, const ls_graph_node *node, size_t e, terms *t)
{
    t->count = 0;
    if (node->phase == LS_GRAPH_FORWARD)
        forward_terms(f, node, e, t);
    else if (node->make == LS_MAKE_GRADIENT)
        gradient_terms(f, node, e, t);
    else
        param_terms(f, node, e, t);
}

#endif
