/* dump_spool.h - a nameless file that many threads write at once, each at a place of its own. */
#ifndef LS_GOLDEN_DUMP_SPOOL_H
#define LS_GOLDEN_DUMP_SPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/status.h"

typedef struct dump_spool dump_spool;

/* Makes the file at `path` and takes its name away: it goes with the spool. Errors: LS_ERR_IO,
 * LS_ERR_MEMORY. */
ls_status ls_dump_spool_create(dump_spool **ret_spool, const char *path) LS_MUST_USE;
void ls_dump_spool_destroy(dump_spool **spool);

/* Appends `rows` rows of row_bytes each, stride_bytes from row to row in memory, without what
 * is between them. *ret_offset: where they begin. Any thread. Errors: LS_ERR_IO (a full disk),
 * LS_ERR_MEMORY. */
ls_status ls_dump_spool_append(dump_spool *spool, const void *values, size_t rows, size_t row_bytes,
                               size_t stride_bytes, uint64_t *ret_offset) LS_MUST_USE;

/* Reads back what was appended. */
ls_status ls_dump_spool_read(const dump_spool *spool, void *bytes, size_t count,
                             uint64_t offset) LS_MUST_USE;

#endif
