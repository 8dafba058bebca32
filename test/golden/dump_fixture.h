/* dump_fixture.h - small runs that are dumped into a scratch folder. */
#ifndef TEST_GOLDEN_DUMP_FIXTURE_H
#define TEST_GOLDEN_DUMP_FIXTURE_H

#include "io/scratch.h"
#include "golden/dump.h"
#include "verify/observed_models.h"

/* One rank, whole tensors and nothing else. */
static inline ls_dump_options dump_plainly(void)
{
    ls_dump_options options = {.whole = true};
    return options;
}

static inline ls_dump_summary dump_ok(const ls_run *run, const char *path,
                                      const ls_dump_options *options)
{
    ls_dump_summary summary;
    ASSERT_OK(ls_dump(run, path, options, &summary));
    return summary;
}

static inline ls_golden *open_ok(const char *path)
{
    ls_golden *golden = NULL;
    ASSERT_OK(ls_golden_open(&golden, path));
    return golden;
}

static inline const ls_golden_tensor *tensor_ok(const ls_golden *golden, uint64_t step,
                                                const char *name)
{
    const int node = ls_graph_find(golden->graph, name);
    ck_assert_msg(node >= 0, "no node %s", name);
    const ls_golden_tensor *tensor = ls_golden_find(golden, step, node);
    ck_assert_msg(tensor != NULL, "no tensor %s of step %llu", name, (unsigned long long)step);
    return tensor;
}

#endif
