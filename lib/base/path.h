/* path.h - paths put together and taken apart, as texts. */
#ifndef LS_BASE_PATH_H
#define LS_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* How much of a path is its folder, with the slash; 0 where it names none. */
size_t ls_folder_length(const char *path);

/* "folder/name", for the caller to free; NULL: no memory. */
char *ls_path_inside(const char *folder, const char *name);

/* `name` in the folder that the file `path` is in, for the caller to free; NULL: no memory. */
char *ls_path_beside(const char *path, const char *name);

bool ls_path_ends_with(const char *path, const char *end);

#endif
