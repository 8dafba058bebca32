/* page_images.c - a few of the images that a network was trained on, with their labels. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "base/allocate.h"
#include "report/page_parts.h"
#include "report/svg.h"

enum { MOST = 16, HEAD = 54 }; /* images shown; bytes of a bitmap before its pixels */

static void put_u32(unsigned char *at, size_t value)
{
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static void write_base64(FILE *file, const unsigned char *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        const size_t left = count - i;
        const unsigned long three = (unsigned long)bytes[i] << 16 |
                                    (left > 1 ? (unsigned long)bytes[i + 1] << 8 : 0ul) |
                                    (left > 2 ? (unsigned long)bytes[i + 2] : 0ul);
        fputc(digits[three >> 18 & 63], file);
        fputc(digits[three >> 12 & 63], file);
        fputc(left > 1 ? digits[three >> 6 & 63] : '=', file);
        fputc(left > 2 ? digits[three & 63] : '=', file);
    }
}

/* A bitmap of 24 bits a pixel: every browser knows it, and nothing has to be compressed. Rows stand
 * in it from below, blue before red, each padded to a multiple of 4 bytes. */
static ls_status write_bitmap(FILE *file, const ls_images *images, size_t number)
{
    ls_status status = LS_OK;
    const size_t height = images->height, width = images->width;
    const size_t row = (3 * width + 3) / 4 * 4, bytes = HEAD + height * row;
    const size_t plane = images->channels == 3 ? height * width : 0;
    const unsigned char *red = images->pixels + number * images->channels * height * width;
    unsigned char *bitmap = NULL;
    LS_NEW(bitmap, bytes);
    bitmap[0] = 'B';
    bitmap[1] = 'M';
    put_u32(bitmap + 2, bytes);
    put_u32(bitmap + 10, HEAD);
    put_u32(bitmap + 14, 40); /* bytes of the second half of the head */
    put_u32(bitmap + 18, width);
    put_u32(bitmap + 22, height);
    bitmap[26] = 1; /* plane */
    bitmap[28] = 24;
    for (size_t r = 0; r < height; r++)
        for (size_t c = 0; c < width; c++) {
            unsigned char *pixel = bitmap + HEAD + (height - 1 - r) * row + 3 * c;
            for (size_t colour = 0; colour < 3; colour++)
                pixel[2 - colour] = red[colour * plane + r * width + c];
        }
    write_base64(file, bitmap, bytes);
exit:
    free(bitmap);
    return status;
}

ls_status ls_page_images(FILE *file, const ls_report *report)
{
    ls_status status = LS_OK;
    const ls_images *images = report->common.images;
    size_t shown = 0;
    if (report->common.config.kind != LS_MODEL_NET || images->pixels == NULL) return LS_OK;
    fputs("<h2>Images</h2>\n<p>The first of each label.</p>\n<div class=\"images\">\n", file);
    for (size_t label = 0; label < images->classes && shown < MOST; label++) {
        size_t i = 0;
        while (i < images->count && images->labels[i] != (int32_t)label) i++;
        if (i == images->count) continue;
        shown++;
        fputs("<figure><img alt=\"\" src=\"data:image/bmp;base64,", file);
        LS_TRY(write_bitmap(file, images, i));
        fputs("\"><figcaption>", file);
        ls_html_text(file, images->class_names[label]);
        fputs("</figcaption></figure>\n", file);
    }
    fputs("</div>\n", file);
    if (images->classes > shown)
        fprintf(file, "<p class=\"soft\">%zu of %zu labels.</p>\n", shown, images->classes);
exit:
    return status;
}
