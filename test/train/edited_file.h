/* edited_file.h - safetensors files with one thing changed, for tests of checkpoints. */
#ifndef TEST_TRAIN_EDITED_FILE_H
#define TEST_TRAIN_EDITED_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "../io/scratch.h"
#include "lockstep/io/safetensors.h"

typedef enum edit_kind {
    KEEP = 0,
    DROP,   /* without tensor `name`                             */
    RENAME, /* it is called `to`                                 */
    AGAIN,  /* it is there once more as `to`                     */
    CHANGE, /* the same, with one bit of its last value changed  */
    RETYPE, /* its dtype is `dtype`, of the same size            */
    ADD,    /* `to` is there too: 3 bytes                        */
    PREFIX, /* every name begins with `to`                       */
    CONVERT /* every F32 becomes `dtype`, F16 or BF16: cut off   */
} edit_kind;

typedef struct edit {
    edit_kind kind;
    const char *name, *to;
    ls_dtype dtype;
} edit;

/* The upper half of a binary32, or the binary16 nearest to zero of it: what a test may put in. */
static inline uint16_t shorter(float value, ls_dtype dtype)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == LS_BF16) return (uint16_t)(bits >> 16);
    uint32_t exponent = bits >> 23 & 255;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    if (exponent < 113) return sign; /* below 2^-14: zero */
    return (uint16_t)(sign | (exponent - 112) << 10 | (bits >> 13 & 0x3ff));
}

static inline void put(ls_safetensors_writer *to, const ls_tensor_info *info, const char *name,
                       const edit *e, bool hit, bool data)
{
    size_t bytes = info->elements * ls_dtype_bytes(info->dtype);
    ls_dtype dtype = hit && e->kind == RETYPE ? e->dtype : info->dtype;
    unsigned char *copy = malloc(bytes + 1);
    memcpy(copy, info->data, bytes);
    if (hit && e->kind == CHANGE && strcmp(name, e->to) == 0) copy[bytes - 4] ^= 1;
    if (e->kind == CONVERT) {
        dtype = e->dtype;
        bytes = info->elements * 2;
        for (size_t i = 0; i < info->elements; i++) {
            float value;
            memcpy(&value, (const char *)info->data + 4 * i, sizeof value);
            uint16_t half = shorter(value, dtype);
            memcpy(copy + 2 * i, &half, sizeof half);
        }
    }
    if (data)
        ASSERT_OK(ls_safetensors_write(to, copy, bytes));
    else
        ASSERT_OK(ls_safetensors_declare(to, name, dtype, info->n_dims, info->dims));
    free(copy);
}

/* Copies the tensors of `from` that `part` of `parts` has. */
static inline void copy_file(const char *from, const char *path, const edit *e, size_t part,
                             size_t parts)
{
    static const unsigned char zeros[3];
    static const uint64_t three = 3;
    ls_safetensors *source;
    ls_safetensors_writer *to;
    bool found = e->kind == KEEP || e->kind == ADD || e->kind == CONVERT || e->kind == PREFIX;
    ASSERT_OK(ls_safetensors_open(&source, from));
    ASSERT_OK(ls_safetensors_create(&to, path));
    for (int data = 0; data < 2; data++) {
        for (size_t i = 0; i < ls_safetensors_count(source); i++) {
            const ls_tensor_info *info = ls_safetensors_at(source, i);
            bool hit = e->name && strcmp(info->name, e->name) == 0;
            if (i % parts != part || strncmp(info->name, "optimizer.", 10) == 0) continue;
            found = found || hit;
            if (hit && e->kind == DROP) continue;
            char longer[200];
            snprintf(longer, sizeof longer, "%s%s", e->kind == PREFIX ? e->to : "", info->name);
            put(to, info, hit && e->kind == RENAME ? e->to : longer, e, hit, data);
            if (hit && (e->kind == AGAIN || e->kind == CHANGE)) put(to, info, e->to, e, hit, data);
        }
        if (e->kind == ADD) {
            if (data)
                ASSERT_OK(ls_safetensors_write(to, zeros, sizeof zeros));
            else
                ASSERT_OK(ls_safetensors_declare(to, e->to, LS_U8, 1, &three));
        }
    }
    ck_assert_msg(found, "%s has no %s", from, e->name);
    ASSERT_OK(ls_safetensors_commit(to));
    ls_safetensors_destroy(&to);
    ls_safetensors_close(&source);
}

static const edit unchanged = {KEEP, NULL, NULL, LS_F32};

#endif
