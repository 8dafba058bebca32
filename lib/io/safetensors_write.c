/* safetensors_write.c - a safetensors file, streamed or mapped.
 *
 * The header comes first in the file and needs every tensor's place, so all are declared before the
 * first byte of data. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "base/utf8.h"
#include "io/new_file.h"
#include "io/safetensors_format.h"
#include "lockstep/base/show.h"
#include "numerics/name_nans.h"
#include "base/allocate.h"

typedef struct declared {
    json_t *entry; /* in the header */
    ls_dtype dtype;
    uint64_t bytes, begin;
} declared;

struct ls_safetensors_writer {
    char *path;
    ls_new_file *file;
    json_t *header;
    size_t count, room; /* tensors declared                            */
    declared *tensors;
    uint64_t end; /* of the data declared so far                 */
    size_t next;  /* the tensor whose data come next             */
    int started;  /* the header is written: no more declarations */
    char *data;   /* in the map; NULL: streamed                  */
};

ls_status ls_safetensors_create(ls_safetensors_writer **ret_writer, const char *path)
{
    ls_status status = LS_OK;
    ls_safetensors_writer *writer = NULL;
    LS_NEW(writer, 1);
    LS_COPY(writer->path, path);
    writer->header = json_object();
    if (!writer->header)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to write %s", ls_show(path));
    LS_TRY(ls_new_file_create(&writer->file, path));
    *ret_writer = writer;
    writer = NULL;
exit:
    ls_safetensors_destroy(&writer);
    return status;
}

void ls_safetensors_destroy(ls_safetensors_writer **writer)
{
    if (!*writer) return;
    ls_new_file_destroy(&(*writer)->file);
    json_decref((*writer)->header);
    free((*writer)->tensors);
    free((*writer)->path);
    free(*writer);
    *writer = NULL;
}

ls_status ls_safetensors_add_metadata(ls_safetensors_writer *writer, const char *key,
                                      const char *value)
{
    ls_status status = LS_OK;
    if (writer->started)
        LS_FAIL(LS_ERR_INPUT, "%s: metadata \"%s\" comes after the first data",
                ls_show(writer->path), ls_show(key));
    json_t *metadata = json_object_get(writer->header, LS_SAFETENSORS_METADATA);
    if (!metadata) {
        metadata = json_object();
        if (json_object_set_new(writer->header, LS_SAFETENSORS_METADATA, metadata) != 0)
            LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to write %s", ls_show(writer->path));
    }
    if (!ls_is_utf8(key) || !ls_is_utf8(value))
        LS_FAIL(LS_ERR_INPUT, "%s: metadata \"%s\": \"%s\" is not UTF-8", ls_show(writer->path),
                ls_show(key), ls_show(value));
    if (json_object_set_new(metadata, key, json_string(value)) != 0)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to write %s", ls_show(writer->path));
exit:
    return status;
}

/* Bytes of a tensor and the place after it, as far as JSON can say them. */
static int place(ls_dtype dtype, int n_dims, const uint64_t *dims, uint64_t begin,
                 uint64_t *ret_bytes)
{
    uint64_t bytes = ls_dtype_bytes(dtype);
    if (bytes == 0) return 0;
    for (int i = 0; i < n_dims; i++)
        if (dims[i] == 0) bytes = 0;
    for (int i = 0; i < n_dims; i++) {
        if (dims[i] > INT64_MAX || (bytes > 0 && dims[i] > INT64_MAX / bytes)) return 0;
        bytes *= dims[i];
    }
    *ret_bytes = bytes;
    return bytes <= INT64_MAX - begin;
}

static json_t *make_entry(ls_dtype dtype, int n_dims, const uint64_t *dims, uint64_t begin,
                          uint64_t end)
{
    json_t *shape = json_array();
    for (int i = 0; shape && i < n_dims; i++) {
        if (json_array_append_new(shape, json_integer((json_int_t)dims[i])) == 0) continue;
        json_decref(shape);
        return NULL;
    }
    return shape ? json_pack("{s:s, s:o, s:[I, I]}", "dtype", ls_dtype_name(dtype), "shape", shape,
                             "data_offsets", (json_int_t)begin, (json_int_t)end)
                 : NULL;
}

ls_status ls_safetensors_declare(ls_safetensors_writer *writer, const char *name, ls_dtype dtype,
                                 int n_dims, const uint64_t *dims)
{
    ls_status status = LS_OK;
    uint64_t bytes = 0;
    json_t *entry = NULL;
    if (writer->started)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor \"%s\" is declared after the first data",
                ls_show(writer->path), ls_show(name));
    if (!ls_is_utf8(name) || name[0] == '\0' || strcmp(name, LS_SAFETENSORS_METADATA) == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: a tensor cannot have the name \"%s\"", ls_show(writer->path),
                ls_show(name));
    if (json_object_get(writer->header, name))
        LS_FAIL(LS_ERR_INPUT, "%s: tensor \"%s\" is declared twice", ls_show(writer->path),
                ls_show(name));
    if (n_dims < 0 || n_dims > LS_TENSOR_MAX_DIMS)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor \"%s\": %d dimensions; at most %d", ls_show(writer->path),
                ls_show(name), n_dims, LS_TENSOR_MAX_DIMS);
    if (!place(dtype, n_dims, dims, writer->end, &bytes))
        LS_FAIL(LS_ERR_INPUT, "%s: tensor \"%s\": more bytes than a file can hold",
                ls_show(writer->path), ls_show(name));
    LS_GROW(writer->tensors, writer->count, writer->room);
    entry = make_entry(dtype, n_dims, dims, writer->end, writer->end + bytes);
    if (!entry || json_object_set(writer->header, name, entry) != 0)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to write %s", ls_show(writer->path));
    writer->tensors[writer->count++] = (declared){entry, dtype, bytes, writer->end};
    writer->end += bytes;
