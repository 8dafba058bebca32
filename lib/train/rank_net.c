/* rank_net.c - a rank's part of a convolutional network. Its blocks, sums and exchanges are
 * ls_sharded_net's; here is what the training loop asks for. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/comm/trace.h"
#include "lockstep/numerics/digest.h"
#include "lockstep/parallel/spatial/sharded_net.h"
#include "train/rank_model.h"
#include "base/allocate.h"

enum { DIGITS = 64 }; /* of a digest */

typedef struct net {
    ls_rank_model base;
    ls_rank *rank;
    ls_group *world;
    ls_sharded_net *net;
    ls_share *runs;  /* of every rank: the images that it reads */
    size_t *starts;  /* where a rank's digests begin in `all`, in digits */
    char *own, *all; /* digests of images, one after another */
} net;

static net *of(ls_rank_model *m)
{
    return (net *)m;
}

/* ---- images that several ranks read ---- */

/* Who reads which. */
static ls_status gather_runs(net *n)
{
    ls_status status = LS_OK;
    const size_t ranks = (size_t)ls_group_size(n->world);
    const ls_share run = n->base.samples;
    const int64_t own[2] = {(int64_t)run.first, (int64_t)run.count};
    int64_t *all = NULL;
    size_t *starts = NULL;

    LS_NEW(n->runs, ranks);
    LS_NEW(n->starts, ranks + 1);
    LS_NEW(all, 2 * ranks);
    LS_NEW(starts, ranks + 1);
    for (size_t r = 0; r <= ranks; r++) starts[r] = 2 * r;
    LS_TRY(ls_all_gather(n->world, all, own, starts, LS_I64));
    for (size_t r = 0; r < ranks; r++) {
        n->runs[r] = (ls_share){(size_t)all[2 * r], (size_t)all[2 * r + 1]};
        n->starts[r + 1] = n->starts[r] + n->runs[r].count * DIGITS;
    }
    LS_NEW(n->own, run.count * DIGITS + 1);
    LS_NEW(n->all, n->starts[ranks]);
exit:
    free(all);
    free(starts);
    return status;
}

static ls_status digest_image(const ls_batch *batch, size_t i, char hex[DIGITS + 1])
{
    ls_status status = LS_OK;
    ls_digest *digest = NULL;
    LS_TRY(ls_digest_create(&digest));
    LS_TRY(ls_digest_add(digest, LS_F32, batch->images + i * batch->pixels, batch->pixels));
    LS_TRY(ls_digest_add(digest, LS_I32, &batch->labels[i], 1));
    LS_TRY(ls_digest_finish(digest, hex));
exit:
    ls_digest_destroy(&digest);
    return status;
}

/* The digest of an image as rank r has it; NULL: it does not read that one. */
static const char *digest_at(const net *n, size_t r, size_t image)
{
    const ls_share run = n->runs[r];
    if (image < run.first || image >= run.first + run.count) return NULL;
    return n->all + n->starts[r] + (image - run.first) * DIGITS;
}

/* The image and its label must be the same wherever they are read. */
static ls_status check_batch(ls_rank_model *m, ls_step_batch *batch)
{
    ls_status status = LS_OK;
    net *n = of(m);
    const size_t ranks = (size_t)ls_group_size(n->world), own = (size_t)ls_group_rank(n->world);
    const ls_share run = m->samples;
    for (size_t i = 0; i < run.count; i++)
        LS_TRY(digest_image(&batch->batch, i, n->own + i * DIGITS));
    LS_TRY(ls_all_gather(n->world, n->all, n->own, n->starts, LS_U8));
    for (size_t image = run.first; image < run.first + run.count; image++)
        for (size_t r = 0; r < ranks; r++) {
            const char *other = digest_at(n, r, image);
            if (other && memcmp(other, digest_at(n, own, image), DIGITS) != 0)
                LS_FAIL(LS_ERR_RANK,
                        "image %zu of the batch of step %u, or its label, is not the same on ranks "
                        "%zu and %zu, which both read it",
                        image, batch->batch.step, r < own ? r : own, r < own ? own : r);
        }
exit:
    return status;
}

/* ---- a step ---- */

static ls_status gradients(ls_rank_model *m, const ls_batch *batch, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    net *n = of(m);
    /* One stage, one micro-batch. */
    ls_trace_task(n->rank, "forward", (int)batch->step, 0, 0);
    LS_TRY(ls_sharded_net_forward(n->net, batch, ret_loss));
    ls_trace_task(n->rank, "backward", (int)batch->step, 0, 0);
    LS_TRY(ls_sharded_net_backward(n->net));
    ls_trace_task(n->rank, "reduce", (int)batch->step, -1, -1); /* the norm */
exit:
    return status;
}

static void destroy(ls_rank_model *m)
{
    net *n = of(m);
    ls_sharded_net_destroy(&n->net);
    free(n->runs);
    free(n->starts);
    free(n->own);
    free(n->all);
    free(n);
}

static const ls_rank_model_operations operations = {check_batch, gradients, destroy};

ls_status ls_rank_net_create(ls_rank_model **ret_model, const ls_rank_model_setup *setup,
                             ls_store *store)
{
    ls_status status = LS_OK;
    const ls_run *run = setup->run;
    ls_group *world = ls_rank_world_group(setup->rank);
    const ls_sharded_net_setup sharded = {world, &run->layout, run->engine, run->batch,
                                          run->observer};
    net *n = NULL;

    LS_NEW(n, 1);
    n->base = (ls_rank_model){.operations = &operations, .holders = world};
    n->rank = setup->rank;
    n->world = world;
    LS_TRY(ls_sharded_net_create(&n->net, &sharded, store));
    n->base.samples = ls_sharded_net_samples(n->net);
    LS_TRY(gather_runs(n));
    *ret_model = &n->base;
    n = NULL;
exit:
    if (n) destroy(&n->base);
    return status;
}
