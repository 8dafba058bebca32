/* candidate_small.h - what the tests of candidates have in common: a small golden directory, open,
 * and an empty folder for a candidate beside it. */
#ifndef TEST_CHECK_CANDIDATE_SMALL_H
#define TEST_CHECK_CANDIDATE_SMALL_H

#include <sys/stat.h>
#include <unistd.h>

#include "io/scratch.h"
#include "check/candidate.h"
#include "check/candidate_fixture.h"

/* All sizes different; 4 heads, 2 key and value heads, 5 sequences, 11 words. */
static inline ls_config candidate_config(const char *name)
{
    ls_config config;
    ASSERT_OK(ls_config_named(name, &config));
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = strcmp(name, "llama-nano") == 0 ? 2 : 4;
    config.d_model = 8;
    config.d_ff = 12;
    config.seq = 6;
    config.batch = 5;
    config.vocab = 11;
    config.dropout = 0;
    return config;
}

/* A golden directory, open, beside what it was made of, and a file to be written; one per test. */
static golden_fixture f;
static ls_golden *golden;
static candidate_file c;

static inline void begin_with(const ls_config *config, size_t steps, void (*set)(golden_fixture *))
{
    scratch_teardown(); /* what the test before left */
    mkdir(scratch_folder, 0777);
    golden_fixture_begin(&f, config, steps);
    if (set) set(&f);
    golden_fixture_write(&f, scratch_path("golden"));
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
    /* A folder that is empty. */
    mkdir(scratch_path("candidate"), 0777);
}

static inline void begin(size_t steps)
{
    const ls_config config = candidate_config("gpt2-nano");
    begin_with(&config, steps, NULL);
}

static inline void end(void)
{
    ls_golden_close(&golden);
    golden_fixture_end(&f);
}

/* A file in the candidate's folder. */
static inline const char *in(const char *name)
{
    static char path[4][1100];
    static int turn;
    char *own = path[turn++ % 4];
    snprintf(own, sizeof path[0], "%s/candidate/%s", scratch_folder, name);
    return own;
}

static inline ls_candidate *open_it(const char *map)
{
    ls_candidate *candidate = NULL;
    ASSERT_OK(ls_candidate_open(&candidate, golden, scratch_path("candidate"), map));
    return candidate;
}

/* It is refused, and the text has every word. */
#define REFUSED_AS(code, ...)                                                                      \
    do {                                                                                           \
        ls_candidate *refused = NULL;                                                              \
        ASSERT_SAYS(ls_candidate_open(&refused, golden, scratch_path("candidate"), NULL), (code),  \
                    __VA_ARGS__);                                                                  \
        ck_assert_ptr_null(refused);                                                               \
    } while (0)
#define REFUSED(...) REFUSED_AS(LS_ERR_INPUT, __VA_ARGS__)

/* The candidate has a tensor of the fixture's, bit for bit in `dtype`. */
static inline const ls_candidate_tensor *expect(const ls_candidate *candidate, size_t step,
                                                const char *node_name, ls_dtype dtype)
{
    const int node = fixture_node(&f, node_name);
    const ls_candidate_tensor *t = ls_candidate_find(candidate, step, node);
    ck_assert_msg(t != NULL, "step %zu: no %s", step, node_name);
    ck_assert_int_eq(t->dtype, dtype);
    ck_assert_ptr_eq(t->golden, ls_golden_find(golden, step, node));
    void *bytes = fixture_round(f.values[step][node], t->golden->count, dtype);
    ck_assert_msg(memcmp(bytes, t->values, t->golden->count * ls_dtype_bytes(dtype)) == 0,
                  "%s has other values", node_name);
    free(bytes);
    return t;
}

#endif
