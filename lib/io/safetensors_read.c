/* safetensors_read.c - a safetensors file as a table of checked tensors.
 *
 * In the order of the format: the length of the header, the header's JSON, each tensor's entry, and
 * last how their data lie next to each other. Nothing of the file is believed before it was
 * checked: every number is compared with what is left of the file, never added first. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_text.h"
#include "io/safetensors_format.h"
#include "lockstep/base/show.h"
#include "base/allocate.h"

struct ls_safetensors {
    char *path;
    const unsigned char *map;
    size_t map_bytes;
    ls_tensor_bytes data; /* after the header */
    ls_json_span header;
    size_t most_tensors;
    json_t *metadata; /* NULL: none */
    char *names;      /* of all tensors, each with its zero byte */
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

/* How files of PyTorch begin, which hold a program (a pickle) and not only numbers. */
static bool is_pytorch(const unsigned char *bytes)
{
    return memcmp(bytes, "PK\3\4", 4) == 0 || (bytes[0] == 0x80 && bytes[1] <= 5);
}

static ls_status read_header(ls_safetensors *file)
{
    ls_status status = LS_OK;
    const unsigned char *text = file->map + LS_SAFETENSORS_LENGTH_BYTES;
    size_t rest = file->map_bytes - LS_SAFETENSORS_LENGTH_BYTES;
    uint64_t length = 0;
    for (int i = LS_SAFETENSORS_LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | file->map[i];
    if (length > rest && is_pytorch(file->map))
        LS_FAIL(LS_ERR_INPUT,
                "%s: begins as a file of torch.save (a zip or a pickle) does; only safetensors are "
                "read: convert it with safetensors.torch.save_file",
                ls_show(file->path));
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
    file->header = (ls_json_span){(const char *)text, (size_t)length};
    file->data = (ls_tensor_bytes){text + length, rest - length};
exit:
    return status;
}

static ls_status check_metadata(const ls_safetensors *file)
{
    ls_status status = LS_OK;
    json_t *metadata = file->metadata;
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

/* ---- all tensors together ---- */

static uint64_t begin_of(const ls_safetensors *file, const ls_tensor_info *info)
{
    return (uint64_t)((const unsigned char *)info->data - file->data.bytes);
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
    /* An empty tensor lies before the one that begins where it is. */
    if (bytes_of(a) != bytes_of(b)) return bytes_of(a) < bytes_of(b) ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_names(const void *left, const void *right)
{
    const ls_tensor_info *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static ls_status check_names(const ls_safetensors *file)
{
    ls_status status = LS_OK;
    char label[LS_TENSOR_LABEL_BYTES];
    for (size_t i = 1; i < file->count; i++)
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0)
            LS_FAIL(LS_ERR_INPUT, "%s: is a duplicate: the header has two tensors of this name",
                    ls_tensor_label(file->path, file->by_name[i]->name, label));
exit:
    return status;
}

/* Sorted by place, each tensor must begin where the one before it ends, and the last must end where
 * the file does: so there is neither overlap nor hole. */
static ls_status check_places(const ls_safetensors *file)
{
    ls_status status = LS_OK;
    char label[LS_TENSOR_LABEL_BYTES];
    uint64_t end = 0;
    for (size_t i = 0; i < file->count; i++) {
        const ls_tensor_info *info = &file->tensors[i];
        uint64_t begin = begin_of(file, info);
        if (begin < end) {
            /* In this order it is the one before that reaches so far. */
            LS_FAIL(LS_ERR_INPUT,
                    "%s: its data begin at %llu, inside those of \"%s\", which end at %llu",
                    ls_tensor_label(file->path, info->name, label), (unsigned long long)begin,
                    ls_show(file->tensors[i - 1].name), (unsigned long long)end);
        }
        if (begin > end) {
            LS_FAIL(
                LS_ERR_INPUT,
                "%s: its data begin at %llu, the data before them end at %llu; no hole is allowed",
                ls_tensor_label(file->path, info->name, label), (unsigned long long)begin,
                (unsigned long long)end);
        }
        end += bytes_of(info);
    }
    if (end != file->data.count) {
        LS_FAIL(LS_ERR_INPUT,
                "%s: %llu bytes stand behind the data of its last tensor; none are allowed",
                ls_show(file->path), (unsigned long long)(file->data.count - end));
    }
exit:
    return status;
}

/* A key of the header as a string, stored at *ret_end, which moves past it. */
static ls_status store_name(const char *label, ls_json_span key, char **ret_end)
{
    ls_status status = LS_OK;
    json_t *text = NULL;
    LS_TRY(ls_json_parse(label, key, &text));
    const size_t bytes = json_string_length(text) + 1;
    memcpy(*ret_end, json_string_value(text), bytes);
    *ret_end += bytes;
exit:
    json_decref(text);
    return status;
}

/* One member of the header: a tensor, or the metadata. *ret_end: where its name goes. */
static ls_status read_member(ls_safetensors *file, const char *label, ls_json_span key,
                             ls_json_span value, char **ret_end)
{
    ls_status status = LS_OK;
    const char *name = *ret_end;
    json_t *entry = NULL;
    LS_TRY(store_name(label, key, ret_end));
    LS_TRY(ls_json_parse(label, value, &entry));
    if (strcmp(name, LS_SAFETENSORS_METADATA) == 0) {
        if (file->metadata)
            LS_FAIL(LS_ERR_INPUT, "%s: __metadata__ is a duplicate: the header has two", label);
        file->metadata = entry;
        entry = NULL;
        LS_TRY(check_metadata(file));
    } else {
        LS_TRY(ls_safetensors_entry(file->path, name, entry, &file->data,
                                    &file->tensors[file->count]));
        file->count++;
    }
exit:
    json_decref(entry);
    return status;
}

/* The header is read member by member, so that it takes memory only for what is kept. */
static ls_status read_tensors(ls_safetensors *file)
{
    ls_status status = LS_OK;
    char label[LS_TENSOR_LABEL_BYTES], *end;
    size_t most = 0;
    ls_json_scan scan;
    ls_json_span key, value;
    snprintf(label, sizeof label, "%s: its header", ls_show(file->path));
    ls_json_open(&scan, file->header, '{');
    while (ls_json_next(&scan, &key, &value)) most++;
    if (scan.fault) LS_TRY(ls_json_fault(label, file->header, &scan));
    if (most > file->most_tensors)
        LS_FAIL(LS_ERR_INPUT, "%s: has %zu tensors; at most %zu are expected", ls_show(file->path),
                most, file->most_tensors);
    LS_NEW(file->tensors, most);
    LS_NEW(file->by_name, most);
    LS_ROOM(file->names, file->header.bytes); /* a key is at least as long as its name */
    end = file->names;
    ls_json_open(&scan, file->header, '{');
    while (ls_json_next(&scan, &key, &value)) LS_TRY(read_member(file, label, key, value, &end));
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_places);
    for (size_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    LS_TRY(check_names(file));
    LS_TRY(check_places(file));
exit:
    return status;
}

/* ---- the public face ---- */

ls_status ls_safetensors_open(ls_safetensors **ret_file, const char *path)
{
    return ls_safetensors_open_most(ret_file, path, SIZE_MAX);
}

ls_status ls_safetensors_open_most(ls_safetensors **ret_file, const char *path, size_t most_tensors)
{
    ls_status status = LS_OK;
    ls_safetensors *file = NULL;
    LS_NEW(file, 1);
    LS_COPY(file->path, path);
    file->most_tensors = most_tensors;
    LS_TRY(map_file(file));
    LS_TRY(read_header(file));
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
    json_decref((*file)->metadata);
    free((*file)->names);
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
    return json_string_value(json_object_get(file->metadata, key));
}
