/* step_batch.c - the batch of one step, or a run of it: from the text, from the images, or given.
 */
#include <stdlib.h>
#include <string.h>

#include "lockstep/model/masked_text.h"
#include "train/training.h"
#include "base/allocate.h"
#include "base/size.h"

uint64_t ls_run_tokens(const ls_run *run)
{
    return run->config.kind == LS_MODEL_NET ? run->batch : run->batch * run->config.seq;
}

/* Numbers of one image. */
static size_t pixels_of(const ls_config *config)
{
    return config->net.channels * config->net.height * config->net.width;
}

static ls_status create_images(ls_step_batch *batch, const ls_config *config, size_t count)
{
    ls_status status = LS_OK;
    const size_t pixels = pixels_of(config);
    LS_NEW(batch->images, ls_size_product(count, pixels));
    LS_ROOM(batch->labels, count);
    batch->batch.pixels = pixels;
exit:
    return status;
}

static ls_status create_tokens(ls_step_batch *ret_batch, const ls_config *config, size_t count)
{
    ls_status status = LS_OK;
    ls_step_batch batch = *ret_batch;
    size_t n = count * config->seq;
    LS_ROOM(batch.tokens, n + 1);
    LS_ROOM(batch.targets, n + 1);
    if (config->objective == LS_MASKED_TOKEN) {
        LS_ROOM(batch.segments, n + 1);
        LS_ROOM(batch.lengths, count + 1);
        LS_ROOM(batch.order, count + 1);
    }
    batch.batch.S = config->seq;
exit:
    *ret_batch = batch;
    return status;
}

ls_status ls_step_batch_create(ls_step_batch *ret_batch, const ls_run *run, size_t first,
                               size_t count)
{
    ls_status status = LS_OK;
    ls_step_batch batch;
    memset(&batch, 0, sizeof batch);
    if (run->config.kind == LS_MODEL_NET)
        LS_TRY(create_images(&batch, &run->config, count));
    else
        LS_TRY(create_tokens(&batch, &run->config, count));
    batch.batch.B = count;
    batch.batch.first = first;
    batch.batch.tokens = batch.tokens;
    batch.batch.targets = batch.targets;
    batch.batch.segments = batch.segments;
    batch.batch.lengths = batch.lengths;
    batch.batch.order = batch.order;
    batch.batch.images = batch.images;
    batch.batch.labels = batch.labels;
    batch.batch.seed = run->seed;
    batch.batch.training = true;
    *ret_batch = batch;
    return status;
exit:
    ls_step_batch_free(&batch);
    return status;
}

ls_status ls_run_check_given(const ls_run *run, uint64_t first_step)
{
    ls_status status = LS_OK;
    if (!run->given || first_step >= run->steps) return LS_OK;
    if (run->n_given == 0 || first_step < run->given[0].step ||
        run->steps > run->given[0].step + run->n_given)
        LS_FAIL(LS_ERR_INPUT,
                "batches are given for %zu steps from %u on; steps %llu to %llu need one",
                run->n_given, run->n_given ? run->given[0].step : 0, (unsigned long long)first_step,
                (unsigned long long)run->steps - 1);
    for (size_t i = 0; i < run->n_given; i++) {
        const ls_batch *given = &run->given[i];
        const bool net = run->config.kind == LS_MODEL_NET;
        const size_t size = net ? given->pixels : given->S;
        const size_t wanted = net ? pixels_of(&run->config) : run->config.seq;
        if (given->B != run->batch || size != wanted || given->first != 0)
            LS_FAIL(LS_ERR_INPUT,
                    "the batch given for step %u is %zu x %zu; the run's are %zu x %zu",
                    given->step, given->B, size, run->batch, wanted);
        if (net && (!given->images || !given->labels))
            LS_FAIL(LS_ERR_INPUT, "the batch given for step %u has no %s", given->step,
                    given->images ? "labels" : "images");
    }
exit:
    return status;
}

static void copy_ids(int32_t *into, const int32_t *from, size_t first, size_t count, int32_t absent)
{
    for (size_t i = 0; into && i < count; i++) into[i] = from ? from[first + i] : absent;
}

/* The own sequences or images of a batch that was given. */
static void fill_from_given(ls_step_batch *batch, const ls_batch *given)
{
    const size_t first = batch->batch.first, B = batch->batch.B, S = batch->batch.S;
    copy_ids(batch->tokens, given->tokens, first * S, B * S, 0);
    copy_ids(batch->targets, given->targets, first * S, B * S, LS_IGNORE);
    copy_ids(batch->segments, given->segments, first * S, B * S, 0);
    copy_ids(batch->lengths, given->lengths, first, B, (int32_t)S);
    copy_ids(batch->order, given->order, first, B, LS_IGNORE);
    copy_ids(batch->labels, given->labels, first, B, 0);
    if (batch->images)
        memcpy(batch->images, given->images + first * given->pixels,
               B * given->pixels * sizeof *batch->images);
}

void ls_step_batch_fill(ls_step_batch *batch, const ls_run *run, uint64_t step)
{
    batch->batch.step = (uint32_t)step;
    if (run->given) {
        fill_from_given(batch, &run->given[step - run->given[0].step]);
        return;
    }
    if (run->config.kind == LS_MODEL_NET) {
        ls_images_batch(run->images, run->seed, batch->batch.step, batch->batch.first,
                        batch->batch.B, batch->images, batch->labels);
        return;
    }
    if (run->config.objective == LS_MASKED_TOKEN) {
        const ls_masked_arrays arrays = {batch->tokens, batch->targets, batch->segments,
                                         batch->lengths, batch->order};
        ls_masked_text_batch(run->text, run->seed, batch->batch.step, batch->batch.first,
                             batch->batch.B, batch->batch.S, &arrays);
        return;
    }
    ls_text_batch(run->text, run->seed, batch->batch.step, batch->batch.first, batch->batch.B,
                  batch->batch.S, batch->tokens, batch->targets);
}

void ls_step_batch_free(ls_step_batch *batch)
{
    free(batch->tokens);
    free(batch->targets);
    free(batch->segments);
    free(batch->lengths);
    free(batch->order);
    free(batch->images);
    free(batch->labels);
    memset(batch, 0, sizeof *batch);
}
