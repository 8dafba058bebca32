/* candidate_fixture.h - a candidate's files, tensor by tensor, for tests that read one.
 *
 *     candidate_file c = {0};
 *     candidate_add(&c, "step0/loss", LS_F32, 0, NULL, &loss);
 *     candidate_add_block(&c, &fixture, 0, "layers.0.query", "step0/layers.0.query", runs);
 *     candidate_say(&c, "ranks", "2");
 *     candidate_write(&c, path); */
#ifndef TEST_CHECK_CANDIDATE_FIXTURE_H
#define TEST_CHECK_CANDIDATE_FIXTURE_H

#include "golden/golden_fixture.h"

enum { CANDIDATE_MOST = 2048 };

typedef struct candidate_entry {
    char name[LS_TENSOR_NAME];
    ls_dtype dtype;
    int n_dims;
    uint64_t dims[LS_TENSOR_MAX_DIMS];
    size_t count;
    void *bytes;
} candidate_entry;

typedef struct candidate_file {
    size_t count, said;
    candidate_entry entries[CANDIDATE_MOST];
    char keys[CANDIDATE_MOST][LS_TENSOR_NAME + 8], values[CANDIDATE_MOST][200];
} candidate_file;

static inline void candidate_say(candidate_file *c, const char *key, const char *value)
{
    ck_assert_uint_lt(c->said, CANDIDATE_MOST);
    snprintf(c->keys[c->said], sizeof c->keys[0], "%s", key);
    snprintf(c->values[c->said++], sizeof c->values[0], "%s", value);
}

static inline void candidate_add(candidate_file *c, const char *name, ls_dtype dtype, int n_dims,
                                 const uint64_t *dims, const double *values)
{
    ck_assert_uint_lt(c->count, CANDIDATE_MOST);
    candidate_entry *e = &c->entries[c->count++];
    snprintf(e->name, sizeof e->name, "%s", name);
    e->dtype = dtype;
    e->n_dims = n_dims;
    e->count = 1;
    for (int d = 0; d < n_dims; d++) {
        e->dims[d] = dims[d];
        e->count *= dims[d];
    }
    e->bytes = dtype == LS_I32 || dtype == LS_U8 || dtype == LS_I64
                   ? calloc(e->count + 1, 8)
                   : fixture_round(values, e->count, dtype);
}

/* first and end of each dimension of a node, in order. */
typedef size_t block_runs[LS_NODE_DIMS][2];

/* The block's values; the caller frees them. */
static inline double *candidate_block(const golden_fixture *f, size_t step, const char *node_name,
                                      const block_runs runs, uint64_t dims[LS_NODE_DIMS])
{
    const int place = fixture_node(f, node_name);
    const ls_graph_node *node = &f->graph->nodes[place];
    size_t count = 1;
    for (int d = 0; d < node->n_dims; d++) {
        dims[d] = runs[d][1] - runs[d][0];
        count *= dims[d];
    }
    double *values = malloc((count + 1) * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        size_t rest = i, from = 0, stride = 1;
        for (int d = node->n_dims - 1; d >= 0; d--) {
            from += (runs[d][0] + rest % dims[d]) * stride;
            rest /= dims[d];
            stride *= node->dims[d];
        }
        values[i] = f->values[step][place][from];
    }
    return values;
}

/* A block of a fixture's tensor, in the fixture's dtype. */
static inline void candidate_add_block(candidate_file *c, const golden_fixture *f, size_t step,
                                       const char *node_name, const char *name,
                                       const block_runs runs)
{
    uint64_t dims[LS_NODE_DIMS];
    const size_t place = (size_t)fixture_node(f, node_name);
    double *values = candidate_block(f, step, node_name, runs, dims);
    candidate_add(c, name, fixture_dtype(f, place), f->graph->nodes[place].n_dims, dims, values);
    free(values);
}

/* The whole of a fixture's tensor, in any dtype. */
static inline void candidate_add_whole(candidate_file *c, const golden_fixture *f, size_t step,
                                       const char *node_name, const char *name, ls_dtype dtype)
{
    const int place = fixture_node(f, node_name);
    const ls_graph_node *node = &f->graph->nodes[place];
    uint64_t dims[LS_NODE_DIMS] = {0};
    for (int d = 0; d < node->n_dims; d++) dims[d] = node->dims[d];
    candidate_add(c, name, dtype, node->n_dims, dims, f->values[step][place]);
}

/* Says which runs of a tensor it holds. */
static inline void candidate_say_cut(candidate_file *c, const char *name, int n_dims,
                                     const block_runs runs)
{
    char key[LS_TENSOR_NAME + 8], value[200] = "";
    size_t used = 0;
    snprintf(key, sizeof key, "cut:%s", name);
    for (int d = 0; d < n_dims; d++)
        used += (size_t)snprintf(value + used, sizeof value - used, "%s%zu:%zu", d ? " " : "",
                                 runs[d][0], runs[d][1]);
    candidate_say(c, key, value);
}

/* Writes the file and forgets all of it. */
static inline void candidate_write(candidate_file *c, const char *path)
{
    ls_safetensors_writer *writer = NULL;
    fixture_ok(ls_safetensors_create(&writer, path));
    for (size_t i = 0; i < c->said; i++)
        fixture_ok(ls_safetensors_add_metadata(writer, c->keys[i], c->values[i]));
    for (size_t i = 0; i < c->count; i++)
        fixture_ok(ls_safetensors_declare(writer, c->entries[i].name, c->entries[i].dtype,
                                          c->entries[i].n_dims, c->entries[i].dims));
    for (size_t i = 0; i < c->count; i++) {
        fixture_ok(ls_safetensors_write(writer, c->entries[i].bytes,
                                        c->entries[i].count * ls_dtype_bytes(c->entries[i].dtype)));
        free(c->entries[i].bytes);
    }
    fixture_ok(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
    c->count = c->said = 0;
}

#endif
