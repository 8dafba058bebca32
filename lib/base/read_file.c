/* read_file.c - a whole file in memory; pipes too, but no waiting for ever. */
#include "base/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/show.h"
#include "base/allocate.h"
#include "base/size.h"

/* A pipe or a device does not say how long it is, and may never end. */
#define MOST_OF_A_STREAM ((size_t)1 << 30)

int ls_read_file_patience_ms = 30000;

/* Missing is bad input, whatever else the system refuses is its affair. A signal with a handler,
 * Ctrl-C most likely, ends the wait for a pipe. */
static ls_status status_of(int error)
{
    if (error == EINTR) return LS_ERR_INTERRUPTED;
    return error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG ? LS_ERR_INPUT : LS_ERR_IO;
}

/* Waits until a pipe or a device has bytes or an end. A pipe that no process writes to has neither;
 * opened without waiting for a writer it would only look empty. */
static ls_status wait_for_bytes(int file, const char *path)
{
    ls_status status = LS_OK;
    struct pollfd wanted = {.fd = file, .events = POLLIN};
    const int ready = poll(&wanted, 1, ls_read_file_patience_ms);
    if (ready < 0) LS_FAIL(status_of(errno), "%s: %s", ls_show(path), ls_show_errno(errno));
    if (ready == 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: a pipe or a device, from which nothing came for %d seconds; name a file, or "
                "write to it",
                ls_show(path), ls_read_file_patience_ms / 1000);
exit:
    return status;
}

ls_status ls_read_file(const char *path, size_t most_bytes, unsigned char **ret_bytes,
                       size_t *ret_count)
{
    ls_status status = LS_OK;
    unsigned char *bytes = NULL;
    size_t count = 0, room = 0;
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) LS_FAIL(status_of(errno), "%s: %s", ls_show(path), ls_show_errno(errno));
    if (fstat(file, &about) != 0) LS_FAIL(LS_ERR_IO, "%s: %s", ls_show(path), ls_show_errno(errno));
    if (S_ISDIR(about.st_mode)) LS_FAIL(LS_ERR_INPUT, "%s: is a folder, not a file", ls_show(path));
    if (!S_ISREG(about.st_mode) && most_bytes > MOST_OF_A_STREAM) most_bytes = MOST_OF_A_STREAM;
    if (S_ISREG(about.st_mode) && about.st_size > 0) {
        if ((uintmax_t)about.st_size > most_bytes) {
            LS_FAIL(LS_ERR_INPUT, "%s: %jd bytes long; at most %zu", ls_show(path),
                    (intmax_t)about.st_size, most_bytes);
        }
        room = (size_t)about.st_size + 1; /* one more, so that one read sees the end */
    }

    /* The size was a hint: a file may grow meanwhile, and a pipe has none. */
    for (;;) {
        if (count == room || !bytes) {
            if (bytes || room == 0) room = room < 4096 ? 4096 : room * 2;
            if (room > most_bytes) room = most_bytes + 1;
            LS_RESIZE(bytes, ls_size_plus(room, 1));
        }
        size_t ask = room - count < (1 << 30) ? room - count : (1 << 30);
        if (!S_ISREG(about.st_mode)) LS_TRY(wait_for_bytes(file, path));
        ssize_t got = read(file, bytes + count, ask);
        if (got < 0 && errno == EAGAIN) continue;
        if (got < 0 && errno == EINTR && S_ISREG(about.st_mode)) continue;
        if (got < 0) LS_FAIL(status_of(errno), "%s: %s", ls_show(path), ls_show_errno(errno));
        if (got == 0) break;
        count += (size_t)got;
        if (count > most_bytes)
            LS_FAIL(LS_ERR_INPUT, "%s: longer than %zu bytes", ls_show(path), most_bytes);
    }
    bytes[count] = '\0';
    *ret_bytes = bytes;
    *ret_count = count;
    bytes = NULL;
exit:
    free(bytes);
    if (file >= 0) close(file);
    return status;
}
