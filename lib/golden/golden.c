/* golden.c - a golden directory opened, tensor by tensor against the graph of its model. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lockstep/base/show.h"
#include "lockstep/base/widen.h"
#include "golden/golden_files.h"
#include "step_graph/tensor_name.h"
#include "base/allocate.h"

/* Files up to here are compared with their SHA-256 when the directory is opened: about a
 * second at most. Larger ones by ls_golden_verify. */
enum { DIGEST_BYTES = 1 << 30 };

/* ---- tensors ---- */

static const char *const phase_names[] = {"forward", "backward", "update"};

static bool same_shape(const ls_graph_node *node, int n_dims, const uint64_t *dims)
{
    bool same = node->n_dims == n_dims;
    for (int d = 0; same && d < n_dims; d++) same = node->dims[d] == dims[d];
    return same;
}

static const char *node_shape(const ls_graph_node *node, char buffer[LS_GOLDEN_SHAPE])
{
    uint64_t dims[LS_NODE_DIMS] = {0};
    for (int d = 0; d < node->n_dims; d++) dims[d] = node->dims[d];
    return ls_golden_shape(node->n_dims, dims, buffer);
}

/* What the manifest says of a tensor against what the model has. */
static ls_status check_entry(const ls_golden *golden, const ls_manifest_tensor *entry,
                             int *ret_node)
{
    ls_status status = LS_OK;
    char found[LS_GOLDEN_SHAPE], wanted[LS_GOLDEN_SHAPE];
    const ls_tensor_name name = ls_tensor_name_parse(entry->name);
    const int place =
        name.has_step && name.micro_batch < 0 ? ls_graph_find(golden->graph, name.rest) : -1;
    if (place < 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s/manifest.json: tensor %s: the manifest's model has none of that "
                "name",
                ls_show(golden->path), ls_show(entry->name));
    const ls_graph_node *node = &golden->graph->nodes[place];
    const ls_dtype dtype = node->make == LS_MAKE_GRADIENT_NORM ? LS_F64 : golden->run.dtype;
    if (name.step != entry->step)
        LS_FAIL(LS_ERR_INPUT, "%s/manifest.json: tensor %s: its step is given as %llu",
                ls_show(golden->path), ls_show(entry->name), (unsigned long long)entry->step);
    if (!same_shape(node, entry->n_dims, entry->shape))
        LS_FAIL(LS_ERR_INPUT,
                "%s/manifest.json: tensor %s: shape %s; the manifest's model makes "
                "it %s",
                ls_show(golden->path), ls_show(entry->name),
                ls_golden_shape(entry->n_dims, entry->shape, found), node_shape(node, wanted));
    if (entry->dtype != dtype)
        LS_FAIL(LS_ERR_INPUT, "%s/manifest.json: tensor %s: dtype %s; the run makes it %s",
                ls_show(golden->path), ls_show(entry->name), ls_dtype_name(entry->dtype),
                ls_dtype_name(dtype));
    if (entry->phase != node->phase)
        LS_FAIL(LS_ERR_INPUT, "%s/manifest.json: tensor %s: phase %s; it is one of %s",
                ls_show(golden->path), ls_show(entry->name), phase_names[entry->phase],
                phase_names[node->phase]);
    if (strcmp(entry->dims, node->dim_names) != 0)
        LS_FAIL(LS_ERR_INPUT, "%s/manifest.json: tensor %s: dims \"%s\"; the model's are \"%s\"",
                ls_show(golden->path), ls_show(entry->name), ls_show(entry->dims), node->dim_names);
    *ret_node = place;
exit:
    return status;
}

/* A tensor of a file against what it must be. */
static ls_status take(ls_golden_files *files, const ls_golden_file *file, const char *name,
                      const ls_graph_node *node, ls_dtype dtype, const void **ret_values)
{
    ls_status status = LS_OK;
    char found[LS_GOLDEN_SHAPE], wanted[LS_GOLDEN_SHAPE];
    const ls_tensor_info *info = ls_safetensors_find(file->file, name);
    if (!info)
        LS_FAIL(LS_ERR_INPUT, "%s: has no tensor %s, which the manifest places there",
                ls_show(file->path), ls_show(name));
    if (!same_shape(node, info->n_dims, info->dims))
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s has the shape %s; the manifest says %s",
                ls_show(file->path), ls_show(name),
                ls_golden_shape(info->n_dims, info->dims, found), node_shape(node, wanted));
    if (info->dtype != dtype)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s is %s; must be %s", ls_show(file->path), ls_show(name),
                ls_dtype_name(info->dtype), ls_dtype_name(dtype));
    LS_TRY(ls_golden_aligned(files, info, ret_values));
exit:
    return status;
}

/* Whether (step, node) of one tensor comes before that of another. */
static bool before(const ls_golden_tensor *a, const ls_golden_tensor *b)
{
    return a->step < b->step || (a->step == b->step && a->node < b->node);
}

