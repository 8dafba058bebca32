/* safetensors_read.c - a safetensors file as a table of checked tensors.
 *
 * In the order of the format: the length of the header, the header's JSON, each tensor's entry, and
 * last how their data lie beside each other. Nothing of the file is believed before it was checked:
 * every number is compared with what is left of the file, never added first. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/safetensors_format.h"
#include "lockstep/base/show.h"

struct ls_safetensors {
    char *path;
    const unsigned char *map;
    size_t map_bytes;
    const unsigned char *data; /* behind the header */
    uint64_t data_bytes;
    json_t *header; /* owns the names and the metadata */
    size_t count;
    ls_tensor_info *tensors;        /* in the order of their data */
    const ls_tensor_info **by_name; /* the same, sorted by name   */
};

/* ---- the file and its header ---- */

static ls_status map_file(ls_safetensors *file)
{
    ls_status status = LS_OK;
    struct stat about;
    int descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        LS_FAIL(errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG ? LS_ERR_INPUT
                                                                             : LS_ERR_IO,
                "%s: %s", ls_show(file->path), ls_show_errno(errno));
    }
    if (fstat(descriptor, &about) != 0)
        LS_FAIL(LS_ERR_IO, "%s: %s", ls_show(file->path), ls_show_errno(errno));
    if (S_ISDIR(about.st_mode))
        LS_FAIL(LS_ERR_INPUT, "%s: is a folder, not a safetensors file", ls_show(file->path));
    if (!S_ISREG(about.st_mode))
        LS_FAIL(LS_ERR_INPUT, "%s: is a device or a pipe, not a plain file", ls_show(file->path));
    if (about.st_size < LS_SAFETENSORS_LENGTH_BYTES) {
        LS_FAIL(LS_ERR_INPUT,
                "%s: %jd bytes long; a safetensors file begins with 8 bytes that say "
                "how long its header is",
                ls_show(file->path), (intmax_t)about.st_size);
    }
    if ((uintmax_t)about.st_size > SIZE_MAX)
        LS_FAIL(LS_ERR_MEMORY, "%s: larger than the address space", ls_show(file->path));
    void *map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (map == MAP_FAILED) {
        LS_FAIL(errno == ENOMEM ? LS_ERR_MEMORY : LS_ERR_IO, "%s: cannot be mapped: %s",
                ls_show(file->path), ls_show_errno(errno));
    }
    file->map = map;
    file->map_bytes = (size_t)about.st_size;
exit:
    if (descriptor >= 0) close(descriptor);
    return status;
}

static ls_status read_header(ls_safetensors *file)
{
    ls_status status = LS_OK;
    json_error_t where;
    const unsigned char *text = file->map + LS_SAFETENSORS_LENGTH_BYTES;
    size_t rest = file->map_bytes - LS_SAFETENSORS_LENGTH_BYTES;
    uint64_t length = 0;
    for (int i = LS_SAFETENSORS_LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | file->map[i];
    if (length > rest) {
        LS_FAIL(
            LS_ERR_INPUT,
            "%s: its header claims %llu bytes, the file has %zu after the length; truncated, or "
            "not a safetensors file",
            ls_show(file->path), (unsigned long long)length, rest);
    }
    if (length > LS_SAFETENSORS_HEADER_MAX) {
        LS_FAIL(LS_ERR_INPUT, "%s: a header of %llu bytes; at most %d", ls_show(file->path),
                (unsigned long long)length, LS_SAFETENSORS_HEADER_MAX);
    }
    if (length == 0 || text[0] != '{')
        LS_FAIL(LS_ERR_INPUT, "%s: its header is not a JSON object: it must begin with {",
                ls_show(file->path));
    file->header = json_loadb((const char *)text, (size_t)length, JSON_REJECT_DUPLICATES, &where);
    /* The library says of what there was no memory for nothing. */
    if (!file->header && where.text[0] == '\0')
        LS_FAIL(LS_ERR_MEMORY, "%s: no memory for its header", ls_show(file->path));
    if (!file->header) {
        /* jansson gives the place in bytes as `position`. */
        LS_FAIL(LS_ERR_INPUT, "%s: its header is not JSON: at byte %d: %s", ls_show(file->path),
                where.position, ls_show(where.text));
    }
    file->data = text + length;
    file->data_bytes = rest - length;
exit:
    return status;
}

static ls_status check_metadata(const ls_safetensors *file)
{
    ls_status status = LS_OK;
    json_t *metadata = json_object_get(file->header, LS_SAFETENSORS_METADATA);
    if (!metadata) return LS_OK;
    if (!json_is_object(metadata)) {
        LS_FAIL(LS_ERR_INPUT, "%s: __metadata__ must be an object of strings", ls_show(file->path));
    }
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value)) {
            LS_FAIL(LS_ERR_INPUT, "%s: __metadata__ \"%s\": must be a string", ls_show(file->path),
                    ls_show(key));
        }
    }
exit:
    return status;
}

/* ---- one tensor's entry ---- */

