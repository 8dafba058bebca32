/* new_folder.h - a folder of files that appears whole or not at all.
 *
 * It is made under another name next to its place, filled, and renamed when it is complete. Until
 * then what was in its place stays as it was, and giving up leaves nothing. An old folder and the
 * new one exchange their names at once where the system can (Linux, macOS). What a killed process
 * left is removed as new_file.h says. */
#ifndef LS_IO_NEW_FOLDER_H
#define LS_IO_NEW_FOLDER_H

#include "lockstep/base/status.h"

typedef struct ls_new_folder ls_new_folder;

/* Begins a folder that will be `path`. A symbolic link is followed. Errors, each naming the folder:
 * LS_ERR_INPUT when `path` is no folder, or the one that it would be in is missing; LS_ERR_IO
 * when that one may not be written; LS_ERR_MEMORY. */
ls_status ls_new_folder_create(ls_new_folder **ret_folder, const char *path) LS_MUST_USE;

/* Where to write a file of the folder meanwhile; it is removed should the folder be given up. name:
 * "weights.safetensors", "ranks/rank-000.safetensors". The text lives as long as the folder.
 * Errors: LS_ERR_MEMORY. Not from several threads at a time. */
ls_status ls_new_folder_file(ls_new_folder *folder, const char *name,
                             const char **ret_path) LS_MUST_USE;

/* Makes a folder in the folder. Errors: LS_ERR_IO, LS_ERR_MEMORY. */
ls_status ls_new_folder_inner(ls_new_folder *folder, const char *name) LS_MUST_USE;

/* Makes sure that every file of the folder is on the disk and gives the folder its name; an older
 * folder of that name, of files and of folders of files, is removed: the caller has made sure that
 * it may be. On LS_ERR_IO it is unchanged. */
ls_status ls_new_folder_commit(ls_new_folder *folder) LS_MUST_USE;

/* Removes what was not committed; this thread's error text then names the place in place of the
 * temporary folder. */
void ls_new_folder_destroy(ls_new_folder **folder);

/* Removes the files and folders that no thread has committed so far, for a signal handler that ends
 * the process at once: calls nothing but poll, unlink and rmdir. Nothing can be committed after
 * that. */
void ls_new_folders_abandon(void);

#endif
