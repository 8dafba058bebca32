/* dump_place.c - whether a golden directory may be written at a place: what is replaced is removed,
 * so it must be one itself, and nothing besides. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lockstep/base/show.h"
#include "golden/dump_parts.h"
#include "golden/golden_manifest.h"

static bool is_known(const char *name, bool in_ranks)
{
    static const char *const names[] = {
        "manifest.json",      "order.txt",          "weights.safetensors", "batch.safetensors",
        "masks.safetensors",  "inputs.safetensors", "forward.safetensors", "backward.safetensors",
        "update.safetensors", "truth.safetensors",  "collectives.jsonl",   "ranks"};
    int rank = 0, end = 0;
    if (in_ranks)
        return sscanf(name, "rank-%d.safetensors%n", &rank, &end) == 1 && end > 0 && !name[end];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* A folder under the name of a file would be removed with all that is in it. */
static bool is_folder(DIR *dir, const char *name)
{
    struct stat about;
    return fstatat(dirfd(dir), name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
}

static ls_status look_through(const char *folder, bool in_ranks, const char *shown, int *ret_count)
{
    ls_status status = LS_OK;
    DIR *dir = opendir(folder);
    *ret_count = 0;
    if (!dir) {
        if (errno == ENOENT) goto exit;
        LS_FAIL(errno == ENOTDIR ? LS_ERR_INPUT : LS_ERR_IO, "%s: cannot be written: %s",
                ls_show(shown), ls_show_errno(errno));
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        const bool may_be_folder = !in_ranks && strcmp(entry->d_name, "ranks") == 0;
        if (!is_known(entry->d_name, in_ranks) || (!may_be_folder && is_folder(dir, entry->d_name)))
            LS_FAIL(LS_ERR_INPUT,
                    "%s: has %s%s in it, which no golden directory has; name a new folder, an "
                    "empty one or a golden directory to replace",
                    ls_show(shown), in_ranks ? "ranks/" : "", ls_show(entry->d_name));
        ++*ret_count;
    }
exit:
    if (dir) closedir(dir);
    return status;
}

ls_status ls_dump_check_place(const char *path)
{
    ls_status status = LS_OK;
    struct stat about;
    int entries = 0, in_ranks = 0;
    char *ranks = NULL;
    LS_TRY(look_through(path, false, path, &entries));
    if (entries == 0) goto exit;
    LS_TRY(ls_manifest_path(&ranks, path, "ranks"));
    if (stat(ranks, &about) == 0) LS_TRY(look_through(ranks, true, path, &in_ranks));
    if (!ls_manifest_is_golden(path))
        LS_FAIL(LS_ERR_INPUT,
                "%s: is there and is no golden directory, having no manifest.json of one; name a "
                "new folder or an empty one",
                ls_show(path));
exit:
    free(ranks);
    return status;
}