/* How the text of a bad tensor begins. */
enum { LABEL_BYTES = 880 };

static const char *label_of(const ls_safetensors *file, const char *name, char buffer[LABEL_BYTES])
{
    snprintf(buffer, LABEL_BYTES, "%s: tensor \"%s\"", ls_show(file->path), ls_show(name));
    return buffer;
}

/* A whole number that is not negative. */
static int read_count(const json_t *value, uint64_t *ret_count)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) return 0;
    *ret_count = (uint64_t)json_integer_value(value);
    return 1;
}

static ls_status read_dtype(const json_t *value, const char *label, ls_dtype *ret_dtype)
{
    ls_status status = LS_OK;
    const char *name = json_string_value(value);
    for (int dtype = LS_F32; name && dtype <= LS_BF16; dtype++) {
        if (strcmp(name, ls_dtype_name((ls_dtype)dtype)) == 0) {
            *ret_dtype = (ls_dtype)dtype;
            return LS_OK;
        }
    }
    /* Truth values are bytes: attention masks that some checkpoints carry along. */
    if (name && strcmp(name, "BOOL") == 0) {
        *ret_dtype = LS_U8;
        return LS_OK;
    }
    LS_FAIL(LS_ERR_INPUT,
            "%s: dtype %s; must be \"F32\", \"F64\", \"F16\", \"BF16\", \"I32\", \"I64\", "
            "\"U8\" or \"BOOL\"",
            label, name ? ls_show(name) : "is not a string");
exit:
    return status;
}

static ls_status read_shape(const json_t *value, const char *label, ls_tensor_info *info)
{
    ls_status status = LS_OK;
    size_t n_dims = json_array_size(value);
    int has_zero = 0;
    if (!json_is_array(value) || n_dims > LS_TENSOR_MAX_DIMS)
        LS_FAIL(LS_ERR_INPUT, "%s: its shape must be an array of at most %d sizes", label,
                LS_TENSOR_MAX_DIMS);
    info->n_dims = (int)n_dims;
    for (size_t i = 0; i < n_dims; i++) {
        if (!read_count(json_array_get(value, i), &info->dims[i]))
            LS_FAIL(LS_ERR_INPUT, "%s: size %zu of its shape is not a whole number from 0 on",
                    label, i);
        has_zero |= info->dims[i] == 0;
    }
    /* With a zero among the sizes the product is 0, however large the others are. */
    info->elements = has_zero ? 0 : 1;
    for (size_t i = 0; !has_zero && i < n_dims; i++) {
        if (info->elements > UINT64_MAX / 8 / info->dims[i])
            LS_FAIL(LS_ERR_INPUT, "%s: the sizes of its shape multiply to more than 2^61 elements",
                    label);
        info->elements *= info->dims[i];
    }
exit:
    return status;
}

static ls_status read_offsets(const ls_safetensors *file, const json_t *value, const char *label,
                              ls_tensor_info *info)
{
    ls_status status = LS_OK;
    uint64_t begin, end;
    uint64_t needed = info->elements * ls_dtype_bytes(info->dtype);
    if (!json_is_array(value) || json_array_size(value) != 2 ||
        !read_count(json_array_get(value, 0), &begin) ||
        !read_count(json_array_get(value, 1), &end))
        LS_FAIL(LS_ERR_INPUT, "%s: its data_offsets must be two whole numbers from 0 on", label);
    if (begin > end || end > file->data_bytes) {
        LS_FAIL(LS_ERR_INPUT,
                "%s: its data_offsets are %llu to %llu; the file has %llu bytes of data", label,
                (unsigned long long)begin, (unsigned long long)end,
                (unsigned long long)file->data_bytes);
    }
    if (end - begin != needed) {
        LS_FAIL(LS_ERR_INPUT, "%s: its data_offsets hold %llu bytes; %llu elements of %s are %llu",
                label, (unsigned long long)(end - begin), (unsigned long long)info->elements,
                ls_dtype_name(info->dtype), (unsigned long long)needed);
    }
    info->data = file->data + begin;
exit:
    return status;
}

static ls_status read_tensor(const ls_safetensors *file, const char *name, const json_t *entry,
                             ls_tensor_info *ret_info)
{
    ls_status status = LS_OK;
    char label[LABEL_BYTES];
    label_of(file, name, label);
    const char *key;
    json_t *value;
    *ret_info = (ls_tensor_info){.name = name};
    if (!json_is_object(entry))
        LS_FAIL(LS_ERR_INPUT, "%s: its entry must be an object of dtype, shape and data_offsets",
                label);
    /* An unknown key could change what the bytes mean (a scale, say): better not to guess. */
    json_object_foreach((json_t *)entry, key, value)
    {
        if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 &&
            strcmp(key, "data_offsets") != 0)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: unknown key \"%s\"; an entry has dtype, shape and data_offsets", label,
                    ls_show(key));
    }
    LS_TRY(read_dtype(json_object_get(entry, "dtype"), label, &ret_info->dtype));
    LS_TRY(read_shape(json_object_get(entry, "shape"), label, ret_info));
    LS_TRY(read_offsets(file, json_object_get(entry, "data_offsets"), label, ret_info));
