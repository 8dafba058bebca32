/* safetensors_entry.c - one tensor's entry in the header: dtype, shape and offsets, checked. Every
 * number is compared with what is left of the file, never added first. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "io/safetensors_format.h"
#include "lockstep/base/show.h"

const char *ls_tensor_label(const char *path, const char *name, char buffer[LS_TENSOR_LABEL_BYTES])
{
    snprintf(buffer, LS_TENSOR_LABEL_BYTES, "%s: tensor \"%s\"", ls_show(path), ls_show(name));
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

static ls_status read_offsets(const json_t *value, const char *label, const ls_tensor_bytes *data,
                              ls_tensor_info *info)
{
    ls_status status = LS_OK;
    uint64_t begin, end;
    uint64_t needed = info->elements * ls_dtype_bytes(info->dtype);
    if (!json_is_array(value) || json_array_size(value) != 2 ||
        !read_count(json_array_get(value, 0), &begin) ||
        !read_count(json_array_get(value, 1), &end))
        LS_FAIL(LS_ERR_INPUT, "%s: its data_offsets must be two whole numbers from 0 on", label);
    if (begin > end || end > data->count) {
        LS_FAIL(LS_ERR_INPUT,
                "%s: its data_offsets are %llu to %llu; the file has %llu bytes of data", label,
                (unsigned long long)begin, (unsigned long long)end,
                (unsigned long long)data->count);
    }
    if (end - begin != needed) {
        LS_FAIL(LS_ERR_INPUT, "%s: its data_offsets hold %llu bytes; %llu elements of %s are %llu",
                label, (unsigned long long)(end - begin), (unsigned long long)info->elements,
                ls_dtype_name(info->dtype), (unsigned long long)needed);
    }
    info->data = data->bytes + begin;
exit:
    return status;
}

ls_status ls_safetensors_entry(const char *path, const char *name, const json_t *entry,
                               const ls_tensor_bytes *data, ls_tensor_info *ret_info)
{
    ls_status status = LS_OK;
    char label[LS_TENSOR_LABEL_BYTES];
    ls_tensor_label(path, name, label);
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
    LS_TRY(read_offsets(json_object_get(entry, "data_offsets"), label, data, ret_info));
exit:
    return status;
}
