/* read_file.h - a whole file in memory. */
#ifndef LS_BASE_READ_FILE_H
#define LS_BASE_READ_FILE_H

#include <stddef.h>

#include "lockstep/base/status.h"

/* Reads the file `path`, any bytes, at most `most_bytes` of them; pipes and devices too, up to
 * 1 GiB. The caller frees *ret_bytes, which holds *ret_count bytes and a zero byte after them.
 * Errors, each naming the file: LS_ERR_INPUT when it is missing, a folder or too long, or a pipe
 * from which nothing came for half a minute; LS_ERR_IO; LS_ERR_MEMORY; LS_ERR_INTERRUPTED when a
 * signal came while a pipe kept it waiting. */
ls_status ls_read_file(const char *path, size_t most_bytes, unsigned char **ret_bytes,
                       size_t *ret_count) LS_MUST_USE;

/* How long a pipe may say nothing; for tests. */
extern int ls_read_file_patience_ms;

#endif
