/* golden_manifest.c - manifest.json, in the order of its keys. */
#include "golden/golden_manifest.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_text.h"
#include "base/path.h"
#include "lockstep/base/show.h"
#include "lockstep/numerics/digest.h"
#include "golden/golden_json.h"
#include "base/allocate.h"

/* Some hundred steps of a large model; more is some other file. */
enum { MOST_BYTES = 64 << 20 };

#define FORMAT "lockstep golden"

bool ls_manifest_plain_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && !strchr(name, '/');
}

ls_status ls_manifest_path(char **ret_path, const char *folder, const char *name)
{
    ls_status status = LS_OK;
    char *path = ls_path_inside(folder, name);
    if (!path) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to read %s", ls_show(folder));
    *ret_path = path;
exit:
    return status;
}

/* ---- the file ---- */

ls_status ls_manifest_check_plain(const char *path)
{
    ls_status status = LS_OK;
    struct stat about;
    if (lstat(path, &about) != 0) goto exit; /* its opening says why */
    if (S_ISLNK(about.st_mode))
        LS_FAIL(LS_ERR_INPUT, "%s: is a symbolic link; a golden directory holds plain files",
                ls_show(path));
    if (!S_ISREG(about.st_mode))
        LS_FAIL(LS_ERR_INPUT, "%s: is a folder, a device or a pipe, not a plain file",
                ls_show(path));
exit:
    return status;
}

ls_status ls_manifest_load(json_t **ret_root, const char *path)
{
    ls_status status = LS_OK;
    json_t *root = NULL;
    LS_TRY(ls_manifest_check_plain(path));
    LS_TRY(ls_json_read(path, MOST_BYTES, &root));
    if (!json_is_object(root))
        LS_FAIL(LS_ERR_INPUT, "%s: is not a JSON object {\"format\": \"" FORMAT "\", ...}",
                ls_show(path));
    *ret_root = root;
    root = NULL;
exit:
    json_decref(root);
    return status;
}

bool ls_manifest_is_golden(const char *folder)
{
    static const char opening[] = "\"" FORMAT "\"";
    char *path = NULL, beginning[513] = "";
    struct stat about;
    bool golden = false;
    FILE *file = NULL;
    if (ls_manifest_path(&path, folder, "manifest.json") != LS_OK) return false;
    if (lstat(path, &about) == 0 && S_ISREG(about.st_mode)) file = fopen(path, "rb");
    if (file) {
        beginning[fread(beginning, 1, sizeof beginning - 1, file)] = '\0';
        golden = strstr(beginning, opening) != NULL;
        fclose(file);
    }
    free(path);
    return golden;
}

/* ---- whether anything was changed ---- */

ls_status ls_manifest_digest(const json_t *root, char ret_digest[65])
{
    ls_status status = LS_OK;
    const size_t flags =
        JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17);
    ls_digest *digest = NULL;
    char *words = NULL;
    json_t *rest = json_copy((json_t *)(uintptr_t)root);
    if (rest) (void)json_object_del(rest, LS_MANIFEST_DIGEST); /* it may not be there */
    if (rest) words = ls_json_write(rest, flags);
    if (!words) LS_NO_MEMORY("the digest of a manifest");
    LS_TRY(ls_digest_create(&digest));
    LS_TRY(ls_digest_add(digest, LS_U8, words, strlen(words)));
    LS_TRY(ls_digest_finish(digest, ret_digest));
exit:
    ls_digest_destroy(&digest);
    json_decref(rest);
    free(words);
    return status;
}

static ls_status check_digest(const ls_json_at *at)
{
    ls_status status = LS_OK;
    const char *said;
    char found[65];
    LS_TRY(ls_json_sha256(at, LS_MANIFEST_DIGEST, &said));
    LS_TRY(ls_manifest_digest(at->object, found));
    if (strcmp(said, found) != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: " LS_MANIFEST_DIGEST " %.16s...: what it says has %.16s...; it was changed "
                "after it was dumped: dump it again",
                ls_show(at->file), said, found);
exit:
    return status;
}

/* ---- what it is ---- */

