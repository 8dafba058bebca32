/* npy.h - single tensors as NumPy writes them (written in format 1.0; C order, little-endian). */
#ifndef LS_IO_NPY_H
#define LS_IO_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"

LS_BEGIN_DECLS

enum { LS_NPY_MAX_DIMS = 8 };

/* Writes an array, row-major, next to its place, then renames. n_dims: 0 (one number) to
 * LS_NPY_MAX_DIMS. Errors, each naming the file: LS_ERR_INPUT (BF16, which NumPy does not know; too
 * many dimensions; a place that is no plain file), LS_ERR_IO, LS_ERR_MEMORY; nothing is left
 * behind.
 */
LS_API ls_status ls_npy_write(const char *path, ls_dtype dtype, int n_dims, const uint64_t *dims,
                              const void *data) LS_MUST_USE;

/* Reads an array that NumPy or ls_npy_write saved; *ret_data is aligned as malloc does and freed by
 * the caller. ret_dims: LS_NPY_MAX_DIMS entries, those from *ret_n_dims on 0. Errors, each naming
 * the file: LS_ERR_INPUT (missing, not npy, another dtype, Fortran order, truncated or too long),
 * LS_ERR_IO, LS_ERR_MEMORY. */
LS_API ls_status ls_npy_read(const char *path, ls_dtype *ret_dtype, int *ret_n_dims,
                             uint64_t *ret_dims, void **ret_data) LS_MUST_USE;

LS_END_DECLS

#endif
