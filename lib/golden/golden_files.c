#include "golden/golden_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/show.h"
#include "lockstep/numerics/digest.h"
#include "base/allocate.h"
#include "base/append.h"

ls_status ls_golden_file_of(ls_golden_files *files, const char *name, ls_golden_file **ret_file)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < files->count; i++) {
        if (strcmp(files->files[i].name, name) != 0) continue;
        *ret_file = &files->files[i];
        return LS_OK;
    }
    if (files->count == LS_GOLDEN_FILES)
        LS_FAIL(LS_ERR_INPUT, "%s: its tensors lie in more than %d files", ls_show(files->path),
                LS_GOLDEN_FILES);
    ls_golden_file *file = &files->files[files->count++];
    LS_COPY(file->name, name);
    LS_TRY(ls_manifest_path(&file->path, files->path, name));
    LS_TRY(ls_manifest_check_plain(file->path));
    LS_TRY(ls_safetensors_open(&file->file, file->path));
    *ret_file = file;
exit:
    return status;
}

ls_status ls_golden_aligned(ls_golden_files *files, const ls_tensor_info *info,
                            const void **ret_values)
{
    ls_status status = LS_OK;
    const size_t bytes = ls_dtype_bytes(info->dtype);
    if ((uintptr_t)info->data % bytes == 0) {
        *ret_values = info->data;
        return LS_OK;
    }
    LS_GROW(files->copies, files->n_copies, files->room);
    void *copy = NULL;
    LS_BYTES(copy, info->elements * bytes);
    memcpy(copy, info->data, info->elements * bytes);
    files->copies[files->n_copies++] = copy;
    *ret_values = copy;
exit:
    return status;
}

/* ---- bytes and SHA-256 of whole files ---- */

const ls_manifest_file *ls_golden_listed(const ls_golden_files *files, const char *name)
{
    for (size_t i = 0; i < files->manifest.n_files; i++)
        if (strcmp(files->manifest.files[i].name, name) == 0) return &files->manifest.files[i];
    return NULL;
}

ls_status ls_golden_check_listed(const ls_golden_files *files, const char *name)
{
    ls_status status = LS_OK;
    if (!ls_golden_listed(files, name))
        LS_FAIL(LS_ERR_INPUT, "%s/manifest.json: files does not name %s, which belongs to it",
                ls_show(files->path), name);
exit:
    return status;
}

static ls_status check_digest(int descriptor, const ls_manifest_file *file, const char *path,
                              void (*advance)(void *, size_t), void *context)
{
    enum { CHUNK = 1 << 20 };
    ls_status status = LS_OK;
    unsigned char *chunk = NULL;
    ls_digest *digest = NULL;
    char found[65];
    LS_ROOM(chunk, CHUNK);
    LS_TRY(ls_digest_create(&digest));
    for (;;) {
        const ssize_t got = read(descriptor, chunk, CHUNK);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) LS_FAIL(LS_ERR_IO, "%s: %s", ls_show(path), ls_show_errno(errno));
        if (got == 0) break;
        LS_TRY(ls_digest_add(digest, LS_U8, chunk, (size_t)got));
        if (advance) advance(context, (size_t)got);
    }
    LS_TRY(ls_digest_finish(digest, found));
    if (strcmp(found, file->sha256) != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: has the SHA-256 %.16s..., the manifest says %.16s...: it was changed, or is "
                "of another golden directory",
                ls_show(path), found, file->sha256);
exit:
    ls_digest_destroy(&digest);
    free(chunk);
    return status;
}

static ls_status check_file(const ls_golden_files *files, const ls_manifest_file *file,
                            uint64_t most, void (*advance)(void *, size_t), void *context)
{
    ls_status status = LS_OK;
    struct stat about;
    char *path = NULL;
    int descriptor = -1;
    LS_TRY(ls_manifest_path(&path, files->path, file->name));
    LS_TRY(ls_manifest_check_plain(path));
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (descriptor < 0)
        LS_FAIL(errno == ENOENT || errno == ENAMETOOLONG ? LS_ERR_INPUT : LS_ERR_IO,
                "%s: %s, and the manifest names it", ls_show(path), ls_show_errno(errno));
    if (fstat(descriptor, &about) != 0)
        LS_FAIL(LS_ERR_IO, "%s: %s", ls_show(path), ls_show_errno(errno));
    if ((uint64_t)about.st_size != file->bytes)
        LS_FAIL(LS_ERR_INPUT,
                "%s: %jd bytes long, the manifest says %" PRIu64
                ": truncated, or of another golden "
                "directory",
                ls_show(path), (intmax_t)about.st_size, file->bytes);
    if (file->bytes <= most) LS_TRY(check_digest(descriptor, file, path, advance, context));
exit:
    if (descriptor >= 0) close(descriptor);
    free(path);
    return status;
}

ls_status ls_golden_check_files(const ls_golden_files *files, uint64_t most,
                                void (*advance)(void *, size_t), void *context)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < files->manifest.n_files; i++)
        LS_TRY(check_file(files, &files->manifest.files[i], most, advance, context));
exit:
    return status;
}

/* ---- texts ---- */

const char *ls_golden_place(const ls_graph_node *node, size_t element, char buffer[LS_GOLDEN_PLACE])
{
    size_t at[LS_NODE_DIMS] = {0}, used = 0;
    for (int d = node->n_dims - 1; d >= 0; d--) {
        at[d] = node->dims[d] ? element % node->dims[d] : 0;
        element = node->dims[d] ? element / node->dims[d] : 0;
    }
    buffer[0] = '\0';
    for (int d = 0; d < node->n_dims; d++)
        used = ls_append(buffer, LS_GOLDEN_PLACE, used, "%s%zu%s", d == 0 ? "[" : ", ", at[d],
                         d == node->n_dims - 1 ? "]" : "");
    return buffer;
}

const char *ls_golden_shape(int n_dims, const uint64_t *dims, char buffer[LS_GOLDEN_SHAPE])
{
    size_t used = 0;
    snprintf(buffer, LS_GOLDEN_SHAPE, "()");
    for (int d = 0; d < n_dims; d++)
        used = ls_append(buffer, LS_GOLDEN_SHAPE, used, "%s%" PRIu64, d ? " x " : "", dims[d]);
    return buffer;
}
