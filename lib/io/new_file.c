/* new_file.c - a file that appears whole or not at all. */
#include "io/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "io/temporary_name.h"
#include "io/unfinished.h"
#include "lockstep/base/show.h"
#include "base/allocate.h"

struct ls_new_file {
    int descriptor;
    char *name;      /* as the caller gave it, for texts   */
    char *place;     /* the same behind any symbolic link  */
    char *temporary; /* NULL when there is none to remove  */
    int listed;      /* its place among the unfinished, or -1 */
    void *map;       /* NULL: not mapped                   */
    size_t map_bytes;
};

/* Whether the temporary name is still this file's to free. */
static bool unlist(ls_new_file *file)
{
    int listed = file->listed;
    file->listed = -1;
    return ls_unfinished_take_off(listed, file->temporary);
}

/* What will be replaced, if anything, must be a plain file that may be written: a rename would
 * silently put a plain file in the place of a device, and would get past a write protection. */
static ls_status look_at_place(ls_new_file *file, mode_t *ret_mode)
{
    ls_status status = LS_OK;
    struct stat about;
    *ret_mode = 0;
    if (lstat(file->name, &about) != 0) {
        if (errno == ENOENT) { /* the usual case; a missing folder shows when the file is made */
            LS_COPY(file->place, file->name);
            goto exit;
        }
        LS_FAIL(errno == ENOTDIR || errno == ENAMETOOLONG ? LS_ERR_INPUT : LS_ERR_IO,
                "%s: cannot be written: %s", ls_show(file->name), ls_show_errno(errno));
    }
    file->place = realpath(file->name, NULL);
    if (!file->place || stat(file->place, &about) != 0) {
        LS_FAIL(LS_ERR_INPUT, "%s: a symbolic link to nothing: %s", ls_show(file->name),
                ls_show_errno(errno));
    }
    if (S_ISDIR(about.st_mode))
        LS_FAIL(LS_ERR_INPUT, "%s: is a folder; name a file to write", ls_show(file->name));
    if (!S_ISREG(about.st_mode))
        LS_FAIL(LS_ERR_INPUT, "%s: is a device or a pipe; name a plain file", ls_show(file->name));
    if (access(file->place, W_OK) != 0) {
        LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(file->name), ls_show_errno(errno));
    }
    *ret_mode = about.st_mode & 0777;
exit:
    return status;
}

/* Opens a new file next to the place. Its name is short whatever the place's own is, so that a name
 * of the greatest length still works. */
static ls_status open_temporary(ls_new_file *file)
{
    ls_status status = LS_OK;
    const size_t folder = ls_folder_length(file->place);
    sigset_t mask;
    bool held = false;
    char *name = NULL;
    LS_ROOM(name, folder + LS_TEMPORARY_NAME);
    LS_TRY(ls_names_hold_for(file->name, &mask, &held));
    memcpy(name, file->place, folder);
    if (file->place[folder] == '\0')
        LS_FAIL(LS_ERR_INPUT, "\"%s\": names no file to write", ls_show(file->name));
    ls_remove_left_over(file->place);
    for (int attempt = 0; file->descriptor < 0; attempt++) {
        ls_temporary_name(name + folder, ".tmp");
        file->descriptor = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        /* A name that is taken: the next. */
        if (file->descriptor >= 0 || (errno == EEXIST && attempt < 1000)) continue;
        LS_TRY(ls_cannot_create(file->name, file->place));
    }
    file->temporary = name;
    file->listed = ls_unfinished_list(name);
    name = NULL;
exit:
    if (held) ls_names_release(&mask);
    free(name);
    return status;
}

ls_status ls_new_file_create(ls_new_file **ret_file, const char *path)
{
    ls_status status = LS_OK;
    mode_t mode;
    ls_new_file *file = NULL;
    LS_NEW(file, 1);
    file->descriptor = -1;
    file->listed = -1;
    LS_COPY(file->name, path);
    LS_TRY(look_at_place(file, &mode));
    LS_TRY(open_temporary(file));
    if (mode != 0 && fchmod(file->descriptor, mode) != 0)
        LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(path), ls_show_errno(errno));
    *ret_file = file;
    file = NULL;
