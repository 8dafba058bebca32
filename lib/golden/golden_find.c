/* golden_find.c - what is asked of an open golden directory. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "lockstep/numerics/digest.h"
#include "golden/golden_files.h"

const ls_golden_tensor *ls_golden_find(const ls_golden *golden, uint64_t step, int node)
{
    /* They stand sorted by step, then node. */
    size_t low = 0, high = golden->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const ls_golden_tensor *tensor = &golden->tensors[middle];
        if (tensor->step == step && tensor->node == node) return tensor;
        if (tensor->step < step || (tensor->step == step && tensor->node < node))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const ls_batch *ls_golden_batch(const ls_golden *golden, uint64_t step)
{
    if (step < golden->first_step || step - golden->first_step >= golden->run.n_given) return NULL;
    return &golden->run.given[step - golden->first_step];
}

/* Place of the node "param.NAME". */
static int updated(const ls_golden *golden, int param)
{
    const ls_view after = {.kind = LS_VIEW_PARAM, .param = param};
    return ls_graph_find_view(golden->graph, &after);
}

const void *ls_golden_param(const ls_golden *golden, uint64_t step, int param, ls_dtype *ret_dtype)
{
    if (step == golden->first_step) {
        const ls_golden_files *files = golden->files;
        *ret_dtype = files->dtypes[0][param];
        return files->params[0][param];
    }
    if (step < golden->first_step) return NULL;
    const ls_golden_tensor *tensor = ls_golden_find(golden, step - 1, updated(golden, param));
    if (!tensor) return NULL;
    *ret_dtype = tensor->dtype;
    return tensor->values;
}

const void *ls_golden_moment(const ls_golden *golden, int param, int which, ls_dtype *ret_dtype)
{
    const ls_golden_files *files = golden->files;
    *ret_dtype = files->dtypes[1 + which][param];
    return files->params[1 + which][param];
}

ls_status ls_golden_verify(const ls_golden *golden, void (*advance)(void *, size_t bytes),
                           void *context)
{
    enum { CHUNK = 1 << 18 };
    ls_status status = LS_OK;
    ls_digest *digest = NULL;
    char found[65];
    for (size_t i = 0; i < golden->count; i++) {
        const ls_golden_tensor *tensor = &golden->tensors[i];
        const size_t bytes = ls_dtype_bytes(tensor->dtype);
        LS_TRY(ls_digest_create(&digest));
        for (size_t done = 0; done < tensor->count; done += CHUNK) {
            const size_t n = tensor->count - done < CHUNK ? tensor->count - done : CHUNK;
            LS_TRY(ls_digest_add(digest, tensor->dtype,
                                 (const unsigned char *)tensor->values + done * bytes, n));
            if (advance) advance(context, n * bytes);
        }
        LS_TRY(ls_digest_finish(digest, found));
        ls_digest_destroy(&digest);
        if (strcmp(found, tensor->sha256) != 0)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: tensor %s has the SHA-256 %.16s..., the manifest says %.16s...: it was "
                    "changed, or is of another golden directory",
                    ls_show(golden->path), ls_show(tensor->name), found, tensor->sha256);
    }
    LS_TRY(ls_golden_check_files(golden->files, UINT64_MAX, advance, context));
exit:
    ls_digest_destroy(&digest);
    return status;
}
