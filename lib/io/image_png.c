/* image_png.c - PNG, by libpng. */
#include "io/image_parts.h"
#include "lockstep/base/show.h"
#include "base/allocate.h"

#ifdef LS_HAVE_LIBPNG
#include <png.h>
#include <stdlib.h>
#include <string.h>

bool ls_image_has_png(void)
{
    return true;
}

/* libpng puts the channels of a pixel side by side. */
static void take_apart(ls_image *image, const unsigned char *mixed)
{
    const size_t pixels = image->height * image->width, C = image->channels;
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < C; c++) image->pixels[c * pixels + i] = mixed[i * C + c];
}

ls_status ls_image_from_png(const char *path, const unsigned char *bytes, size_t count,
                            ls_image *ret_image)
{
    ls_status status = LS_OK;
    ls_image image = {0};
    unsigned char *mixed = NULL;
    png_image png;
    const png_color black = {0, 0, 0};
    memset(&png, 0, sizeof png);
    png.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&png, bytes, count))
        LS_FAIL(LS_ERR_INPUT, "%s: a damaged PNG: %s", ls_show(path), ls_show(png.message));
    LS_TRY(ls_image_check_size(path, png.height, png.width));
    /* 16 bits without a word about their meaning mean what 8 bits do. */
    png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    const bool colour = (png.format & PNG_FORMAT_FLAG_COLOR) != 0;
    png.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    image = (ls_image){.channels = colour ? 3 : 1, .height = png.height, .width = png.width};
    const size_t levels = image.channels * image.height * image.width;
    LS_ROOM(image.pixels, levels);
    LS_ROOM(mixed, levels);
    if (!png_image_finish_read(&png, &black, mixed, 0, NULL))
        LS_FAIL(LS_ERR_INPUT, "%s: a damaged PNG: %s", ls_show(path), ls_show(png.message));
    take_apart(&image, mixed);
    *ret_image = image;
    image.pixels = NULL;
exit:
    png_image_free(&png);
    free(mixed);
    free(image.pixels);
    return status;
}

ls_status ls_image_to_png(const ls_image *image, unsigned char **ret_bytes, size_t *ret_count)
{
    ls_status status = LS_OK;
    const size_t pixels = image->height * image->width, C = image->channels;
    unsigned char *mixed = NULL, *bytes = NULL;
    png_alloc_size_t count = 0;
    png_image png;
    memset(&png, 0, sizeof png);
    png.version = PNG_IMAGE_VERSION;
    png.height = (png_uint_32)image->height;
    png.width = (png_uint_32)image->width;
    png.format = C == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    LS_ROOM(mixed, C * pixels);
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < C; c++) mixed[i * C + c] = image->pixels[c * pixels + i];
    if (!png_image_write_get_memory_size(png, count, 0, mixed, 0, NULL))
        LS_FAIL(LS_ERR_MEMORY, "a PNG cannot be made: %s", ls_show(png.message));
    LS_ROOM(bytes, count);
    if (!png_image_write_to_memory(&png, bytes, &count, 0, mixed, 0, NULL))
        LS_FAIL(LS_ERR_MEMORY, "a PNG cannot be made: %s", ls_show(png.message));
    *ret_bytes = bytes;
    *ret_count = count;
    bytes = NULL;
exit:
    free(mixed);
    free(bytes);
    return status;
}

#else

ls_status ls_image_to_png(const ls_image *image, unsigned char **ret_bytes, size_t *ret_count)
{
    return ls_image_to_pnm(image, ret_bytes, ret_count);
}

bool ls_image_has_png(void)
{
    return false;
}

ls_status ls_image_from_png(const char *path, const unsigned char *bytes, size_t count,
                            ls_image *ret_image)
{
    (void)bytes;
    (void)count;
    (void)ret_image;
    return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__,
                           "%s: is a PNG, and this build has no libpng; use PGM or PPM files",
                           ls_show(path));
}

#endif
