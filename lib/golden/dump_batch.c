/* dump_batch.c - the batches of all steps and the masks of dropout, as files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/random.h"
#include "golden/dump_parts.h"
#include "golden/dump_telling.h"
#include "base/allocate.h"

/* ---- the batches ---- */

ls_status ls_dump_make_batches(dump *d)
{
    ls_status status = LS_OK;
    ls_dump_told *told = &d->summary.start;
    told->batch =
        d->run.given || d->run.config.kind == LS_MODEL_NET ? LS_DUMP_GIVEN : ls_dump_source_of(d);
    LS_NEW(d->given, d->steps + 1);
    LS_TRY(ls_run_check_given(&d->run, d->first_step));
    if (!d->run.given) {
        LS_NEW(d->batches, d->steps + 1);
    }
    for (size_t i = 0; i < d->steps; i++) {
        const uint64_t step = d->first_step + i;
        if (d->run.given) {
            d->given[i] = d->run.given[step - d->run.given[0].step];
            continue;
        }
        LS_TRY(ls_step_batch_create(&d->batches[i], &d->run, 0, d->run.batch));
        ls_step_batch_fill(&d->batches[i], &d->run, step);
        if (told->batch == LS_DUMP_TELLING)
            LS_TRY(ls_dump_make_telling(&d->run.config, &d->batches[i], told));
        d->given[i] = d->batches[i].batch;
    }
    d->run.given = d->given;
    d->run.n_given = d->steps;
exit:
    return status;
}

/* ---- their file ---- */

/* One array of a step's batch. */
typedef struct array {
    const char *name;
    const void *values; /* NULL: there is none */
    ls_dtype dtype;
    int n_dims;
    uint64_t dims[4];
} array;

enum { ARRAYS = 7 };

static void list_arrays(const dump *d, const ls_batch *batch, array arrays[ARRAYS])
{
    const uint64_t B = d->run.batch, S = d->run.config.seq;
    const ls_net *net = &d->run.config.net;
    const array all[ARRAYS] = {
        {"tokens", batch->tokens, LS_I32, 2, {B, S}},
        {"targets", batch->targets, LS_I32, 2, {B, S}},
        {"segments", batch->segments, LS_I32, 2, {B, S}},
        {"lengths", batch->lengths, LS_I32, 1, {B}},
        {"order", batch->order, LS_I32, 1, {B}},
        {"images", batch->images, LS_F32, 4, {B, net->channels, net->height, net->width}},
        {"labels", batch->labels, LS_I32, 1, {B}}};
    memcpy(arrays, all, sizeof all);
}

static size_t product(int n, const uint64_t *dims)
{
    size_t count = 1;
    for (int i = 0; i < n; i++) count *= (size_t)dims[i];
    return count;
}

/* Declares (writer not yet started) or writes every array of every step; what is not there is not
 * written. */
static ls_status each_array(const dump *d, ls_safetensors_writer *writer, bool declare)
{
    ls_status status = LS_OK;
    char name[LS_TENSOR_NAME];
    array arrays[ARRAYS];
    for (size_t i = 0; i < d->steps; i++) {
        list_arrays(d, &d->given[i], arrays);
        for (int k = 0; k < ARRAYS; k++) {
            const array *one = &arrays[k];
            if (!one->values) continue;
            ls_tensor_name_write(name, d->first_step + i, -1, one->name);
            if (declare)
                LS_TRY(ls_safetensors_declare(writer, name, one->dtype, one->n_dims, one->dims));
            else
                LS_TRY(ls_safetensors_write(writer, one->values,
                                            product(one->n_dims, one->dims) *
                                                ls_dtype_bytes(one->dtype)));
        }
    }
exit:
    return status;
}

ls_status ls_dump_write_batches(dump *d)
{
    ls_status status = LS_OK;
    ls_safetensors_writer *writer = NULL;
    const char *path;
    LS_TRY(ls_dump_path(d, "batch.safetensors", &path));
    LS_TRY(ls_safetensors_create(&writer, path));
    LS_TRY(each_array(d, writer, true));
    LS_TRY(each_array(d, writer, false));
    LS_TRY(ls_safetensors_commit(writer));
    LS_TRY(ls_dump_note(d, "batch.safetensors", path, true));
exit:
    ls_safetensors_destroy(&writer);
    return status;
}

