/* tensor_set.c - one safetensors file or several as one table of tensors. */
#include "lockstep/io/tensor_set.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_text.h"
#include "base/path.h"
#include "lockstep/base/show.h"
#include "base/allocate.h"

enum { INDEX_MOST_BYTES = 64 << 20, MOST_FILES = 4096 };

/* What a folder may have. */
#define FOLDER_FILE "model.safetensors"
#define FOLDER_INDEX "model.safetensors.index.json"

struct ls_tensor_set {
    size_t files;
    ls_safetensors **file;
    char **path;
    size_t *first; /* number of each file's first tensor; files + 1 */
    size_t most_tensors;
};

/* ---- files ---- */

/* Opens one more file, of which the set takes over the path. */
static ls_status add_file(ls_tensor_set *set, char *path)
{
    ls_status status = LS_OK;
    LS_RESIZE(set->file, set->files + 1);
    LS_RESIZE(set->path, set->files + 1);
    LS_RESIZE(set->first, set->files + 2);
    LS_TRY(ls_safetensors_open_most(&set->file[set->files], path, set->most_tensors));
    set->path[set->files] = path;
    path = NULL;
    if (set->files == 0) set->first[0] = 0;
    set->first[set->files + 1] =
        set->first[set->files] + ls_safetensors_count(set->file[set->files]);
    set->files++;
exit:
    free(path);
    return status;
}

/* ---- an index ---- */

static ls_status read_index(const ls_tensor_set *set, const char *path, json_t **ret_root)
{
    ls_status status = LS_OK;
    json_t *root = NULL;
    LS_TRY(ls_json_read(path, INDEX_MOST_BYTES, &root));
    const size_t entries = json_object_size(json_object_get(root, "weight_map"));
    if (entries == 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: is no index of safetensors files: it has no {\"weight_map\": {\"tensor\": "
                "\"file\", ...}}",
                ls_show(path));
    if (entries > set->most_tensors)
        LS_FAIL(LS_ERR_INPUT, "%s: has %zu tensors; at most %zu are expected", ls_show(path),
                entries, set->most_tensors);
    *ret_root = root;
    root = NULL;
exit:
    json_decref(root);
    return status;
}

/* Opens the file that an entry names, unless it is open, and looks for the tensor in it. numbers:
 * of the files that are open, by name. */
static ls_status take_entry(ls_tensor_set *set, const char *index, json_t *numbers,
                            const char *tensor, const json_t *value)
{
    ls_status status = LS_OK;
    const char *name = json_string_value(value);
    char *path = NULL;
    /* An index speaks of its own folder only. */
    if (!name || name[0] == '\0' || strchr(name, '/') || strcmp(name, "..") == 0 ||
        strcmp(name, ".") == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s: its file %s%s must be a name in the same folder",
                ls_show(index), ls_show(tensor), name ? ls_show(name) : "is not a string",
                name ? "" : ";");
    const json_t *number = json_object_get(numbers, name);
    const size_t f = number ? (size_t)json_integer_value(number) : set->files;
    if (!number) {
        if (f == MOST_FILES)
            LS_FAIL(LS_ERR_INPUT, "%s: names more than %d files", ls_show(index), MOST_FILES);
        path = ls_path_beside(index, name);
        if (!path || json_object_set_new(numbers, name, json_integer((json_int_t)f)) != 0)
            LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to read %s", ls_show(index));
        char *taken = path;
        path = NULL;
        LS_TRY(add_file(set, taken));
    }
    if (!ls_safetensors_find(set->file[f], tensor))
        LS_FAIL(LS_ERR_INPUT, "%s: says that tensor %s is in %s, which does not have it",
                ls_show(index), ls_show(tensor), ls_show(set->path[f]));
exit:
    free(path);
    return status;
}

static ls_status open_index(ls_tensor_set *set, const char *index)
{
    ls_status status = LS_OK;
    json_t *root = NULL, *numbers = json_object();
    const char *tensor;
    json_t *value;
    if (!numbers) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to read %s", ls_show(index));
    LS_TRY(read_index(set, index, &root));
    json_t *entries = json_object_get(root, "weight_map");
    json_object_foreach(entries, tensor, value)
        LS_TRY(take_entry(set, index, numbers, tensor, value));
    /* Every entry was found in its file, so equal numbers say that no file has more. Which one is
     * it, otherwise? */
    if (set->first[set->files] == json_object_size(entries)) goto exit;
    for (size_t f = 0; f < set->files; f++)
        for (size_t i = 0; i < ls_safetensors_count(set->file[f]); i++) {
            const char *name = ls_safetensors_at(set->file[f], i)->name;
            const char *where = json_string_value(json_object_get(entries, name));
            const char *file = strrchr(set->path[f], '/');
            file = file ? file + 1 : set->path[f];
            if (!where || strcmp(where, file) != 0)
                LS_FAIL(LS_ERR_INPUT, "%s: has a tensor %s that %s does not place there",
                        ls_show(set->path[f]), ls_show(name), ls_show(index));
        }
exit:
    json_decref(numbers);
    json_decref(root);
    return status;
}

/* ---- the public face ---- */

static bool is_there(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

static ls_status open_one(ls_tensor_set **ret_set, const char *path, size_t most_tensors);

/* Whether every tensor of one set is in the other, with the same values. */
static ls_status check_within(const ls_tensor_set *one, const ls_tensor_set *other,
                              const char *folder)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < ls_tensor_set_count(one); i++) {
        const char *file;
        const ls_tensor_info *a = ls_tensor_set_at(one, i, &file);
        const ls_tensor_info *b = ls_tensor_set_find(other, a->name);
        const bool alike = b && a->dtype == b->dtype && a->n_dims == b->n_dims &&
                           memcmp(a->dims, b->dims, sizeof a->dims) == 0;
        if (alike && memcmp(a->data, b->data, a->elements * ls_dtype_bytes(a->dtype)) == 0)
            continue;
        LS_FAIL(LS_ERR_INPUT,
                "%s: has %s and %s, which disagree: tensor %s of %s %s in the other; remove one "
                "of the two, or load the right one by its name",
                ls_show(folder), FOLDER_FILE, FOLDER_INDEX, ls_show(a->name), ls_show(file),
                !b      ? "is not"
                : alike ? "has other values"
                        : "has another dtype or shape");
    }
exit:
    return status;
}