static ls_status read_tensors(ls_golden *golden)
{
    ls_status status = LS_OK;
    ls_golden_files *files = golden->files;
    const ls_manifest *manifest = &files->manifest;
    LS_NEW(golden->tensors, manifest->n_tensors);
    for (size_t i = 0; i < manifest->n_tensors; i++) {
        const ls_manifest_tensor *entry = &manifest->tensors[i];
        ls_golden_tensor *tensor = &golden->tensors[i];
        ls_golden_file *file;
        LS_TRY(check_entry(golden, entry, &tensor->node));
        LS_TRY(ls_golden_file_of(files, entry->file, &file));
        LS_TRY(take(files, file, entry->name, &golden->graph->nodes[tensor->node], entry->dtype,
                    &tensor->values));
        file->listed++;
        tensor->name = entry->name;
        tensor->step = entry->step;
        tensor->given = entry->given;
        tensor->dtype = entry->dtype;
        tensor->count = ls_graph_elements(golden->graph, tensor->node);
        tensor->truth_error = entry->truth_error;
        tensor->bound = entry->bound;
        tensor->bound_rms = entry->bound_rms;
        memcpy(tensor->sha256, entry->sha256, sizeof tensor->sha256);
        if (i > 0 && !before(tensor - 1, tensor))
            LS_FAIL(LS_ERR_INPUT,
                    "%s/manifest.json: tensor %s stands behind %s; tensors stand in order of "
                    "execution, each once",
                    ls_show(golden->path), ls_show(tensor->name), ls_show(tensor[-1].name));
    }
    golden->count = manifest->n_tensors;
    for (size_t f = 0; f < files->count; f++)
        if (files->files[f].listed != ls_safetensors_count(files->files[f].file))
            LS_FAIL(LS_ERR_INPUT,
                    "%s: has %zu tensors, of which the manifest lists %zu: it is of another golden "
                    "directory",
                    ls_show(files->files[f].path), ls_safetensors_count(files->files[f].file),
                    files->files[f].listed);
exit:
    return status;
}

static bool is_there(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

/* truth.safetensors, which need not be there and need not have all. */
static ls_status read_truth(ls_golden *golden)
{
    ls_status status = LS_OK;
    ls_golden_files *files = golden->files;
    ls_golden_file *file;
    char *path = NULL;
    LS_TRY(ls_manifest_path(&path, golden->path, "truth.safetensors"));
    if (!is_there(path)) goto exit;
    LS_TRY(ls_golden_file_of(files, "truth.safetensors", &file));
    for (size_t i = 0; i < golden->count; i++) {
        ls_golden_tensor *tensor = &golden->tensors[i];
        const void *values;
        if (!ls_safetensors_find(file->file, tensor->name)) continue;
        LS_TRY(
            take(files, file, tensor->name, &golden->graph->nodes[tensor->node], LS_F64, &values));
        tensor->truth = values;
    }
exit:
    free(path);
    return status;
}

/* ---- weights ---- */

static ls_status take_param(ls_golden *golden, const ls_golden_file *file, int array, size_t p)
{
    ls_status status = LS_OK;
    ls_golden_files *files = golden->files;
    const ls_param *param = &golden->table->params[p];
    uint64_t dims[4];
    for (int d = 0; d < param->n_shape; d++) dims[d] = param->shape[d];
    char name[128], found[LS_GOLDEN_SHAPE], wanted[LS_GOLDEN_SHAPE];
    snprintf(name, sizeof name, "%s%s", ls_checkpoint_prefixes[array], param->name);
    const ls_tensor_info *info = ls_safetensors_find(file->file, name);
    if (!info && (array > 0 || golden->kind == LS_GOLDEN_INTEGERS)) goto exit;
    if (!info)
        LS_FAIL(LS_ERR_INPUT,
                "%s: has no tensor %s; a golden directory's weights have the names of the "
                "parameter table",
                ls_show(file->path), name);
    if (info->n_dims != param->n_shape ||
        memcmp(info->dims, dims, sizeof *dims * (size_t)param->n_shape) != 0)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s has the shape %s; the model's is %s",
                ls_show(file->path), name, ls_golden_shape(info->n_dims, info->dims, found),
                ls_golden_shape(param->n_shape, dims, wanted));
    if (!ls_widens(info->dtype, LS_F64))
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s is %s; must be F32, F64, F16 or BF16",
                ls_show(file->path), name, ls_dtype_name(info->dtype));
    LS_TRY(ls_golden_aligned(files, info, &files->params[array][p]));
    files->dtypes[array][p] = info->dtype;
exit:
    return status;
}