static ls_status read_identity(ls_manifest *manifest, const ls_json_at *at)
{
    static const char *const kinds[] = {"training", "integers"};
    ls_status status = LS_OK;
    const char *format, *name, *digest;
    uint64_t version;
    int kind;
    const json_t *object;
    LS_TRY(ls_json_string(at, "format", &format));
    if (strcmp(format, FORMAT) != 0)
        LS_FAIL(LS_ERR_INPUT, "%s: format \"%s\": a golden directory has \"" FORMAT "\"",
                ls_show(at->file), ls_show(format));
    LS_TRY(ls_json_count(at, "version", 0, INT32_MAX, &version));
    if (version != LS_GOLDEN_VERSION)
        LS_FAIL(LS_ERR_INPUT,
                "%s: version %" PRIu64 " of the golden directory's format; this program reads "
                "version %d: dump it again",
                ls_show(at->file), version, LS_GOLDEN_VERSION);
    LS_TRY(ls_json_object(at, "contract", &object));
    const ls_json_at contract = {at->file, "contract.", object};
    LS_TRY(ls_json_string(&contract, "name", &name));
    LS_TRY(ls_json_sha256(&contract, "digest", &digest));
    if (strcmp(name, ls_contract_name()) != 0 || strcmp(digest, ls_contract_digest()) != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: made under the contract %s with the digest %.16s; this program keeps %s with "
                "%.16s, whose bits are others: dump it again",
                ls_show(at->file), ls_show(name), digest, ls_contract_name(), ls_contract_digest());
    LS_TRY(ls_json_choice(at, "kind", kinds, 2, &kind));
    manifest->kind = (ls_golden_kind)kind;
exit:
    return status;
}

/* ---- parts of the batch ---- */

/* First and end of every micro-batch: side by side from 0 to the batch. */
static ls_status read_parts(ls_manifest *manifest, const ls_json_at *at)
{
    ls_status status = LS_OK;
    const json_t *array;
    const ls_layout *layout = &manifest->run.layout;
    const uint64_t B = manifest->run.batch;
    uint64_t end = 0;
    LS_TRY(ls_json_array(at, "micro_batch_sequences", &array));
    const size_t wanted = (size_t)layout->dp * (size_t)layout->micro_batches;
    if (json_array_size(array) != wanted)
        LS_FAIL(LS_ERR_INPUT,
                "%s: micro_batch_sequences has %zu entries; %d micro-batches of %d data-parallel "
                "ranks are %zu",
                ls_show(at->file), json_array_size(array), layout->micro_batches, layout->dp,
                wanted);
    LS_NEW(manifest->parts, wanted);
    manifest->n_parts = wanted;
    for (size_t i = 0; i < wanted; i++) {
        const json_t *pair = json_array_get(array, i);
        const json_t *a = json_array_get(pair, 0), *b = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_integer(a) || !json_is_integer(b) ||
            json_integer_value(a) != (json_int_t)end || json_integer_value(b) < (json_int_t)end ||
            json_integer_value(b) > (json_int_t)B)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: micro_batch_sequences[%zu] must be [%" PRIu64 ", END], END from %" PRIu64
                    " to the batch's %" PRIu64,
                    ls_show(at->file), i, end, end, B);
        end = (uint64_t)json_integer_value(b);
        manifest->parts[i][0] = (size_t)json_integer_value(a);
        manifest->parts[i][1] = (size_t)end;
    }
    if (end != B)
        LS_FAIL(LS_ERR_INPUT,
                "%s: micro_batch_sequences end at %" PRIu64 "; the batch has %" PRIu64 " sequences",
                ls_show(at->file), end, B);
exit:
    return status;
}

/* ---- files and tensors ---- */

static ls_status read_files(ls_manifest *manifest, const ls_json_at *at)
{
    ls_status status = LS_OK;
    const json_t *object;
    const char *name;
    json_t *value;
    LS_TRY(ls_json_object(at, "files", &object));
    LS_NEW(manifest->files, json_object_size(object) + 1);
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        char path[600];
        ls_manifest_file *file = &manifest->files[manifest->n_files++];
        const ls_json_at entry = {at->file, path, value};
        if (!ls_manifest_plain_name(name))
            LS_FAIL(LS_ERR_INPUT, "%s: files \"%s\": must be the name of a file beside it",
                    ls_show(at->file), ls_show(name));
        snprintf(path, sizeof path, "files.%s.", ls_show(name));
        if (!json_is_object(value))
            LS_FAIL(LS_ERR_INPUT, "%s: files.%s: must be an object {\"bytes\", \"sha256\"}",
                    ls_show(at->file), ls_show(name));
        file->name = name;
        LS_TRY(ls_json_count(&entry, "bytes", 0, INT64_MAX, &file->bytes));
        LS_TRY(ls_json_sha256(&entry, "sha256", &file->sha256));
    }
exit:
    return status;
}

static ls_status read_shape(ls_manifest_tensor *tensor, const ls_json_at *at)
{
    ls_status status = LS_OK;
    const json_t *shape;
    LS_TRY(ls_json_array(at, "shape", &shape));
    if (json_array_size(shape) > LS_NODE_DIMS)
        LS_FAIL(LS_ERR_INPUT, "%s: %sshape has %zu dimensions; at most %d", ls_show(at->file),
                at->path, json_array_size(shape), LS_NODE_DIMS);
    tensor->n_dims = (int)json_array_size(shape);
    for (int d = 0; d < tensor->n_dims; d++) {
        const json_t *value = json_array_get(shape, (size_t)d);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            LS_FAIL(LS_ERR_INPUT, "%s: %sshape[%d] is not a whole number from 0 on",
                    ls_show(at->file), at->path, d);
        tensor->shape[d] = (uint64_t)json_integer_value(value);
    }
exit:
    return status;
}