/* The one file goes before an index, which must then agree with it. */
static ls_status open_folder(ls_tensor_set **ret_set, const char *folder, size_t most_tensors)
{
    ls_status status = LS_OK;
    ls_tensor_set *set = NULL, *indexed = NULL;
    char *file = ls_path_inside(folder, FOLDER_FILE), *index = ls_path_inside(folder, FOLDER_INDEX);
    char *pickle = ls_path_inside(folder, "pytorch_model.bin");
    char *pickles = ls_path_inside(folder, "pytorch_model.bin.index.json");
    if (!file || !index || !pickle || !pickles)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to read %s", ls_show(folder));
    if (!is_there(file) && !is_there(index)) {
        if (is_there(pickle) || is_there(pickles))
            LS_FAIL(LS_ERR_INPUT,
                    "%s: has pytorch_model.bin, a pickle, but no %s; only safetensors are read: "
                    "convert it with safetensors.torch.save_file",
                    ls_show(folder), FOLDER_FILE);
        LS_FAIL(LS_ERR_INPUT, "%s: a folder without %s or %s", ls_show(folder), FOLDER_FILE,
                FOLDER_INDEX);
    }
    LS_TRY(open_one(&set, is_there(file) ? file : index, most_tensors));
    if (is_there(file) && is_there(index)) {
        LS_TRY(open_one(&indexed, index, most_tensors));
        LS_TRY(check_within(set, indexed, folder));
        LS_TRY(check_within(indexed, set, folder));
    }
    *ret_set = set;
    set = NULL;
exit:
    free(file), free(index), free(pickle), free(pickles);
    ls_tensor_set_close(&indexed);
    ls_tensor_set_close(&set);
    return status;
}

static ls_status open_one(ls_tensor_set **ret_set, const char *path, size_t most_tensors)
{
    ls_status status = LS_OK;
    ls_tensor_set *set = NULL;
    char *taken = NULL;
    LS_NEW(set, 1);
    LS_COPY(taken, path);
    set->most_tensors = most_tensors;
    if (ls_path_ends_with(path, ".json")) {
        LS_TRY(open_index(set, path));
    } else {
        char *own = taken;
        taken = NULL;
        LS_TRY(add_file(set, own));
    }
    *ret_set = set;
    set = NULL;
exit:
    free(taken);
    ls_tensor_set_close(&set);
    return status;
}

ls_status ls_tensor_set_open(ls_tensor_set **ret_set, const char *path)
{
    return ls_tensor_set_open_most(ret_set, path, SIZE_MAX);
}

ls_status ls_tensor_set_open_most(ls_tensor_set **ret_set, const char *path, size_t most_tensors)
{
    struct stat about;
    const bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    return folder ? open_folder(ret_set, path, most_tensors)
                  : open_one(ret_set, path, most_tensors);
}

void ls_tensor_set_close(ls_tensor_set **set)
{
    if (!*set) return;
    for (size_t f = 0; f < (*set)->files; f++) {
        ls_safetensors_close(&(*set)->file[f]);
        free((*set)->path[f]);
    }
    free((*set)->file);
    free((*set)->path);
    free((*set)->first);
    free(*set);
    *set = NULL;
}

size_t ls_tensor_set_count(const ls_tensor_set *set)
{
    return set->first[set->files];
}

const ls_tensor_info *ls_tensor_set_at(const ls_tensor_set *set, size_t i, const char **ret_file)
{
    size_t f = 0, end = set->files; /* the file is among f .. end - 1 */
    while (end - f > 1) {
        const size_t middle = f + (end - f) / 2;
        *(i < set->first[middle] ? &end : &f) = middle;
    }
    if (ret_file) *ret_file = set->path[f];
    return ls_safetensors_at(set->file[f], i - set->first[f]);
}

const ls_tensor_info *ls_tensor_set_find(const ls_tensor_set *set, const char *name)
{
    for (size_t f = 0; f < set->files; f++) {
        const ls_tensor_info *found = ls_safetensors_find(set->file[f], name);
        if (found) return found;
    }
    return NULL;
}

const char *ls_tensor_set_metadata(const ls_tensor_set *set, const char *key)
{
    return ls_safetensors_metadata(set->file[0], key);
}
