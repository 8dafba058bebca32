/* net_cause_fixture.h - candidates of a network of which one tensor is wrong, and what the
 * judgement says of them. */
#ifndef TEST_CAUSES_NET_CAUSE_FIXTURE_H
#define TEST_CAUSES_NET_CAUSE_FIXTURE_H

#include "lockstep/io/safetensors.h"
#include "lockstep/partition/share.h"
#include "causes/findings.h"
#include "golden/net_golden_fixture.h"

static ls_golden *golden;

/* ---- candidates ---- */

typedef struct tensor {
    const char *name;
    const float *values; /* NULL: the golden ones */
    int rank;            /* -1: of all */
} tensor;

static inline const ls_golden_tensor *golden_tensor(const char *name)
{
    const int node = ls_graph_find(golden->graph, name);
    ck_assert_msg(node >= 0, "no node %s", name);
    return ls_golden_find(golden, 0, node);
}

static inline const ls_graph_node *node_of(const char *name)
{
    return &golden->graph->nodes[ls_graph_find(golden->graph, name)];
}

static inline const float *values_of(const char *name)
{
    return golden_tensor(name)->values;
}

static inline const float *param_of(const char *name)
{
    ls_dtype dtype;
    const size_t place = ls_param_find_name(golden->table, name);
    ck_assert_uint_ne(place, (size_t)-1);
    return ls_golden_param(golden, 0, (int)place, &dtype);
}

static inline void write_file(const char *path, const tensor *tensors, size_t n, int rank,
                              int ranks)
{
    ls_safetensors_writer *writer = NULL;
    char text[32];
    ASSERT_OK(ls_safetensors_create(&writer, path));
    if (rank >= 0) {
        snprintf(text, sizeof text, "%d", rank);
        ASSERT_OK(ls_safetensors_add_metadata(writer, "rank", text));
        snprintf(text, sizeof text, "%d", ranks);
        ASSERT_OK(ls_safetensors_add_metadata(writer, "ranks", text));
    }
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n; i++) {
            const ls_graph_node *node = node_of(tensors[i].name);
            uint64_t dims[4];
            if (tensors[i].rank >= 0 && tensors[i].rank != rank) continue;
            for (int d = 0; d < node->n_dims; d++) dims[d] = node->dims[d];
            if (pass == 0)
                ASSERT_OK(
                    ls_safetensors_declare(writer, tensors[i].name, LS_F32, node->n_dims, dims));
            else
                ASSERT_OK(ls_safetensors_write(
                    writer, tensors[i].values ? tensors[i].values : values_of(tensors[i].name),
                    golden_tensor(tensors[i].name)->count * sizeof(float)));
        }
    ASSERT_OK(ls_safetensors_commit(writer));
}

static inline void judged(const char *path, const char *wrong, ls_cause cause, const char *evidence)
{
    ls_candidate *candidate = NULL;
    ls_judgement *judgement = NULL;
    ls_findings *findings = NULL;
    ASSERT_OK(ls_candidate_open(&candidate, golden, path, NULL));
    ASSERT_OK(ls_check(&judgement, golden, candidate, NULL));
    ASSERT_OK(ls_findings_create(&findings, judgement));
    if (cause == LS_CAUSE_NONE && !wrong) {
        ck_assert_uint_eq(judgement->different, 0);
    } else {
        ck_assert_uint_ge(findings->count, 1);
        const ls_finding *finding = &findings->list[0];
        ck_assert_msg(strstr(finding->tensor->golden->name, wrong) != NULL, "%s, not %s",
                      finding->tensor->golden->name, wrong);
        ck_assert_msg(finding->suspicion.cause == cause, "%s: \"%s\" (%s), not \"%s\"", wrong,
                      ls_mistake_of(finding->suspicion.cause)->sentence,
                      finding->suspicion.evidence, ls_mistake_of(cause)->sentence);
        ck_assert_msg(strstr(finding->suspicion.evidence, evidence) != NULL, "no \"%s\" in \"%s\"",
                      evidence, finding->suspicion.evidence);
        ck_assert_uint_eq(findings->count, 1);
    }
    ls_findings_destroy(&findings);
    ls_judgement_destroy(&judgement);
    ls_candidate_close(&candidate);
}

/* An empty folder. */
static inline void begin_candidate(void)
{
    nftw(scratch_path("mine"), scratch_remove, 8, FTW_DEPTH | FTW_PHYS);
    ck_assert_int_eq(mkdir(scratch_path("mine"), 0777), 0);
}

/* A whole candidate. */
static inline void judge(const tensor *tensors, size_t n, const char *wrong, ls_cause cause,
                         const char *evidence)
{
    begin_candidate();
    write_file(scratch_path("mine/all.safetensors"), tensors, n, -1, 0);
    judged(scratch_path("mine"), wrong, cause, evidence);
}

static inline float *room_of(const char *name)
{
    float *values = malloc(golden_tensor(name)->count * sizeof *values);
    ck_assert_ptr_nonnull(values);
    return values;
}

/* ---- what a rank has ---- */

static inline size_t cut_at(size_t extent, size_t granules, size_t blocks, size_t at)
{
    size_t first = 0;
    for (size_t b = 0; b < at; b++) first += ls_share_of(granules, blocks, b).count;
    return first * extent / granules;
}

/* ---- fixtures ---- */

static net_run run_of_all;

/* Once for all tests of a case, which are forked. */
static inline void open_net(size_t number, size_t B)
{
    scratch_setup();
    net_run_begin(&run_of_all, number, B, 1);
    net_dump(&run_of_all, scratch_path("golden"), true, false);
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
}

static inline void close_net(void)
{
    ls_golden_close(&golden);
    net_run_end(&run_of_all);
    scratch_teardown();
}

#endif
