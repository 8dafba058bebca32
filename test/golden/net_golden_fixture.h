/* net_golden_fixture.h - golden directories of small networks, and what is in their files. */
#ifndef TEST_GOLDEN_NET_GOLDEN_FIXTURE_H
#define TEST_GOLDEN_NET_GOLDEN_FIXTURE_H

#include "../serial/net_fixture.h"
#include "io/scratch.h"
#include "lockstep/model/images.h"
#include "check/check.h"
#include "golden/dump.h"

/* A run of network number i of net_fixture.h on drawn images, or on noise where drawing does not
 * know the sizes. */
typedef struct net_run {
    ls_config config;
    ls_run run;
    net_batch batches[3];
    ls_batch given[3];
} net_run;

static inline void net_run_begin(net_run *r, size_t network, size_t B, uint64_t steps)
{
    memset(r, 0, sizeof *r);
    r->config = net_config(network);
    ls_run_defaults(&r->run, &r->config);
    r->run.batch = B;
    r->run.steps = steps;
    ck_assert_uint_le(steps, 3);
    for (uint64_t s = 0; s < steps; s++) {
        r->batches[s] = net_batch_of(&r->config, B);
        for (size_t i = 0; i < B * r->batches[s].batch.pixels; i++)
            r->batches[s].images[i] *= (float)(1 + s);
        for (size_t i = 0; i < B; i++)
            r->batches[s].labels[i] =
                (int32_t)((size_t)r->batches[s].labels[i] + s) % (int32_t)r->config.net.classes;
        r->given[s] = r->batches[s].batch;
        r->given[s].seed = r->run.seed;
        r->given[s].step = (uint32_t)s;
    }
    r->run.given = r->given;
    r->run.n_given = steps;
}

static inline void net_run_end(net_run *r)
{
    for (uint64_t s = 0; s < r->run.steps; s++) net_batch_free(&r->batches[s]);
}

static inline ls_layout net_layout_of(const char *text)
{
    ls_layout layout;
    ck_assert_msg(ls_layout_parse("--layouts", text, &layout) == LS_OK, "%s", ls_error_text());
    return layout;
}

static inline ls_dump_summary net_dump(const net_run *r, const char *path, bool truth,
                                       bool per_rank)
{
    const ls_dump_options options = {
        .whole = true, .truth = truth, .per_rank = per_rank, .collectives = per_rank};
    ls_dump_summary summary;
    ck_assert_msg(ls_dump(&r->run, path, &options, &summary) == LS_OK, "%s", ls_error_text());
    return summary;
}

#endif
