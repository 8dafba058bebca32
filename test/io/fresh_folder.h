/* fresh_folder.h - folders of a test's own in the scratch folder, and what is in them. */
#ifndef TEST_IO_FRESH_FOLDER_H
#define TEST_IO_FRESH_FOLDER_H

#include "io/scratch.h"

/* A fresh folder of this name; a test has at most four. */
static inline const char *folder(const char *name)
{
    static char paths[4][1024];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s", scratch_path(name));
    ck_assert_int_eq(mkdir(path, 0755), 0);
    return path;
}

/* "folder/name"; one of four buffers in turn. */
static inline const char *inside(const char *folder_name, const char *name)
{
    static char paths[4][1100];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder_name, name);
    return path;
}

#endif
