/* safetensors.h - the file format of weights and tensors: 8 bytes of header length (little-endian),
 * a JSON header, the raw little-endian arrays.
 *
 * Reading maps the file and checks everything before it hands out a pointer: header length against
 * the file, JSON, known dtypes, shapes whose product matches the offsets, offsets in range, no
 * overlap, no hole, no duplicate name. */
#ifndef LS_IO_SAFETENSORS_H
#define LS_IO_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"

LS_BEGIN_DECLS

enum { LS_TENSOR_MAX_DIMS = 8 };

typedef struct ls_tensor_info {
    const char *name;
    ls_dtype dtype; /* as stored; F16 and BF16 files come with the oracle */
    int n_dims;
    uint64_t dims[LS_TENSOR_MAX_DIMS];
    uint64_t elements;
    const void *data; /* in the map, alignment not promised */
} ls_tensor_info;

typedef struct ls_safetensors ls_safetensors;

LS_API ls_status ls_safetensors_open(ls_safetensors **ret_file, const char *path) LS_MUST_USE;
LS_API void ls_safetensors_close(ls_safetensors **file);
LS_API size_t ls_safetensors_count(const ls_safetensors *file);
LS_API const ls_tensor_info *ls_safetensors_at(const ls_safetensors *file, size_t i);
LS_API const ls_tensor_info *ls_safetensors_find(const ls_safetensors *file, const char *name);

/* A value of __metadata__; NULL when absent. */
LS_API const char *ls_safetensors_metadata(const ls_safetensors *file, const char *key);

/* Writing streams: declare all tensors, then give their data in that order, then commit. The file
 * is written beside its place under another name and renamed by commit; destroy without commit
 * leaves nothing behind. */
typedef struct ls_safetensors_writer ls_safetensors_writer;

LS_API ls_status ls_safetensors_create(ls_safetensors_writer **ret_writer,
                                       const char *path) LS_MUST_USE;
LS_API ls_status ls_safetensors_add_metadata(ls_safetensors_writer *writer, const char *key,
                                             const char *value) LS_MUST_USE;
LS_API ls_status ls_safetensors_declare(ls_safetensors_writer *writer, const char *name,
                                        ls_dtype dtype, int n_dims,
                                        const uint64_t *dims) LS_MUST_USE;

/* Data of the next declared tensor; whole. */
LS_API ls_status ls_safetensors_write(ls_safetensors_writer *writer, const void *data,
                                      size_t bytes) LS_MUST_USE;
LS_API ls_status ls_safetensors_commit(ls_safetensors_writer *writer) LS_MUST_USE;
LS_API void ls_safetensors_destroy(ls_safetensors_writer **writer);

LS_END_DECLS

#endif
