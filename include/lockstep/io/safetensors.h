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
    ls_dtype dtype; /* as stored: F32, F64, F16, BF16, I32, I64 or U8 (BOOL too) */
    int n_dims;
    uint64_t dims[LS_TENSOR_MAX_DIMS];
    uint64_t elements;
    const void *data; /* in the map, alignment not promised */
} ls_tensor_info;

typedef struct ls_safetensors ls_safetensors;

/* Opens and checks a file; names and data live until it is closed. The file must not be shortened
 * meanwhile. Errors: LS_ERR_INPUT, naming the file, the tensor, what was found and what is allowed;
 * LS_ERR_IO; LS_ERR_MEMORY. */
LS_API ls_status ls_safetensors_open(ls_safetensors **ret_file, const char *path) LS_MUST_USE;
/* The same for a reader that knows how many tensors there can be: a file with more is refused
 * (LS_ERR_INPUT) before any is read. __metadata__ counts as one. */
LS_API ls_status ls_safetensors_open_most(ls_safetensors **ret_file, const char *path,
                                          size_t most_tensors) LS_MUST_USE;
LS_API void ls_safetensors_close(ls_safetensors **file);

/* Tensors in the order of their data in the file (empty ones at one place: by name); i below the
 * count. */
LS_API size_t ls_safetensors_count(const ls_safetensors *file);
LS_API const ls_tensor_info *ls_safetensors_at(const ls_safetensors *file, size_t i);

/* A tensor by name; NULL when there is none. */
LS_API const ls_tensor_info *ls_safetensors_find(const ls_safetensors *file, const char *name);

/* A value of __metadata__; NULL when absent. */
LS_API const char *ls_safetensors_metadata(const ls_safetensors *file, const char *key);

/* Writing streams: declare all tensors, then give their data in that order, then commit. (Or it
 * maps, see below.) The file
 * is written next to its place under another name and renamed by commit; destroy without commit
 * leaves nothing behind, neither does any failure. The same calls give the same bytes.
 * Any NaN is written as the one that the contract names, 7fc00000 in binary32 (rule 1).
 *
 * Errors of all: LS_ERR_INPUT (a place that is no plain file or whose folder is missing; a name or
 * value that is not UTF-8; a name twice; more than LS_TENSOR_MAX_DIMS; calls out of order; data of
 * another length than declared), LS_ERR_IO (the place may not be written, the disk is full: after
 * this the writer can only be destroyed), LS_ERR_MEMORY. */
typedef struct ls_safetensors_writer ls_safetensors_writer;

LS_API ls_status ls_safetensors_create(ls_safetensors_writer **ret_writer,
                                       const char *path) LS_MUST_USE;
LS_API ls_status ls_safetensors_add_metadata(ls_safetensors_writer *writer, const char *key,
                                             const char *value) LS_MUST_USE;
LS_API ls_status ls_safetensors_declare(ls_safetensors_writer *writer, const char *name,
                                        ls_dtype dtype, int n_dims,
                                        const uint64_t *dims) LS_MUST_USE;

/* Data of the next declared tensor, whole: bytes = elements * bytes of the dtype. */
LS_API ls_status ls_safetensors_write(ls_safetensors_writer *writer, const void *data,
                                      size_t bytes) LS_MUST_USE;
/* Writing mapped, in place of ls_safetensors_write: when all tensors are declared the file is laid
 * out in its full size and mapped, and each tensor's place may be filled in any order, by any
 * thread, until commit or destroy; what is never filled is 0. The tensors of the widest dtype come
 * first in the file, so that each is aligned for its own. A disk too full is an error here
 * (LS_ERR_IO) and no signal later. */
LS_API ls_status ls_safetensors_map(ls_safetensors_writer *writer) LS_MUST_USE;
/* Where the i-th declared tensor's data go; after ls_safetensors_map. */
LS_API void *ls_safetensors_place(const ls_safetensors_writer *writer, size_t i);

LS_API ls_status ls_safetensors_commit(ls_safetensors_writer *writer) LS_MUST_USE;
LS_API void ls_safetensors_destroy(ls_safetensors_writer **writer);

LS_END_DECLS

#endif
