/* golden_batch.c - the batches of a golden directory: every id where it may be. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "golden/golden_files.h"
#include "step_graph/tensor_name.h"
#include "base/allocate.h"

/* One kind of ids in a batch. */
typedef struct ids {
    const char *name;
    bool needed, per_token; /* [B, S]; else [B] */
    int32_t least;
    int64_t end; /* least <= id < end       */
    bool ignore; /* or LS_IGNORE            */
    const int32_t **into;
} ids;

static ls_status check_ids(const ids *kind, const ls_tensor_info *info, const int32_t *values,
                           const char *path)
{
    ls_status status = LS_OK;
    for (uint64_t i = 0; i < info->elements; i++) {
        if ((values[i] >= kind->least && values[i] < kind->end) ||
            (kind->ignore && values[i] == LS_IGNORE))
            continue;
        LS_FAIL(LS_ERR_INPUT,
                "%s: %s holds %d at element %" PRIu64 "; allowed are %d to %" PRId64 "%s",
                ls_show(path), ls_show(info->name), (int)values[i], i, (int)kind->least,
                kind->end - 1, kind->ignore ? ", and -100 for none" : "");
    }
exit:
    return status;
}

static ls_status read_ids(ls_golden_files *files, const ls_golden_file *file, const ids *kind,
                          const ls_batch *batch)
{
    ls_status status = LS_OK;
    char name[LS_TENSOR_NAME], found[LS_GOLDEN_SHAPE], wanted[LS_GOLDEN_SHAPE];
    const uint64_t dims[2] = {batch->B, batch->S};
    const int n_dims = kind->per_token ? 2 : 1;
    const void *values;
    ls_tensor_name_write(name, batch->step, -1, kind->name);
    const ls_tensor_info *info = ls_safetensors_find(file->file, name);
    if (!info && !kind->needed) goto exit;
    if (!info) LS_FAIL(LS_ERR_INPUT, "%s: has no tensor %s", ls_show(file->path), name);
    if (info->dtype != LS_I32)
        LS_FAIL(LS_ERR_INPUT, "%s: %s is %s; must be I32", ls_show(file->path), name,
                ls_dtype_name(info->dtype));
    if (info->n_dims != n_dims || memcmp(info->dims, dims, sizeof *dims * (size_t)n_dims) != 0)
        LS_FAIL(LS_ERR_INPUT, "%s: %s has the shape %s; the manifest's batch makes it %s",
                ls_show(file->path), name, ls_golden_shape(info->n_dims, info->dims, found),
                ls_golden_shape(n_dims, dims, wanted));
    LS_TRY(ls_golden_aligned(files, info, &values));
    LS_TRY(check_ids(kind, info, values, file->path));
    *kind->into = values;
exit:
    return status;
}

/* A network's images: numbers, which must be finite. */
static ls_status read_images(ls_golden_files *files, const ls_golden_file *file, const ls_net *net,
                             ls_batch *batch)
{
    ls_status status = LS_OK;
    char name[LS_TENSOR_NAME], found[LS_GOLDEN_SHAPE], wanted[LS_GOLDEN_SHAPE];
    const uint64_t dims[4] = {batch->B, net->channels, net->height, net->width};
    const void *values;
    ls_tensor_name_write(name, batch->step, -1, "images");
    const ls_tensor_info *info = ls_safetensors_find(file->file, name);
    if (!info) LS_FAIL(LS_ERR_INPUT, "%s: has no tensor %s", ls_show(file->path), name);
    if (info->dtype != LS_F32)
        LS_FAIL(LS_ERR_INPUT, "%s: %s is %s; must be F32", ls_show(file->path), name,
                ls_dtype_name(info->dtype));
    if (info->n_dims != 4 || memcmp(info->dims, dims, sizeof dims) != 0)
        LS_FAIL(LS_ERR_INPUT, "%s: %s has the shape %s; the manifest's batch makes it %s",
                ls_show(file->path), name, ls_golden_shape(info->n_dims, info->dims, found),
                ls_golden_shape(4, dims, wanted));
    LS_TRY(ls_golden_aligned(files, info, &values));
    batch->images = values;
    batch->pixels = net->channels * net->height * net->width;
    for (size_t i = 0; i < batch->B * batch->pixels; i++)
        if (!isfinite(batch->images[i]))
            LS_FAIL(LS_ERR_INPUT, "%s: %s holds %g at element %zu; pixels are finite numbers",
                    ls_show(file->path), name, (double)batch->images[i], i);
exit:
    return status;
}

ls_status ls_golden_read_batches(ls_golden *golden)
{
    ls_status status = LS_OK;
    ls_golden_files *files = golden->files;
    const ls_config *config = &golden->run.config;
    const bool masked = config->objective == LS_MASKED_TOKEN;
    const bool net = config->kind == LS_MODEL_NET;
    ls_golden_file *file;
    if (golden->kind == LS_GOLDEN_INTEGERS && !ls_golden_listed(files, "batch.safetensors"))
        return LS_OK;
    LS_TRY(ls_golden_check_listed(files, "batch.safetensors"));
    LS_TRY(ls_golden_file_of(files, "batch.safetensors", &file));
    if (golden->steps > ls_safetensors_count(file->file))
        LS_FAIL(LS_ERR_INPUT, "%s: has %zu tensors; the manifest's %zu steps need two each",
                ls_show(file->path), ls_safetensors_count(file->file), golden->steps);
    LS_NEW(files->batches, golden->steps);
    for (size_t s = 0; s < golden->steps; s++) {
        ls_batch *batch = &files->batches[s];
        batch->B = golden->run.batch;
        batch->S = config->seq;
        batch->step = (uint32_t)(golden->first_step + s);
        batch->seed = golden->run.seed;
        batch->training = true;
        const int64_t V = (int64_t)config->vocab;
        const int64_t types = config->token_types ? (int64_t)config->token_types : 1;
        const ids kinds[] = {
            {"tokens", true, true, 0, V, false, &batch->tokens},
            {"targets", true, true, 0, V, true, &batch->targets},
            {"segments", false, true, 0, types, false, &batch->segments},
            {"lengths", false, false, 1, (int64_t)batch->S + 1, false, &batch->lengths},
            {"order", false, false, 0, 2, true, &batch->order},
        };
        const ids labels = {"labels", true,          false, 0, (int64_t)config->net.classes,
                            false,    &batch->labels};
        for (int k = 0; !net && k < (masked ? 5 : 2); k++)
            LS_TRY(read_ids(files, file, &kinds[k], batch));
        if (net) LS_TRY(read_images(files, file, &config->net, batch));
        if (net) LS_TRY(read_ids(files, file, &labels, batch));
    }
    golden->run.given = files->batches;
    golden->run.n_given = golden->steps;
exit:
    return status;
}
