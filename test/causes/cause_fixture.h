/* cause_fixture.h - a step's tensors, right and rounded to binary32, in which tests put mistakes by
 * plain arithmetic of their own; what ls_cause_find then says. */
#ifndef TEST_CAUSES_CAUSE_FIXTURE_H
#define TEST_CAUSES_CAUSE_FIXTURE_H

#include "step_graph/graph_evaluation.h"
#include "lockstep/numerics/random.h"
#include "causes/cause.h"

typedef enum kind { GPT2 = 0, LLAMA, BERT, ROW_FIRST, KINDS } kind;

enum { B = 6, S = 12, D = 24, H = 6, DH = 4, F = 60, V = 263, LAYERS = 2 };

typedef struct scene {
    ls_config config;
    ls_param_table *table;
    int32_t tokens[B * S], targets[B * S], segments[B * S], lengths[B], order[B];
    ls_batch batch;
    ls_update update;
    whole_step step;
    ls_golden golden;
    bool upstream; /* the node's inputs are the golden ones: the mistake may lie before it */
    double slack;  /* then: of every bound */
    ls_cause hint; /* ls_case's */
    bool brief;
    uint64_t at;     /* step of the case */
    ls_dtype format; /* of the candidate: LS_F32 or LS_BF16 */
} scene;

/* The number of 8 significant bits that is nearest to value, the even one of two. */
static inline double nearest_bf16(double value)
{
    const int exponent = value == 0 ? 0 : ilogb(value);
    return ldexp(rint(ldexp(value, 7 - exponent)), exponent - 7);
}

static inline double as_written(const scene *s, double value)
{
    return s->format == LS_BF16 ? nearest_bf16(value) : (double)(float)value;
}

static inline ls_config kind_config(kind k)
{
    ls_config c = k == LLAMA  ? tiny_llama("llama")
                  : k == BERT ? tiny_bert("bert", LS_NORM_POST)
                              : tiny_base(k == ROW_FIRST ? "row-first" : "gpt2");
    c.layers = LAYERS, c.d_model = D, c.heads = H, c.kv_heads = k == LLAMA ? 2 : H;
    c.d_ff = F, c.seq = S, c.vocab = V, c.batch = B, c.dropout = 0.1, c.norm_eps = 1e-5;
    if (k == ROW_FIRST) c.mlp_cut = LS_MLP_ROW_FIRST;
    return c;
}

/* Targets are left out unevenly: sequence b lacks b of them and every seventh. */
static inline void fill_batch(scene *s)
{
    uint64_t state = 815;
    for (size_t t = 0; t < B * S; t++) {
        s->tokens[t] = (int32_t)(fabs((double)reference_noise(&state)) * 1e5) % V;
        s->targets[t] = (int32_t)(fabs((double)reference_noise(&state)) * 1e5) % V;
        if (t % S < t / S || t % 7 == 3) s->targets[t] = LS_IGNORE;
        s->segments[t] = t % S > 5;
    }
    for (size_t b = 0; b < B; b++) s->lengths[b] = (int32_t)(S - b), s->order[b] = b % 2;
    const ls_batch batch = {.B = B,
                            .S = S,
                            .tokens = s->tokens,
                            .targets = s->targets,
                            .seed = 99,
                            .step = 5,
                            .training = true};
    s->batch = batch;
    if (s->config.objective != LS_MASKED_TOKEN) return;
    s->batch.segments = s->segments, s->batch.lengths = s->lengths, s->batch.order = s->order;
}

static inline void scene_begin_with(scene *s, const ls_config *config)
{
    const ls_update update = {.optimizer = LS_ADAMW,
                              .lr = 1e-3,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-8,
                              .weight_decay = 0.1,
                              .t = 1};
    memset(s, 0, sizeof *s);
    s->config = *config;
    ck_assert_msg(ls_param_table_create(&s->table, &s->config) == LS_OK, "%s", ls_error_text());
    fill_batch(s);
    s->update = update;
    s->step = whole_step_create(s->table, &s->batch, &s->update, 0.5);
    for (size_t i = 0; i < s->step.graph->count; i++) whole_step_node(&s->step, (int)i, true);
    s->golden.table = s->table;
    s->golden.graph = s->step.graph;
    s->golden.run.config = s->config;
    s->golden.run.layout = ls_layout_serial();
}

