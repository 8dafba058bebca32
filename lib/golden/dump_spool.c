#include "golden/dump_spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/base/show.h"
#include "base/allocate.h"

struct dump_spool {
    int descriptor;
    _Atomic(uint64_t) end;
};

ls_status ls_dump_spool_create(dump_spool **ret_spool, const char *path)
{
    ls_status status = LS_OK;
    dump_spool *spool = NULL;
    LS_NEW(spool, 1);
    spool->descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (spool->descriptor < 0)
        LS_FAIL(LS_ERR_IO, "%s: cannot be written: %s", ls_show(path), ls_show_errno(errno));
    unlink(path);
    *ret_spool = spool;
    spool = NULL;
exit:
    ls_dump_spool_destroy(&spool);
    return status;
}

void ls_dump_spool_destroy(dump_spool **spool)
{
    if (!*spool) return;
    if ((*spool)->descriptor >= 0) close((*spool)->descriptor);
    free(*spool);
    *spool = NULL;
}

static ls_status write_bytes(const dump_spool *spool, const char *bytes, size_t count,
                             uint64_t offset)
{
    ls_status status = LS_OK;
    while (count > 0) {
        const size_t ask = count < (1 << 30) ? count : (1 << 30);
        const ssize_t done = pwrite(spool->descriptor, bytes, ask, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0)
            LS_FAIL(LS_ERR_IO, "what ranks hold cannot be written: %s", ls_show_errno(errno));
        bytes += done;
        offset += (uint64_t)done;
        count -= (size_t)done;
    }
exit:
    return status;
}

/* Rows with something between them go through a buffer. */
static ls_status write_rows(const dump_spool *spool, const char *values, size_t rows,
                            size_t row_bytes, size_t stride_bytes, uint64_t offset)
{
    enum { BUFFER = 1 << 18 };
    ls_status status = LS_OK;
    const size_t room = row_bytes > BUFFER ? row_bytes : BUFFER;
    size_t used = 0;
    char *buffer = NULL;
    LS_ROOM(buffer, room);
    for (size_t r = 0; r < rows; r++) {
        memcpy(buffer + used, values + r * stride_bytes, row_bytes);
        used += row_bytes;
        if (used + row_bytes <= room && r + 1 < rows) continue;
        LS_TRY(write_bytes(spool, buffer, used, offset));
        offset += used;
        used = 0;
    }
exit:
    free(buffer);
    return status;
}

ls_status ls_dump_spool_append(dump_spool *spool, const void *values, size_t rows, size_t row_bytes,
                               size_t stride_bytes, uint64_t *ret_offset)
{
    const uint64_t offset = atomic_fetch_add(&spool->end, rows * row_bytes);
    *ret_offset = offset;
    if (rows <= 1 || stride_bytes == row_bytes)
        return write_bytes(spool, values, rows * row_bytes, offset);
    return write_rows(spool, values, rows, row_bytes, stride_bytes, offset);
}

ls_status ls_dump_spool_read(const dump_spool *spool, void *bytes, size_t count, uint64_t offset)
{
    ls_status status = LS_OK;
    char *into = bytes;
    while (count > 0) {
        const size_t ask = count < (1 << 30) ? count : (1 << 30);
        const ssize_t done = pread(spool->descriptor, into, ask, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0)
            LS_FAIL(LS_ERR_IO, "what ranks hold cannot be read back: %s",
                    done < 0 ? ls_show_errno(errno) : "it ends too soon");
        into += done;
        offset += (uint64_t)done;
        count -= (size_t)done;
    }
exit:
    return status;
}
