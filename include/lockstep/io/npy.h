/* npy.h - single tensors as NumPy writes them (format 1.0, C order, little-endian). */
#ifndef LS_IO_NPY_H
#define LS_IO_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"

LS_BEGIN_DECLS

/* Writes beside its place, then renames. */
LS_API ls_status ls_npy_write(const char *path, ls_dtype dtype, int n_dims, const uint64_t *dims,
                              const void *data) LS_MUST_USE;

/* Reads; *ret_data is freed by the caller. dims: 8 entries. */
LS_API ls_status ls_npy_read(const char *path, ls_dtype *ret_dtype, int *ret_n_dims,
                             uint64_t *ret_dims, void **ret_data) LS_MUST_USE;

LS_END_DECLS

#endif