static inline void scene_begin(scene *s, kind k)
{
    const ls_config config = kind_config(k);
    scene_begin_with(s, &config);
}

static inline void scene_end(scene *s)
{
    whole_step_destroy(&s->step);
    ls_param_table_destroy(&s->table);
}

static inline int node_of(const scene *s, const char *name)
{
    const int place = ls_graph_find(s->step.graph, name);
    ck_assert_msg(place >= 0, "no node %s", name);
    return place;
}

static inline const double *value(const scene *s, const char *name)
{
    return s->step.values[node_of(s, name)];
}

static inline size_t count_of(const scene *s, const char *name)
{
    return ls_graph_elements(s->step.graph, node_of(s, name));
}

/* A parameter by name. */
static inline const double *param(const scene *s, const char *name)
{
    const size_t place = ls_param_find_name(s->table, name);
    ck_assert_msg(place != (size_t)-1, "no parameter %s", name);
    return s->step.params[place];
}

/* A copy of a node's values; the caller frees it. */
static inline double *copy_of(const scene *s, const char *name)
{
    const size_t n = count_of(s, name);
    double *copy = malloc(n * sizeof *copy);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, value(s, name), n * sizeof *copy);
    return copy;
}

static inline double *zeros(size_t n)
{
    double *z = calloc(n, sizeof *z);
    ck_assert_ptr_nonnull(z);
    return z;
}

/* What is said of `values` in the place of a node, rounded to the scene's format; they must be
 * wrong unless `right` is set. whole: the candidate's layout; may be NULL. */
static inline ls_suspicion suspicion_of(const scene *s, const char *name, const double *values,
                                        const ls_candidate *whole,
                                        const ls_candidate_tensor *as_given, bool may_be_right)
{
    const int place = node_of(s, name);
    const size_t n = count_of(s, name);
    double *room = malloc(3 * n * sizeof *room);
    double *candidate = room, *right = room + n, *bound = room + 2 * n;
    ls_suspicion found;
    ck_assert_ptr_nonnull(room);
    const ls_precision precision = ls_precision_of(s->format, 8);
    for (size_t i = 0; i < n; i++) candidate[i] = as_written(s, values[i]);
    ck_assert_msg(ls_operation_evaluate(&s->step.operands, place, precision, right, bound) == LS_OK,
                  "%s", ls_error_text());
    for (size_t i = 0; s->upstream && i < n; i++) bound[i] += s->slack;
    if (!may_be_right)
        ck_assert_msg(count_outside(candidate, right, bound, n) > 0, "%s: nothing is wrong", name);
    const ls_case of = {.golden = &s->golden,
                        .step = s->at,
                        .node = place,
                        .operands = s->step.operands,
                        .own_inputs = !s->upstream,
                        .precision = precision,
                        .candidate = candidate,
                        .right = right,
                        .bound = bound,
                        .as_given = as_given,
                        .whole = whole,
                        .hint = s->hint,
                        .brief = s->brief};
    memset(&found, 0xff, sizeof found);
    ck_assert_msg(ls_cause_find(&of, &found) == LS_OK, "%s", ls_error_text());
    free(room);
    return found;
}

static inline void expect_found(const scene *s, const char *name, ls_suspicion found,
                                ls_cause cause, const char *evidence)
{
    ck_assert_msg(found.cause == cause, "%s: %s is called '%s' (%s), not '%s'", s->config.name,
                  name, ls_mistake_of(found.cause)->sentence, found.evidence,
                  ls_mistake_of(cause)->sentence);
    if (evidence)
        ck_assert_msg(strstr(found.evidence, evidence) != NULL, "%s: '%s' is not in '%s'", name,
                      evidence, found.evidence);
    if (getenv("LS_TEST_SHOW"))
        printf("%s %s: %s: %s (also %zu)\n", s->config.name, name,
               ls_mistake_of(found.cause)->sentence, found.evidence, found.also);
}

/* Names the values' mistake, and frees them. */
static inline void expect_cause(const scene *s, const char *name, double *values, ls_cause cause,
                                const char *evidence)
{
    expect_found(s, name, suspicion_of(s, name, values, NULL, NULL, false), cause, evidence);
    free(values);
}

#endif