/* ---- masks ---- */

static bool is_masked(const dump *d, const ls_graph_node *node)
{
    return node->phase == LS_GRAPH_FORWARD && node->purpose >= 0 &&
           ls_graph_dropout(d->graph, node) > 0;
}

/* What the mask of a node's dropout is laid over: the node, but for the heads their probabilities.
 */
static int mask_dims(const dump *d, const ls_graph_node *node, uint64_t dims[LS_NODE_DIMS])
{
    const size_t S = d->graph->S;
    if (node->make == LS_MAKE_HEADS) {
        dims[0] = d->graph->B, dims[1] = d->run.config.heads, dims[2] = dims[3] = S;
        return 4;
    }
    for (int i = 0; i < node->n_dims; i++) dims[i] = node->dims[i];
    return node->n_dims;
}

static ls_status declare_masks(const dump *d, ls_safetensors_writer *writer, size_t *ret_most)
{
    ls_status status = LS_OK;
    char name[LS_TENSOR_NAME], rest[LS_TENSOR_NAME];
    uint64_t dims[LS_NODE_DIMS];
    for (size_t i = 0; i < d->steps * d->graph->count; i++) {
        const ls_graph_node *node = &d->graph->nodes[i % d->graph->count];
        if (!is_masked(d, node)) continue;
        const int n = mask_dims(d, node, dims);
        if (product(n, dims) > *ret_most) *ret_most = product(n, dims);
        snprintf(rest, sizeof rest, "mask.%.120s", node->name);
        ls_tensor_name_write(name, d->first_step + i / d->graph->count, -1, rest);
        LS_TRY(ls_safetensors_declare(writer, name, LS_U8, n, dims));
    }
exit:
    return status;
}

static ls_status write_masks(const dump *d, ls_safetensors_writer *writer, unsigned char *mask)
{
    ls_status status = LS_OK;
    uint64_t dims[LS_NODE_DIMS];
    for (size_t i = 0; i < d->steps * d->graph->count; i++) {
        const ls_graph_node *node = &d->graph->nodes[i % d->graph->count];
        if (!is_masked(d, node)) continue;
        const ls_stream stream = {d->run.seed, (uint32_t)node->purpose,
                                  node->layer < 0 ? 0 : (uint32_t)node->layer,
                                  (uint32_t)(d->first_step + i / d->graph->count)};
        const size_t n = product(mask_dims(d, node, dims), dims);
        LS_TRY(ls_dump_advance(d, i, d->steps * d->graph->count, "masks"));
        ls_random_keep_n(mask, stream, 0, n, ls_graph_dropout(d->graph, node));
        LS_TRY(ls_safetensors_write(writer, mask, n));
    }
exit:
    return status;
}

static bool drops_anything(const dump *d)
{
    for (size_t i = 0; i < d->graph->count; i++)
        if (is_masked(d, &d->graph->nodes[i])) return true;
    return false;
}

ls_status ls_dump_write_masks(dump *d)
{
    ls_status status = LS_OK;
    ls_safetensors_writer *writer = NULL;
    unsigned char *mask = NULL;
    size_t most = 0;
    const char *path;
    if (!drops_anything(d)) return LS_OK;
    LS_TRY(ls_dump_path(d, "masks.safetensors", &path));
    LS_TRY(ls_safetensors_create(&writer, path));
    LS_TRY(declare_masks(d, writer, &most));
    LS_ROOM(mask, most + 1);
    LS_TRY(write_masks(d, writer, mask));
    LS_TRY(ls_safetensors_commit(writer));
    LS_TRY(ls_dump_note(d, "masks.safetensors", path, true));
exit:
    ls_safetensors_destroy(&writer);
    free(mask);
    return status;
}