exit:
    return status;
}

/* ---- all tensors together ---- */

static uint64_t begin_of(const ls_safetensors *file, const ls_tensor_info *info)
{
    return (uint64_t)((const unsigned char *)info->data - file->data);
}

static uint64_t bytes_of(const ls_tensor_info *info)
{
    return info->elements * ls_dtype_bytes(info->dtype);
}

static int compare_places(const void *left, const void *right)
{
    const ls_tensor_info *a = left, *b = right;
    if (a->data != b->data)
        return (const unsigned char *)a->data < (const unsigned char *)b->data ? -1 : 1;
    /* An empty tensor lies before the one that begins where it stands. */
    if (bytes_of(a) != bytes_of(b)) return bytes_of(a) < bytes_of(b) ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_names(const void *left, const void *right)
{
    const ls_tensor_info *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Sorted by place, each tensor must begin where the one before it ends, and the last must end where
 * the file does: so there is neither overlap nor hole. */
static ls_status check_places(const ls_safetensors *file)
{
    ls_status status = LS_OK;
    char label[LABEL_BYTES];
    uint64_t end = 0;
    for (size_t i = 0; i < file->count; i++) {
        const ls_tensor_info *info = &file->tensors[i];
        uint64_t begin = begin_of(file, info);
        if (begin < end) {
            /* In this order it is the one before that reaches so far. */
            LS_FAIL(LS_ERR_INPUT,
                    "%s: its data begin at %llu, inside those of \"%s\", which end at %llu",
                    label_of(file, info->name, label), (unsigned long long)begin,
                    ls_show(file->tensors[i - 1].name), (unsigned long long)end);
        }
        if (begin > end) {
            LS_FAIL(
                LS_ERR_INPUT,
                "%s: its data begin at %llu, the data before them end at %llu; no hole is allowed",
                label_of(file, info->name, label), (unsigned long long)begin,
                (unsigned long long)end);
        }
        end += bytes_of(info);
    }
    if (end != file->data_bytes) {
        LS_FAIL(LS_ERR_INPUT,
                "%s: %llu bytes stand behind the data of its last tensor; none are allowed",
                ls_show(file->path), (unsigned long long)(file->data_bytes - end));
    }
exit:
    return status;
}

static ls_status read_tensors(ls_safetensors *file)
{
    ls_status status = LS_OK;
    size_t most = json_object_size(file->header);
    file->tensors = calloc(most + 1, sizeof *file->tensors);
    file->by_name = calloc(most + 1, sizeof *file->by_name);
    if (!file->tensors || !file->by_name)
        LS_FAIL(LS_ERR_MEMORY, "%s: no memory for its %zu tensors", ls_show(file->path), most);
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, LS_SAFETENSORS_METADATA) == 0) continue;
        LS_TRY(read_tensor(file, name, entry, &file->tensors[file->count]));
        file->count++;
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_places);
    LS_TRY(check_places(file));
    for (size_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
exit:
    return status;
}

/* ---- the public face ---- */

ls_status ls_safetensors_open(ls_safetensors **ret_file, const char *path)
{
    ls_status status = LS_OK;
    ls_safetensors *file = calloc(1, sizeof *file);
    if (!file) LS_FAIL(LS_ERR_MEMORY, "no memory to read %s", ls_show(path));
    file->path = strdup(path);
    if (!file->path) LS_FAIL(LS_ERR_MEMORY, "no memory to read %s", ls_show(path));
    LS_TRY(map_file(file));
    LS_TRY(read_header(file));
    LS_TRY(check_metadata(file));
    LS_TRY(read_tensors(file));
    *ret_file = file;
    file = NULL;
exit:
    ls_safetensors_close(&file);
    return status;
}

void ls_safetensors_close(ls_safetensors **file)
{
    if (!*file) return;
    if ((*file)->map) munmap((void *)(uintptr_t)(*file)->map, (*file)->map_bytes);
    json_decref((*file)->header);
    free((*file)->tensors);
    free((*file)->by_name);
    free((*file)->path);
    free(*file);
    *file = NULL;
}

size_t ls_safetensors_count(const ls_safetensors *file)
{
    return file->count;
}

const ls_tensor_info *ls_safetensors_at(const ls_safetensors *file, size_t i)
{
    return &file->tensors[i];
}

const ls_tensor_info *ls_safetensors_find(const ls_safetensors *file, const char *name)
{
    ls_tensor_info wanted = {.name = name};
    const ls_tensor_info *key = &wanted;
    if (file->count == 0) return NULL;
    const ls_tensor_info **found =
        bsearch(&key, file->by_name, file->count, sizeof *file->by_name, compare_names);
    return found ? *found : NULL;
}

const char *ls_safetensors_metadata(const ls_safetensors *file, const char *key)
{
    json_t *metadata = json_object_get(file->header, LS_SAFETENSORS_METADATA);
    return json_string_value(json_object_get(metadata, key));
}
