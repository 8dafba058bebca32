/* golden_small.h - the small golden directory that the tests of its reader and of candidates use.
 */
#ifndef TEST_GOLDEN_GOLDEN_SMALL_H
#define TEST_GOLDEN_GOLDEN_SMALL_H

#include "io/scratch.h"
#include "golden/golden_fixture.h"

/* All sizes different; 2 layers, 5 sequences, 11 words. */
static inline ls_config small_config(void)
{
    ls_config config;
    ASSERT_OK(ls_config_named("gpt2-nano", &config));
    config.layers = 2;
    config.heads = config.kv_heads = 2;
    config.d_model = 6;
    config.d_ff = 10;
    config.seq = 3;
    config.batch = 5;
    config.vocab = 11;
    config.dropout = 0;
    return config;
}

/* A file of scratch/golden. */
static inline const char *in_golden(const char *name)
{
    static char path[1100];
    snprintf(path, sizeof path, "%s/golden/%s", scratch_folder, name);
    return path;
}

/* An empty scratch folder with scratch/golden in it, truth and all. */
static inline void write_golden(size_t steps)
{
    const ls_config config = small_config();
    golden_fixture f;
    scratch_teardown();
    mkdir(scratch_folder, 0777);
    golden_fixture_begin(&f, &config, steps);
    f.truth = true;
    golden_fixture_write(&f, scratch_path("golden"));
    golden_fixture_end(&f);
}

/* The text of the refusal has every word. */
static inline void refused(const char *path, const char *const *words)
{
    ls_golden *golden = NULL;
    assert_says(ls_golden_open(&golden, path), LS_ERR_INPUT, words);
    ck_assert_ptr_null(golden);
}

#define REFUSED(...) refused(scratch_path("golden"), (const char *const[]){__VA_ARGS__, NULL})

#endif
