/* tensor_set.c - one safetensors file or several as one table of tensors. */
#include "lockstep/io/tensor_set.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/read_file.h"
#include "lockstep/base/show.h"

enum { INDEX_MOST_BYTES = 64 << 20, MOST_FILES = 4096 };

struct ls_tensor_set {
    size_t files;
    ls_safetensors **file;
    char **path;
    size_t *first; /* number of each file's first tensor; files + 1 */
};

/* ---- files ---- */

/* "folder/name", for the caller to free. `folder` is what stands before the last / of `path`. */
static char *beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0, rest = strlen(name) + 1;
    char *joined = malloc(folder + rest);
    if (!joined) return NULL;
    memcpy(joined, path, folder);
    memcpy(joined + folder, name, rest);
    return joined;
}

/* Opens one more file, of which the set takes over the path. */
static ls_status add_file(ls_tensor_set *set, char *path)
{
    ls_status status = LS_OK;
    ls_safetensors **file = realloc(set->file, (set->files + 1) * sizeof *file);
    if (file) set->file = file;
    char **paths = realloc(set->path, (set->files + 1) * sizeof *paths);
    if (paths) set->path = paths;
    size_t *first = realloc(set->first, (set->files + 2) * sizeof *first);
    if (first) set->first = first;
    if (!file || !paths || !first) LS_FAIL(LS_ERR_MEMORY, "no memory to read %s", ls_show(path));
    LS_TRY(ls_safetensors_open(&set->file[set->files], path));
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

static ls_status read_index(const char *path, json_t **ret_root)
{
    ls_status status = LS_OK;
    unsigned char *bytes = NULL;
    size_t count;
    json_error_t where;
    json_t *root = NULL;
    LS_TRY(ls_read_file(path, INDEX_MOST_BYTES, &bytes, &count));
    root = json_loadb((const char *)bytes, count, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        LS_FAIL(LS_ERR_INPUT, "%s: not JSON: line %d, column %d: %s", ls_show(path), where.line,
                where.column, ls_show(where.text));
    if (json_object_size(json_object_get(root, "weight_map")) == 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: is no index of safetensors files: it has no {\"weight_map\": {\"tensor\": "
                "\"file\", ...}}",
                ls_show(path));
    *ret_root = root;
    root = NULL;
exit:
    json_decref(root);
    free(bytes);
    return status;
}

/* Number of the file in the set; the number of files when it is not there. */
static size_t file_number(const ls_tensor_set *set, const char *path)
{
    size_t f = 0;
    while (f < set->files && strcmp(set->path[f], path) != 0) f++;
    return f;
}

/* Opens the file that an entry names, unless it is open, and looks for the tensor in it. */
static ls_status take_entry(ls_tensor_set *set, const char *index, const char *tensor,
                            const json_t *value)
{
    ls_status status = LS_OK;
    const char *name = json_string_value(value);
    char *path = NULL;
    size_t f;
    /* An index speaks of its own folder only. */
    if (!name || name[0] == '\0' || strchr(name, '/') || strcmp(name, "..") == 0 ||
        strcmp(name, ".") == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s: its file %s%s must be a name in the same folder",
                ls_show(index), ls_show(tensor), name ? ls_show(name) : "is not a string",
                name ? "" : ";");
    path = beside(index, name);
    if (!path) LS_FAIL(LS_ERR_MEMORY, "no memory to read %s", ls_show(index));
    f = file_number(set, path);
    if (f == set->files) {
        if (f == MOST_FILES)
            LS_FAIL(LS_ERR_INPUT, "%s: names more than %d files", ls_show(index), MOST_FILES);
        char *own = path;
        path = NULL;
        LS_TRY(add_file(set, own));
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
    json_t *root = NULL;
    const char *tensor;
    json_t *value;
    LS_TRY(read_index(index, &root));
    json_t *entries = json_object_get(root, "weight_map");
    json_object_foreach(entries, tensor, value) LS_TRY(take_entry(set, index, tensor, value));
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
    json_decref(root);
    return status;
}

/* ---- the public face ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_there(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

/* What to open in a folder. */
static ls_status look_into(const char *folder, char **ret_path)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    ls_status status = LS_OK;
    size_t length = strlen(folder), room = length + sizeof "/model.safetensors.index.json";
    char *path = malloc(room);
    if (!path) LS_FAIL(LS_ERR_MEMORY, "no memory to read %s", ls_show(folder));
    for (int i = 0; i < 2; i++) {
        snprintf(path, room, "%s%s%s", folder, ends_with(folder, "/") ? "" : "/", names[i]);
        if (!is_there(path)) continue;
        *ret_path = path;
        return LS_OK;
    }
    LS_FAIL(LS_ERR_INPUT, "%s: a folder without model.safetensors or model.safetensors.index.json",
            ls_show(folder));
exit:
    free(path);
    return status;
}

ls_status ls_tensor_set_open(ls_tensor_set **ret_set, const char *path)
{
    ls_status status = LS_OK;
    struct stat about;
    ls_tensor_set *set = calloc(1, sizeof *set);
    char *own = NULL;
    if (!set) LS_FAIL(LS_ERR_MEMORY, "no memory to read %s", ls_show(path));
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        LS_TRY(look_into(path, &own));
    } else {
        own = strdup(path);
        if (!own) LS_FAIL(LS_ERR_MEMORY, "no memory to read %s", ls_show(path));
    }
    if (ends_with(own, ".json")) {
        LS_TRY(open_index(set, own));
    } else {
        char *taken = own;
        own = NULL;
        LS_TRY(add_file(set, taken));
    }
    *ret_set = set;
    set = NULL;
exit:
    free(own);
    ls_tensor_set_close(&set);
    return status;
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
    size_t f = 0;
    while (i >= set->first[f + 1]) f++;
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
