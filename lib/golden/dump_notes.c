/* dump_notes.c - what all parts of a dump do: a file's place, a note of what was written, progress.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/allocate.h"
#include "golden/dump_parts.h"
#include "io/new_folder.h"
#include "lockstep/base/show.h"
#include "lockstep/numerics/digest.h"

/* ---- for all parts ---- */

ls_status ls_dump_path(dump *d, const char *name, const char **ret_path)
{
    return ls_new_folder_file(d->folder, name, ret_path);
}

/* SHA-256 of a file's bytes. */
static ls_status digest_file(const char *path, char ret_hex[65])
{
    enum { BLOCK = 1 << 16 };
    ls_status status = LS_OK;
    ls_digest *digest = NULL;
    unsigned char *bytes = NULL;
    FILE *file = fopen(path, "rb");
    LS_ROOM(bytes, BLOCK);
    if (!file) LS_FAIL(LS_ERR_IO, "%s: cannot be read", ls_show(path));
    LS_TRY(ls_digest_create(&digest));
    for (size_t n; (n = fread(bytes, 1, BLOCK, file)) > 0;)
        LS_TRY(ls_digest_add(digest, LS_U8, bytes, n));
    if (ferror(file)) LS_FAIL(LS_ERR_IO, "%s: cannot be read", ls_show(path));
    LS_TRY(ls_digest_finish(digest, ret_hex));
exit:
    if (file) fclose(file);
    ls_digest_destroy(&digest);
    free(bytes);
    return status;
}

ls_status ls_dump_note(dump *d, const char *name, const char *path, bool digested)
{
    ls_status status = LS_OK;
    struct stat about;
    ls_dump_summary *summary = &d->summary;
    ls_dump_file file = {{0}, 0, {0}};
    if (stat(path, &about) != 0) LS_FAIL(LS_ERR_IO, "%s: is gone", ls_show(path));
    snprintf(file.name, sizeof file.name, "%s", name);
    file.bytes = (uint64_t)about.st_size;
    if (digested) LS_TRY(digest_file(path, file.sha256));
    summary->bytes += file.bytes;
    if (summary->files > 0 && strcmp(summary->file[summary->files - 1].name, name) == 0) {
        summary->file[summary->files - 1].bytes += file.bytes;
        goto exit;
    }
    if (summary->files == LS_DUMP_FILES)
        LS_FAIL(LS_ERR_INTERNAL, "more than %d files", LS_DUMP_FILES);
    summary->file[summary->files++] = file;
exit:
    return status;
}

ls_status ls_dump_advance(const dump *d, uint64_t done, uint64_t of, const char *what)
{
    ls_status status = LS_OK;
    if (d->run.world.stop && __atomic_load_n(d->run.world.stop, __ATOMIC_RELAXED))
        LS_FAIL(LS_ERR_INTERRUPTED, "interrupted");
    if (d->options->advance) d->options->advance(d->options->context, done, of, what);
exit:
    return status;
}
