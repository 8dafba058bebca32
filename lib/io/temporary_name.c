/* temporary_name.c - names of what is not complete yet; removing what killed processes left. */
#include "io/temporary_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include "base/path.h"
#include "lockstep/base/show.h"

#define PREFIX ".lockstep-"

/* ---- the place ---- */

static uint64_t place; /* 0: unknown, then nothing is removed */
static pthread_once_t place_once = PTHREAD_ONCE_INIT;

static uint64_t add_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u; /* FNV-1a */
    return hash;
}

/* What a running system calls itself, and which process ids count in it. */
static bool read_place(char system[128], char ids[128])
{
#ifdef __APPLE__
    size_t bytes = 128;
    ids[0] = '\0';
    return sysctlbyname("kern.bootsessionuuid", system, &bytes, NULL, 0) == 0;
#else
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    const bool read = file && fgets(system, 128, file);
    const ssize_t length = readlink("/proc/self/ns/pid", ids, 127);
    if (file) fclose(file);
    if (length > 0) ids[length] = '\0';
    return read && length > 0;
#endif
}

static void find_place(void)
{
    char system[128], ids[128];
    if (!read_place(system, ids)) return;
    place = add_text(add_text(14695981039346656037u, system), ids) | 1;
}

void ls_temporary_name(char ret_name[LS_TEMPORARY_NAME], const char *ending)
{
    static atomic_uint counter;
    pthread_once(&place_once, find_place);
    snprintf(ret_name, LS_TEMPORARY_NAME, PREFIX "%016" PRIx64 "-%ld-%u%s", place, (long)getpid(),
             atomic_fetch_add(&counter, 1), ending);
}

ls_status ls_cannot_create(const char *name, const char *path)
{
    ls_status status = LS_OK;
    const int error = errno;
    const size_t length = ls_folder_length(path);
    LS_FAIL(error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG ? LS_ERR_INPUT : LS_ERR_IO,
            "%s: cannot be created in %s: %s", ls_show(name),
            length == 0 ? "the current folder"
                        : ls_show_bytes(path, length > 1 ? length - 1 : length),
            ls_show_errno(error));
exit:
    return status;
}

/* ---- what was left ---- */

/* Whether a name is of a process of this place that is dead. */
static bool is_left_over(const char *name)
{
    uint64_t of;
    long pid;
    unsigned number;
    int end = 0;
    pthread_once(&place_once, find_place);
    if (place == 0 || strlen(name) >= LS_TEMPORARY_NAME) return false;
    if (sscanf(name, PREFIX "%16" SCNx64 "-%9ld-%9u%n", &of, &pid, &number, &end) != 3)
        return false;
    if (of != place || pid <= 0 || end == 0) return false;
    if (strcmp(name + end, ".tmp") != 0 && strcmp(name + end, ".dir") != 0) return false;
    return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* Removes a folder of the open one, with its files and folders, down to `depth`. */
static void remove_inside(int folder, const char *name, int depth)
{
    const int inside = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = inside < 0 ? NULL : fdopendir(inside);
    if (!dir && inside >= 0) close(inside);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (unlinkat(inside, entry->d_name, 0) != 0 && depth > 0)
            remove_inside(inside, entry->d_name, depth - 1);
    }
    if (dir) closedir(dir);
    unlinkat(folder, name, AT_REMOVEDIR);
}

void ls_remove_folder(const char *path)
{
    remove_inside(AT_FDCWD, path, 1);
}

void ls_remove_left_over(const char *path)
{
    const size_t length = ls_folder_length(path);
    char *folder = strndup(length ? path : ".", length ? length : 1);
    DIR *dir = folder && !strstr(folder, PREFIX) ? opendir(folder) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        struct stat about;
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) != 0 || !is_left_over(entry->d_name))
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 ||
            about.st_uid != geteuid())
            continue;
        if (S_ISREG(about.st_mode))
            unlinkat(dirfd(dir), entry->d_name, 0);
        else if (S_ISDIR(about.st_mode))
            remove_inside(dirfd(dir), entry->d_name, 1);
    }
    if (dir) closedir(dir);
    free(folder);
}
