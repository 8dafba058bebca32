/* new_file.h - a file that appears whole or not at all.
 *
 * It is written under another name in the same folder and takes its place by one rename when it is
 * complete. Until then what was in its place stays as it was, and giving up leaves nothing.
 * What a killed process left is removed by the next file that is begun in the same folder, where
 * that process is certainly dead (temporary_name.h). */
#ifndef LS_IO_NEW_FILE_H
#define LS_IO_NEW_FILE_H

#include <stddef.h>

#include "lockstep/base/status.h"

typedef struct ls_new_file ls_new_file;

/* Begins a file that will be `path`. A symbolic link is followed, the permissions of a file to be
 * replaced are kept. Errors, each naming the file: LS_ERR_INPUT when `path` is a folder, a device
 * or a pipe, or its folder is missing; LS_ERR_IO when the folder or the file may not be written;
 * LS_ERR_MEMORY. */
ls_status ls_new_file_create(ls_new_file **ret_file, const char *path) LS_MUST_USE;

/* Appends. LS_ERR_IO (a full disk): the file can then only be destroyed. */
ls_status ls_new_file_write(ls_new_file *file, const void *data, size_t bytes) LS_MUST_USE;

/* In place of writing, before anything was written: makes the file `bytes` > 0 long, every byte 0
 * and really there (a full disk is an error here and not a signal later), and maps it. The map is
 * open to writing until the file is committed or destroyed. LS_ERR_IO: the file can then only be
 * destroyed. */
ls_status ls_new_file_map(ls_new_file *file, size_t bytes, void **ret_map) LS_MUST_USE;

/* Makes sure that everything is on the disk and gives the file its name; nothing can be written
 * after that. On LS_ERR_IO nothing is under the name that was not there before. */
ls_status ls_new_file_commit(ls_new_file *file) LS_MUST_USE;

/* Removes what was not committed. */
void ls_new_file_destroy(ls_new_file **file);

#endif
