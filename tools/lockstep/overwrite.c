#include "overwrite.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { READ = 1024 };

/* How files of each kind begin; where that is not all, `inside` is in their first bytes. */
static const struct {
    const char *what, *begins, *inside;
} kinds[] = {
    [WRITES_TENSORS] = {"safetensors", NULL, NULL},
    [WRITES_TRACE] = {"a trace of lockstep", "{\"displayTimeUnit\"", "lockstep trace"},
    [WRITES_DRAWING] = {"an SVG drawing", "<svg", NULL},
    [WRITES_PAGE] = {"a page of lockstep", "<!DOCTYPE html>", "<title>Lockstep"},
};

/* Eight bytes of length, lowest first, then that many of a JSON object. */
static bool are_tensors(const unsigned char *bytes, size_t count, uint64_t file_bytes)
{
    uint64_t header = 0;
    if (count < 9) return false;
    for (int i = 8; i-- > 0;) header = header << 8 | bytes[i];
    return bytes[8] == '{' && header <= file_bytes - 8;
}

ls_status refuse_to_overwrite(const char *option, const char *path, written_kind kind)
{
    ls_status status = LS_OK;
    unsigned char bytes[READ + 1];
    struct stat about;
    if (path == NULL || stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return LS_OK;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return LS_OK;
    const size_t count = fread(bytes, 1, READ, file);
    fclose(file);
    bytes[count] = '\0';
    const char *text = (const char *)bytes, *begins = kinds[kind].begins;
    const bool good = kind == WRITES_TENSORS
                          ? are_tensors(bytes, count, (uint64_t)about.st_size)
                          : strncmp(text, begins, strlen(begins)) == 0 &&
                                (kinds[kind].inside == NULL || strstr(text, kinds[kind].inside));
    if (!good)
        LS_FAIL(LS_ERR_INPUT,
                "--%s: %s is there and is not %s; it is not overwritten: give another name, or "
                "remove it first",
                option, ls_show(path), kinds[kind].what);
exit:
    return status;
}
