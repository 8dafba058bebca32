/* temporary_name.h - names of files and folders that are not complete yet, and what was left under
 * such names by processes that were killed. */
#ifndef LS_IO_TEMPORARY_NAME_H
#define LS_IO_TEMPORARY_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/status.h"

enum { LS_TEMPORARY_NAME = 64 };

/* Writes ".lockstep-PLACE-PID-N" and the ending (".tmp", ".dir"), N another one at each call. PLACE
 * is a number of the running system and its process ids: another machine, a machine that was
 * started again and a container with process ids of its own have other ones. */
void ls_temporary_name(char ret_name[LS_TEMPORARY_NAME], const char *ending);

/* The error, from errno, when such a name cannot be made in the folder of `path`. name: what was to
 * be written, as the caller gave it. LS_ERR_INPUT: there is no such folder. */
ls_status ls_cannot_create(const char *name, const char *path) LS_MUST_USE;

/* Removes what dead processes left in the folder of `path`: only where PLACE is this process's, no
 * process has the id, and the file or folder belongs to this user. What cannot be removed stays.
 * Within a folder that has such a name itself, nothing is looked for. */
void ls_remove_left_over(const char *path);

/* Removes a folder with the files in it and in its folders; no symbolic link is followed. */
void ls_remove_folder(const char *path);

#endif