exit:
    json_decref(entry);
    return status;
}

/* Length and header, with spaces after the JSON that make the data begin at a multiple of 8. The
 * caller frees them. */
static ls_status make_header(ls_safetensors_writer *writer, char **ret_header, size_t *ret_bytes)
{
    ls_status status = LS_OK;
    char *header = NULL, *text = ls_json_write(writer->header, JSON_COMPACT);
    if (!text) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to write %s", ls_show(writer->path));
    size_t bytes = strlen(text), padded = (bytes + 7) / 8 * 8;
    if (padded > LS_SAFETENSORS_HEADER_MAX)
        LS_FAIL(LS_ERR_INPUT, "%s: a header of %zu bytes; at most %d", ls_show(writer->path),
                padded, LS_SAFETENSORS_HEADER_MAX);
    LS_ROOM(header, LS_SAFETENSORS_LENGTH_BYTES + padded);
    for (size_t i = 0; i < LS_SAFETENSORS_LENGTH_BYTES; i++)
        header[i] = (char)(unsigned char)((uint64_t)padded >> 8 * i);
    memset(header + LS_SAFETENSORS_LENGTH_BYTES, ' ', padded);
    memcpy(header + LS_SAFETENSORS_LENGTH_BYTES, text, bytes);
    *ret_header = header;
    *ret_bytes = LS_SAFETENSORS_LENGTH_BYTES + padded;
exit:
    free(text);
    return status;
}

static ls_status write_header(ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    char *header = NULL;
    size_t bytes = 0;
    LS_TRY(make_header(writer, &header, &bytes));
    LS_TRY(ls_new_file_write(writer->file, header, bytes));
    writer->started = 1;
exit:
    free(header);
    return status;
}

ls_status ls_safetensors_write(ls_safetensors_writer *writer, const void *data, size_t bytes)
{
    ls_status status = LS_OK;
    void *named = NULL;
    if (writer->data)
        LS_FAIL(LS_ERR_INPUT, "%s: is mapped, and data go to their places", ls_show(writer->path));
    if (writer->next == writer->count)
        LS_FAIL(LS_ERR_INPUT, "%s: data of tensor number %zu, but only %zu are declared",
                ls_show(writer->path), writer->next + 1, writer->count);
    if (bytes != writer->tensors[writer->next].bytes)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor number %zu: %zu bytes of data, declared as %llu",
                ls_show(writer->path), writer->next + 1, bytes,
                (unsigned long long)writer->tensors[writer->next].bytes);
    const ls_dtype dtype = writer->tensors[writer->next].dtype;
    const size_t count = bytes / ls_dtype_bytes(dtype);
    if (ls_has_other_nans(dtype, data, count)) {
        LS_BYTES(named, bytes);
        memcpy(named, data, bytes);
        ls_name_nans(dtype, named, count);
        data = named;
    }
    if (!writer->started) LS_TRY(write_header(writer));
    LS_TRY(ls_new_file_write(writer->file, data, bytes));
    writer->next++;
exit:
    free(named);
    return status;
}

/* ---- mapped ---- */

/* Lays the tensors out anew, the widest elements first, in the order of declaration otherwise: the
 * format allows no holes, and so each begins at a multiple of its element. */
static ls_status lay_out(ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    uint64_t end = 0;
    for (size_t width = 8; width > 0; width /= 2) {
        for (size_t i = 0; i < writer->count; i++) {
            declared *tensor = &writer->tensors[i];
            if (ls_dtype_bytes(tensor->dtype) != width) continue;
            json_t *offsets = json_object_get(tensor->entry, "data_offsets");
            tensor->begin = end;
            end += tensor->bytes;
            if (json_array_set_new(offsets, 0, json_integer((json_int_t)tensor->begin)) != 0 ||
                json_array_set_new(offsets, 1, json_integer((json_int_t)end)) != 0)
                LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to write %s", ls_show(writer->path));
        }
    }
exit:
    return status;
}

ls_status ls_safetensors_map(ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    char *header = NULL;
    size_t bytes = 0;
    void *map = NULL;
    if (writer->started)
        LS_FAIL(LS_ERR_INPUT, "%s: is mapped after the first data", ls_show(writer->path));
    LS_TRY(lay_out(writer));
    LS_TRY(make_header(writer, &header, &bytes));
    if (writer->end > SIZE_MAX - bytes || writer->end > INT64_MAX - bytes)
        LS_FAIL(LS_ERR_INPUT, "%s: more bytes than a file can hold", ls_show(writer->path));
    LS_TRY(ls_new_file_map(writer->file, bytes + (size_t)writer->end, &map));
    memcpy(map, header, bytes);
    writer->data = (char *)map + bytes;
    writer->started = 1;
exit:
    free(header);
    return status;
}

void *ls_safetensors_place(const ls_safetensors_writer *writer, size_t i)
{
    return writer->data + writer->tensors[i].begin;
}

ls_status ls_safetensors_commit(ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    if (!writer->data && writer->next != writer->count)
        LS_FAIL(LS_ERR_INPUT, "%s: data of %zu tensors of %zu declared ones", ls_show(writer->path),
                writer->next, writer->count);
    if (!writer->started) LS_TRY(write_header(writer));
    for (size_t i = 0; writer->data && i < writer->count; i++) {
        const declared *tensor = &writer->tensors[i];
        ls_name_nans(tensor->dtype, writer->data + tensor->begin,
                     (size_t)tensor->bytes / ls_dtype_bytes(tensor->dtype));
    }
    writer->data = NULL;
    writer->next = writer->count;
    LS_TRY(ls_new_file_commit(writer->file));
exit:
    return status;
}