exit:
    ls_new_file_destroy(&file);
    return status;
}

ls_status ls_new_file_write(ls_new_file *file, const void *data, size_t bytes)
{
    ls_status status = LS_OK;
    const char *from = data;
    while (bytes > 0) {
        size_t ask = bytes < (1 << 30) ? bytes : (1 << 30); /* no system takes more than 2^31 */
        ssize_t done = write(file->descriptor, from, ask);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(file->name),
                    ls_show_errno(errno));
        }
        from += done;
        bytes -= (size_t)done;
    }
exit:
    return status;
}

/* Zeros, written: they are there, or the error is. */
static ls_status write_zeros(ls_new_file *file, size_t bytes)
{
    static const char zeros[1 << 16];
    ls_status status = LS_OK;
    for (size_t ask; bytes > 0; bytes -= ask) {
        ask = bytes < sizeof zeros ? bytes : sizeof zeros;
        LS_TRY(ls_new_file_write(file, zeros, ask));
    }
exit:
    return status;
}

/* A file that is only made longer has holes, and writing into a hole through a map on a full disk
 * is a SIGBUS. Where the system can, it sets blocks aside without writing them. */
static ls_status set_aside(ls_new_file *file, size_t bytes)
{
    ls_status status = LS_OK;
#ifdef __linux__
    int error;
    do error = posix_fallocate(file->descriptor, 0, (off_t)bytes);
    while (error == EINTR);
    if (error == 0) goto exit;
    if (error != EOPNOTSUPP && error != EINVAL && error != ENOSYS)
        LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(file->name), ls_show_errno(error));
#endif
    LS_TRY(write_zeros(file, bytes));
exit:
    return status;
}

ls_status ls_new_file_map(ls_new_file *file, size_t bytes, void **ret_map)
{
    ls_status status = LS_OK;
    LS_TRY(set_aside(file, bytes));
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor, 0);
    if (map == MAP_FAILED)
        LS_FAIL(errno == ENOMEM ? LS_ERR_MEMORY : LS_ERR_IO, "%s: cannot be mapped: %s",
                ls_show(file->name), ls_show_errno(errno));
    file->map = map;
    file->map_bytes = bytes;
    *ret_map = map;
exit:
    return status;
}

/* 0, or -1 with errno. */
static int unmap(ls_new_file *file, bool keep)
{
    int failed = 0;
    if (!file->map) return 0;
    if (keep) failed = msync(file->map, file->map_bytes, MS_SYNC);
    munmap(file->map, file->map_bytes);
    file->map = NULL;
    return failed;
}

ls_status ls_new_file_commit(ls_new_file *file)
{
    ls_status status = LS_OK;
    sigset_t mask;
    bool held = false;
    if (unmap(file, true) != 0)
        LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(file->name), ls_show_errno(errno));
    /* Some file systems have no fsync; they say EINVAL. */
    if (fsync(file->descriptor) != 0 && errno != EINVAL && errno != ENOTSUP)
        LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(file->name), ls_show_errno(errno));
    int closed = close(file->descriptor);
    file->descriptor = -1;
    LS_TRY(ls_names_hold_for(file->name, &mask, &held));
    if (closed != 0 || rename(file->temporary, file->place) != 0)
        LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(file->name), ls_show_errno(errno));
    if (unlist(file)) free(file->temporary);
    file->temporary = NULL;
exit:
    if (held) ls_names_release(&mask);
    return status;
}

void ls_new_file_destroy(ls_new_file **file)
{
    if (!*file) return;
    unmap(*file, false);
    if ((*file)->descriptor >= 0) close((*file)->descriptor);
    if ((*file)->temporary) unlink((*file)->temporary);
    if (unlist(*file)) free((*file)->temporary);
    free((*file)->place);
    free((*file)->name);
    free(*file);
    *file = NULL;
}