static ls_status read_tensor(const ls_manifest *manifest, ls_manifest_tensor *tensor, size_t i,
                             const ls_json_at *at)
{
    static const char *const phases[] = {"forward", "backward", "update"};
    static const char *const dtypes[] = {"f32", "f64"};
    ls_status status = LS_OK;
    uint64_t order;
    int choice;
    LS_TRY(ls_json_string(at, "name", &tensor->name));
    LS_TRY(ls_json_string(at, "file", &tensor->file));
    if (!ls_manifest_plain_name(tensor->file))
        LS_TRY(ls_json_refuse(at, "file", "the name of a file beside the manifest"));
    LS_TRY(ls_json_choice(at, "phase", phases, 3, &choice));
    tensor->phase = (ls_graph_phase)choice;
    LS_TRY(ls_json_count(at, "order", i, i, &order));
    LS_TRY(ls_json_count(at, "step", manifest->first_step, manifest->run.steps - 1, &tensor->step));
    LS_TRY(ls_json_choice(at, "dtype", dtypes, 2, &choice));
    tensor->dtype = choice == 0 ? LS_F32 : LS_F64;
    LS_TRY(read_shape(tensor, at));
    LS_TRY(ls_json_string(at, "dims", &tensor->dims));
    LS_TRY(ls_json_flag(at, "given", &tensor->given));
    LS_TRY(ls_json_sha256(at, "sha256", &tensor->sha256));
    LS_TRY(ls_json_real_or_null(at, "truth_error", HUGE_VAL, &tensor->truth_error));
    LS_TRY(ls_json_real_or_null(at, "bound", HUGE_VAL, &tensor->bound));
    LS_TRY(ls_json_real_or_null(at, "bound_rms", HUGE_VAL, &tensor->bound_rms));
exit:
    return status;
}

static ls_status read_tensors(ls_manifest *manifest, const ls_json_at *at)
{
    ls_status status = LS_OK;
    const json_t *array;
    const char *wanted;
    char digest[65];
    ls_digest *sum = NULL;
    LS_TRY(ls_json_array(at, "tensors", &array));
    const size_t count = json_array_size(array);
    if (count == 0) LS_FAIL(LS_ERR_INPUT, "%s: tensors is empty", ls_show(at->file));
    LS_NEW(manifest->tensors, count);
    LS_TRY(ls_digest_create(&sum));
    for (size_t i = 0; i < count; i++) {
        char path[40];
        const ls_json_at entry = {at->file, path, json_array_get(array, i)};
        snprintf(path, sizeof path, "tensors[%zu].", i);
        if (!json_is_object(entry.object))
            LS_FAIL(LS_ERR_INPUT, "%s: tensors[%zu] is not an object {\"name\", ...}",
                    ls_show(at->file), i);
        LS_TRY(read_tensor(manifest, &manifest->tensors[i], i, &entry));
        LS_TRY(ls_digest_add(sum, LS_U8, manifest->tensors[i].sha256, 64));
    }
    manifest->n_tensors = count;
    LS_TRY(ls_json_sha256(at, "digest", &wanted));
    LS_TRY(ls_digest_finish(sum, digest));
    if (strcmp(digest, wanted) != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: digest %s: the tensors' sha256 make %s; the manifest was changed, or is of "
                "two directories",
                ls_show(at->file), wanted, digest);
exit:
    ls_digest_destroy(&sum);
    return status;
}

ls_status ls_manifest_read(ls_manifest *ret_manifest, const char *path)
{
    ls_status status = LS_OK;
    ls_manifest manifest;
    memset(&manifest, 0, sizeof manifest);
    LS_TRY(ls_manifest_load(&manifest.root, path));
    const ls_json_at at = {path, "", manifest.root};
    LS_TRY(read_identity(&manifest, &at));
    LS_TRY(check_digest(&at));
    LS_TRY(ls_manifest_read_run(&manifest, &at));
    LS_TRY(read_parts(&manifest, &at));
    LS_TRY(read_files(&manifest, &at));
    LS_TRY(read_tensors(&manifest, &at));
    *ret_manifest = manifest;
    memset(&manifest, 0, sizeof manifest);
exit:
    ls_manifest_free(&manifest);
    return status;
}

void ls_manifest_free(ls_manifest *manifest)
{
    json_decref(manifest->root);
    free(manifest->parts);
    free(manifest->files);
    free(manifest->tensors);
    memset(manifest, 0, sizeof *manifest);
}
