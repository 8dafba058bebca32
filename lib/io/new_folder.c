/* new_folder.c - a folder of files that appears whole or not at all. */
#include "io/new_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "base/error_record.h"
#include "base/path.h"
#include "io/temporary_name.h"
#include "io/unfinished.h"
#include "lockstep/base/show.h"
#include "base/allocate.h"

/* Something in the folder. */
typedef struct part {
    struct part *next; /* the one made before */
    bool folder;
    char path[];
} part;

struct ls_new_folder {
    char *name;          /* as the caller gave it, for texts   */
    char *place;         /* the same behind any symbolic link  */
    char *temporary;     /* NULL when there is none to remove  */
    _Atomic(part *) all; /* last first: a folder comes after what is in it */
    int listed;          /* its place in `unfinished`, or -1   */
};

/* The folders that stand under temporary names now. An entry belongs to the thread that takes it
 * out, the folder's own thread or a signal handler. */
enum { MOST_LISTED = 4 };
static _Atomic(ls_new_folder *) unfinished[MOST_LISTED];

static void list(ls_new_folder *folder)
{
    for (int i = 0; i < MOST_LISTED && folder->listed < 0; i++) {
        ls_new_folder *none = NULL;
        if (atomic_compare_exchange_strong(&unfinished[i], &none, folder)) folder->listed = i;
    }
}

/* Whether the folder is still this thread's. */
static bool unlist(ls_new_folder *folder)
{
    ls_new_folder *own = folder;
    int listed = folder->listed;
    folder->listed = -1;
    return listed < 0 || atomic_compare_exchange_strong(&unfinished[listed], &own, NULL);
}

static void remove_parts(ls_new_folder *folder)
{
    for (part *p = atomic_load(&folder->all); p; p = p->next) {
        if (p->folder)
            rmdir(p->path);
        else
            unlink(p->path);
    }
    rmdir(folder->temporary);
}

void ls_new_folders_abandon(void)
{
    ls_unfinished_remove();
    for (int i = 0; i < MOST_LISTED; i++) {
        ls_new_folder *folder = atomic_exchange(&unfinished[i], NULL);
        if (folder) remove_parts(folder);
    }
}

/* ---- places ---- */

static ls_status look_at_place(ls_new_folder *folder)
{
    ls_status status = LS_OK;
    struct stat about;
    size_t length = strlen(folder->name);
    if (lstat(folder->name, &about) != 0) {
        if (errno != ENOENT)
            LS_FAIL(errno == ENOTDIR || errno == ENAMETOOLONG ? LS_ERR_INPUT : LS_ERR_IO,
                    "%s: cannot be written: %s", ls_show(folder->name), ls_show_errno(errno));
        LS_COPY(folder->place, folder->name);
        while (length > 0 && folder->place[length - 1] == '/') folder->place[--length] = '\0';
        if (length == 0)
            LS_FAIL(LS_ERR_INPUT, "\"%s\": names no folder to write", ls_show(folder->name));
        goto exit;
    }
    folder->place = realpath(folder->name, NULL);
    if (!folder->place || stat(folder->place, &about) != 0)
        LS_FAIL(LS_ERR_INPUT, "%s: a symbolic link to nothing: %s", ls_show(folder->name),
                ls_show_errno(errno));
    if (!S_ISDIR(about.st_mode))
        LS_FAIL(LS_ERR_INPUT, "%s: is no folder; name a folder to write", ls_show(folder->name));
    if (strcmp(folder->place, "/") == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: is the root folder; name another", ls_show(folder->name));
exit:
    return status;
}

/* A free name in the folder of the place. */
static ls_status temporary_name(const ls_new_folder *folder, char **ret_name)
{
    ls_status status = LS_OK;
    const size_t before = ls_folder_length(folder->place);
    char *name = NULL;
    LS_ROOM(name, before + LS_TEMPORARY_NAME);
    memcpy(name, folder->place, before);
    ls_temporary_name(name + before, ".dir");
    *ret_name = name;
exit:
    return status;
}

static ls_status open_temporary(ls_new_folder *folder)
{
    ls_status status = LS_OK;
    char *name = NULL;
    sigset_t mask;
    bool held = false;
    LS_TRY(ls_names_hold_for(folder->name, &mask, &held));
    ls_remove_left_over(folder->place);
    for (int attempt = 0; !folder->temporary; attempt++) {
        LS_TRY(temporary_name(folder, &name));
        if (mkdir(name, 0777) == 0) {
            folder->temporary = name;
            name = NULL;
        } else if (errno != EEXIST || attempt == 1000) {
            LS_TRY(ls_cannot_create(folder->name, folder->place));
        }
        free(name);
        name = NULL;
    }
    list(folder);
exit:
    if (held) ls_names_release(&mask);
    free(name);
    return status;
}

ls_status ls_new_folder_create(ls_new_folder **ret_folder, const char *path)
{
    ls_status status = LS_OK;
    ls_new_folder *folder = NULL;
    LS_NEW(folder, 1);
    folder->listed = -1;
    LS_COPY(folder->name, path);
    LS_TRY(look_at_place(folder));
    LS_TRY(open_temporary(folder));
    *ret_folder = folder;
    folder = NULL;
exit:
    ls_new_folder_destroy(&folder);
    return status;
}

/* ---- what is in it ---- */

static ls_status add(ls_new_folder *folder, const char *name, bool is_folder, const char **ret_path)
{
    ls_status status = LS_OK;
    size_t room = strlen(folder->temporary) + strlen(name) + 2;
    part *p = NULL;
    LS_BYTES(p, sizeof *p + room);
    p->folder = is_folder;
    snprintf(p->path, room, "%s/%s", folder->temporary, name);
    p->next = atomic_load(&folder->all);
    atomic_store(&folder->all, p);
    *ret_path = p->path;
exit:
    return status;
}

ls_status ls_new_folder_file(ls_new_folder *folder, const char *name, const char **ret_path)
{
    return add(folder, name, false, ret_path);
}

ls_status ls_new_folder_inner(ls_new_folder *folder, const char *name)
{
    ls_status status = LS_OK;
    const char *path = NULL;
    sigset_t mask;
    bool held = false;
    LS_TRY(ls_names_hold_for(folder->name, &mask, &held));
    LS_TRY(add(folder, name, true, &path));
    if (mkdir(path, 0777) != 0)
        LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(folder->name),
                ls_show_errno(errno));
exit:
    if (held) ls_names_release(&mask);
    return status;
}

