/* scratch.h - for tests that need files: a folder of their own, emptied and removed afterwards, and
 * what they say about an error text.
 *
 * scratch_setup and scratch_teardown are an unchecked fixture: they run in the parent of the forked
 * tests, so that a failed test leaves nothing behind either. */
#ifndef TEST_IO_SCRATCH_H
#define TEST_IO_SCRATCH_H

#include <check.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/status.h"

static char scratch_folder[256];

static inline void scratch_setup(void)
{
    const char *root = getenv("TMPDIR");
    snprintf(scratch_folder, sizeof scratch_folder, "%s/lockstep-test-XXXXXX",
             root && root[0] && strlen(root) < 200 ? root : "/tmp");
    if (!mkdtemp(scratch_folder)) abort();
    chmod(scratch_folder, 0755); /* a test may give up root and still read here */
}

static inline int scratch_remove(const char *path, const struct stat *about, int kind,
                                 struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    return remove(path);
}

static inline void scratch_teardown(void)
{
    nftw(scratch_folder, scratch_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* The path of a file in the folder; one of four buffers in turn. */
static inline const char *scratch_path(const char *name)
{
    static char paths[4][1024];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch_folder, name);
    return path;
}

/* Writes a file there and returns its path. */
static inline const char *scratch_file(const char *name, const void *bytes, size_t count)
{
    const char *path = scratch_path(name);
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "cannot write %s", path);
    ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

/* A whole file; the caller frees it. */
static inline unsigned char *scratch_read(const char *path, size_t *ret_count)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot read %s", path);
    fseek(file, 0, SEEK_END);
    *ret_count = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*ret_count + 1);
    ck_assert_uint_eq(fread(bytes, 1, *ret_count, file), *ret_count);
    fclose(file);
    return bytes;
}

/* Files in a folder. */
static inline int scratch_entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    ck_assert_msg(d != NULL, "cannot list %s", folder);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

/* `status` must be the expected one, and the error text one printable line that contains each word
 * of a list ended by NULL. Clears the record. */
static inline void assert_says(ls_status status, ls_status expected, const char *const *words)
{
    const char *text = ls_error_text();
    ck_assert_msg(status == expected, "status %d, expected %d: %s", (int)status, (int)expected,
                  text);
    ck_assert_msg(text[0] != '\0', "no text");
    for (const char *c = text; *c; c++)
        ck_assert_msg((unsigned char)*c >= 0x20 && *c != 0x7f, "a control character in: %s", text);
    for (; *words; words++)
        ck_assert_msg(strstr(text, *words) != NULL, "\"%s\" is missing in: %s", *words, text);
    ls_error_clear();
}

#define ASSERT_SAYS(call, expected, ...)                                                           \
    assert_says((call), (expected), (const char *const[]){__VA_ARGS__, NULL})

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        ls_status assert_status = (call);                                                          \
        ck_assert_msg(assert_status == LS_OK, "%s: %s", #call, ls_error_text());                   \
    } while (0)

#endif
