/* image_pnm.c - PGM and PPM: two letters, width, height and the number of the brightest level as
 * decimal numbers, then levels row by row, red, green and blue of a pixel together. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "io/image_parts.h"
#include "lockstep/base/show.h"

typedef struct reader {
    const char *path;
    const unsigned char *at, *end;
} reader;

static bool is_space(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Spaces, and comments from # to the end of a line. */
static void skip_space(reader *r)
{
    bool comment = false;
    for (; r->at < r->end; r->at++) {
        if (comment)
            comment = *r->at != '\n' && *r->at != '\r';
        else if (*r->at == '#')
            comment = true;
        else if (!is_space(*r->at))
            break;
    }
}

/* A decimal number of at most `most`, after space. what: how errors call it. */
static ls_status read_number(reader *r, const char *what, size_t most, size_t *ret_number)
{
    ls_status status = LS_OK;
    size_t number = 0;
    skip_space(r);
    const unsigned char *begin = r->at;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        number = number * 10 + (size_t)(*r->at - '0');
        if (number > most)
            LS_FAIL(LS_ERR_INPUT, "%s: %s is more than %zu", ls_show(r->path), what, most);
    }
    if (r->at == begin) {
        if (r->at == r->end) LS_FAIL(LS_ERR_INPUT, "%s: ends before %s", ls_show(r->path), what);
        LS_FAIL(LS_ERR_INPUT, "%s: \"%s\" instead of %s, a decimal number", ls_show(r->path),
                ls_show_bytes(r->at, 1), what);
    }
    *ret_number = number;
exit:
    return status;
}

/* What is in the file where the image should be over. */
static ls_status check_end(reader *r, bool text)
{
    ls_status status = LS_OK;
    if (text) skip_space(r);
    if (r->at < r->end)
        LS_FAIL(LS_ERR_INPUT, "%s: %zu bytes behind the last pixel; a file holds one image",
                ls_show(r->path), (size_t)(r->end - r->at));
exit:
    return status;
}

/* The next level, as 8 bits. */
static ls_status read_level(reader *r, bool text, size_t brightest, unsigned char *ret_level)
{
    ls_status status = LS_OK;
    size_t level;
    if (text) {
        LS_TRY(read_number(r, "a pixel", brightest, &level));
    } else {
        level = *r->at++; /* that they are all there was seen before */
        if (brightest > 255) level = level << 8 | *r->at++;
        if (level > brightest)
            LS_FAIL(LS_ERR_INPUT, "%s: a pixel is %zu, and the brightest level %zu",
                    ls_show(r->path), level, brightest);
    }
    *ret_level = (unsigned char)((level * 255 + brightest / 2) / brightest);
exit:
    return status;
}

static ls_status read_pixels(reader *r, ls_image *image, bool text, size_t brightest)
{
    ls_status status = LS_OK;
    const size_t pixels = image->height * image->width, C = image->channels;
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < C; c++)
            LS_TRY(read_level(r, text, brightest, &image->pixels[c * pixels + i]));
exit:
    return status;
}

ls_status ls_image_from_pnm(const char *path, const unsigned char *bytes, size_t count,
                            ls_image *ret_image)
{
    ls_status status = LS_OK;
    ls_image image = {0};
    reader r = {path, bytes + 2, bytes + count};
    size_t brightest;
    if (bytes[1] != '2' && bytes[1] != '3' && bytes[1] != '5' && bytes[1] != '6')
        LS_FAIL(LS_ERR_INPUT, "%s: is a P%c; of the PNM files P2, P3, P5 and P6 are read",
                ls_show(path), bytes[1]);
    const bool text = bytes[1] < '4';
    image.channels = bytes[1] == '3' || bytes[1] == '6' ? 3 : 1;
    LS_TRY(read_number(&r, "the width", UINT32_MAX, &image.width));
    LS_TRY(read_number(&r, "the height", UINT32_MAX, &image.height));
    LS_TRY(read_number(&r, "the brightest level", 65535, &brightest));
    LS_TRY(ls_image_check_size(path, image.height, image.width));
    if (brightest == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: its brightest level is 0; must be 1 to 65535", ls_show(path));
    /* One byte of space, and the levels. */
    if (r.at == r.end || !is_space(*r.at))
        LS_FAIL(LS_ERR_INPUT, "%s: no space behind the brightest level", ls_show(path));
    r.at++;
    const size_t levels = image.height * image.width * image.channels;
    const size_t needed = text ? levels * 2 - 1 : levels * (brightest > 255 ? 2 : 1);
    if ((size_t)(r.end - r.at) < needed)
        LS_FAIL(LS_ERR_INPUT,
                "%s: ends too early: %zu x %zu pixels need at least %zu bytes and there are %zu",
                ls_show(path), image.height, image.width, needed, (size_t)(r.end - r.at));
    LS_ROOM(image.pixels, levels);
    LS_TRY(read_pixels(&r, &image, text, brightest));
    LS_TRY(check_end(&r, text));
    *ret_image = image;
    image.pixels = NULL;
exit:
    free(image.pixels);
    return status;
}