/* What a training run would refuse. */
static ls_status check_weights(const ls_golden *golden)
{
    ls_status status = LS_OK;
    ls_checkpoint_file checkpoint = {0};
    ls_run run = golden->run;
    run.steps = UINT64_MAX; /* what it is at is said below */
    LS_TRY(ls_checkpoint_open(&checkpoint, &run, golden->table));
    if (checkpoint.step != golden->first_step)
        LS_FAIL(LS_ERR_INPUT, "%s: stands at step %llu; the manifest's first_step is %llu",
                ls_show(run.load), (unsigned long long)checkpoint.step,
                (unsigned long long)golden->first_step);
exit:
    ls_checkpoint_close(&checkpoint);
    return status;
}

/* Integers need weights only where they multiply. */
static ls_status read_weights(ls_golden *golden)
{
    ls_status status = LS_OK;
    ls_golden_files *files = golden->files;
    ls_golden_file *file;
    LS_TRY(ls_manifest_path(&files->weights_path, golden->path, "weights.safetensors"));
    for (int array = 0; array < LS_CHECKPOINT_ARRAYS; array++) {
        LS_NEW(files->params[array], golden->table->count);
        LS_NEW(files->dtypes[array], golden->table->count);
    }
    if (golden->kind == LS_GOLDEN_INTEGERS && !is_there(files->weights_path)) goto exit;
    golden->run.load = files->weights_path;
    LS_TRY(ls_golden_check_listed(files, "weights.safetensors"));
    LS_TRY(ls_golden_file_of(files, "weights.safetensors", &file));
    for (int array = 0; array < LS_CHECKPOINT_ARRAYS; array++)
        for (size_t p = 0; p < golden->table->count; p++)
            LS_TRY(take_param(golden, file, array, p));
    if (golden->kind == LS_GOLDEN_TRAINING) LS_TRY(check_weights(golden));
exit:
    return status;
}

/* ---- the whole ---- */

static ls_status check_folder(const char *path)
{
    ls_status status = LS_OK;
    struct stat about;
    char *manifest = NULL;
    if (stat(path, &about) != 0)
        LS_FAIL(errno == EACCES ? LS_ERR_IO : LS_ERR_INPUT,
                "%s: %s; a golden directory is what lockstep dump makes", ls_show(path),
                ls_show_errno(errno));
    if (!S_ISDIR(about.st_mode))
        LS_FAIL(LS_ERR_INPUT, "%s: is no directory; a golden directory is what lockstep dump makes",
                ls_show(path));
    LS_TRY(ls_manifest_path(&manifest, path, "manifest.json"));
    if (!is_there(manifest))
        LS_FAIL(LS_ERR_INPUT,
                "%s: has no manifest.json; a golden directory is what lockstep dump makes",
                ls_show(path));
exit:
    free(manifest);
    return status;
}

ls_status ls_golden_open(ls_golden **ret_golden, const char *path)
{
    ls_status status = LS_OK;
    char *manifest = NULL;
    ls_golden *golden = NULL;
    LS_NEW(golden, 1);
    LS_NEW(golden->files, 1);
    ls_golden_files *files = golden->files;
    LS_COPY(files->path, path);
    /* Slashes at the end would be double in texts. */
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/';) files->path[--n] = '\0';
    golden->path = files->path;
    LS_TRY(check_folder(path));
    LS_TRY(ls_manifest_path(&manifest, path, "manifest.json"));
    LS_TRY(ls_manifest_read(&files->manifest, manifest));
    golden->kind = files->manifest.kind;
    golden->run = files->manifest.run;
    golden->first_step = files->manifest.first_step;
    golden->steps = files->manifest.steps;
    LS_TRY(ls_golden_check_files(files, DIGEST_BYTES, NULL, NULL));
    LS_TRY(ls_param_table_create(&golden->table, &golden->run.config));
    LS_TRY(
        ls_graph_create(&golden->graph, golden->table, golden->run.batch, golden->run.config.seq));
    LS_TRY(read_tensors(golden));
    LS_TRY(read_truth(golden));
    LS_TRY(read_weights(golden));
    LS_TRY(ls_golden_read_batches(golden));
    *ret_golden = golden;
    golden = NULL;
exit:
    free(manifest);
    ls_golden_close(&golden);
    return status;
}

void ls_golden_close(ls_golden **golden)
{
    if (!*golden) return;
    ls_golden_files *files = (*golden)->files;
    if (files) {
        for (size_t f = 0; f < files->count; f++) {
            ls_safetensors_close(&files->files[f].file);
            free(files->files[f].name);
            free(files->files[f].path);
        }
        for (size_t i = 0; i < files->n_copies; i++) free(files->copies[i]);
        for (int array = 0; array < LS_CHECKPOINT_ARRAYS; array++) {
            free(files->params[array]);
            free(files->dtypes[array]);
        }
        free(files->copies);
        free(files->batches);
        free(files->weights_path);
        free(files->path);
        ls_manifest_free(&files->manifest);
        free(files);
    }
    ls_graph_destroy(&(*golden)->graph);
    ls_param_table_destroy(&(*golden)->table);
    free((*golden)->tensors);
    free(*golden);
    *golden = NULL;
}