/* ---- the end ---- */

/* A file or a folder of the new one is on the disk before the folder gets its name. */
static ls_status flush(const char *path)
{
    ls_status status = LS_OK;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    /* A file that was asked for and never written is not there; some systems have no fsync. */
    if (descriptor < 0 && errno == ENOENT) goto exit;
    if (descriptor < 0 || (fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP))
        LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(path), ls_show_errno(errno));
exit:
    if (descriptor >= 0) close(descriptor);
    return status;
}

static ls_status flush_all(const ls_new_folder *folder)
{
    ls_status status = LS_OK;
    for (const part *p = atomic_load(&folder->all); p; p = p->next) LS_TRY(flush(p->path));
    LS_TRY(flush(folder->temporary));
exit:
    return status;
}

/* Exchanges two names at once; false: this system or file system cannot. */
static bool exchange(const char *one, const char *other)
{
#if defined __linux__ && defined SYS_renameat2
    enum { EXCHANGE = 2 }; /* RENAME_EXCHANGE, which not every C library has */
    return syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, EXCHANGE) == 0;
#elif defined __APPLE__ && defined RENAME_SWAP
    return renamex_np(one, other, RENAME_SWAP) == 0;
#else
    (void)one;
    (void)other;
    return false;
#endif
}

/* In two steps: for a moment neither has the name. */
static ls_status replace(const ls_new_folder *folder, const char *old)
{
    ls_status status = LS_OK;
    if (rename(folder->place, old) != 0)
        LS_FAIL(LS_ERR_IO, "%s: cannot be replaced: %s", ls_show(folder->name),
                ls_show_errno(errno));
    if (rename(folder->temporary, folder->place) != 0) {
        const int error = errno;
        (void)!rename(old, folder->place);
        LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(folder->name),
                ls_show_errno(error));
    }
exit:
    return status;
}

ls_status ls_new_folder_commit(ls_new_folder *folder)
{
    ls_status status = LS_OK;
    char *old = NULL;
    struct stat about;
    sigset_t mask;
    bool held = false;
    LS_TRY(flush_all(folder));
    /* To the end: no signal leaves half of `old`. */
    LS_TRY(ls_names_hold_for(folder->name, &mask, &held));
    LS_TRY(temporary_name(folder, &old));
    if (stat(folder->place, &about) != 0) {
        if (rename(folder->temporary, folder->place) != 0)
            LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(folder->name),
                    ls_show_errno(errno));
    } else if (!S_ISDIR(about.st_mode)) {
        LS_FAIL(LS_ERR_INPUT, "%s: is no folder any more", ls_show(folder->name));
    } else if (exchange(folder->temporary, folder->place)) {
        strcpy(old, folder->temporary);
    } else {
        LS_TRY(replace(folder, old));
    }
    /* From here on a signal does not touch the new folder: its parts' names are gone. */
    if (unlist(folder)) free(folder->temporary);
    folder->temporary = NULL;
    ls_remove_folder(old);
exit:
    if (held) ls_names_release(&mask);
    free(old);
    return status;
}

void ls_new_folder_destroy(ls_new_folder **folder)
{
    ls_new_folder *own = *folder;
    if (!own) return;
    sigset_t mask;
    const bool held = ls_names_hold(&mask);
    if (own->temporary) remove_parts(own);
    const bool mine = unlist(own);
    if (held) ls_names_release(&mask);
    if (own->temporary && mine) {
        for (size_t n = strlen(own->name); n > 1 && own->name[n - 1] == '/';) own->name[--n] = '\0';
        ls_error_rename(own->temporary, own->name); /* what failed there, in the user's words */
    }
    *folder = NULL;
    if (!mine) return; /* a signal handler is walking over it, and the process ends */
    for (part *p = atomic_load(&own->all), *next; p; p = next) {
        next = p->next;
        free(p);
    }
    free(own->temporary);
    free(own->place);
    free(own->name);
    free(own);
}
