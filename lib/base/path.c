#include "base/path.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

size_t ls_folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* The first `length` bytes of `start`, `between`, and the name. */
static char *join(const char *start, size_t length, const char *between, const char *name)
{
    const size_t middle = strlen(between), rest = strlen(name) + 1;
    char *path = ls_allocate(length + middle + rest, 1, 1, false);
    if (!path) return NULL;
    memcpy(path, start, length);
    memcpy(path + length, between, middle);
    memcpy(path + length + middle, name, rest);
    return path;
}

char *ls_path_inside(const char *folder, const char *name)
{
    return join(folder, strlen(folder), ls_path_ends_with(folder, "/") ? "" : "/", name);
}

char *ls_path_beside(const char *path, const char *name)
{
    return join(path, ls_folder_length(path), "", name);
}

bool ls_path_ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}
