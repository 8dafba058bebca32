/* image_folder.c - a set of images from a folder per label. */
#include "lockstep/io/image_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/read_file.h"
#include "io/image_parts.h"
#include "lockstep/base/show.h"
#include "base/allocate.h"
#include "base/size.h"

/* ---- one file ---- */

void ls_image_free(ls_image *image)
{
    free(image->pixels);
    memset(image, 0, sizeof *image);
}

ls_status ls_image_read(const char *path, ls_image *ret_image)
{
    ls_status status = LS_OK;
    unsigned char *bytes = NULL;
    size_t count = 0;
    LS_TRY(ls_read_file(path, (size_t)1 << 30, &bytes, &count));
    if (count >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
        LS_TRY(ls_image_from_png(path, bytes, count, ret_image));
    else if (count >= 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7')
        LS_TRY(ls_image_from_pnm(path, bytes, count, ret_image));
    else if (count == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: empty; an image is PNG, PGM or PPM", ls_show(path));
    else
        LS_FAIL(LS_ERR_INPUT, "%s: begins with \"%s\", which no PNG, PGM or PPM does",
                ls_show(path), ls_show_bytes(bytes, count < 8 ? count : 8));
exit:
    free(bytes);
    return status;
}

/* ---- names ---- */

typedef struct names {
    size_t count, room;
    char **name;
} names;

static void free_names(names *list)
{
    for (size_t i = 0; i < list->count; i++) free(list->name[i]);
    free(list->name);
    memset(list, 0, sizeof *list);
}

static int by_bytes(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Both are decimal numbers of any length; equal ones such as 7 and 07 by their bytes. */
static int by_number(const void *left, const void *right)
{
    const char *a = *(char *const *)left, *b = *(char *const *)right;
    a += strspn(a, "0");
    b += strspn(b, "0");
    if (strlen(a) != strlen(b)) return strlen(a) < strlen(b) ? -1 : 1;
    return strcmp(a, b) != 0 ? strcmp(a, b) : by_bytes(left, right);
}

static ls_status add_name(names *list, const char *name)
{
    ls_status status = LS_OK;
    LS_GROW(list->name, list->count, list->room);
    char *copy = NULL;
    LS_COPY(copy, name);
    list->name[list->count++] = copy;
exit:
    return status;
}

/* What is in a folder, in an order that its entries do not depend on. */
static ls_status list_folder(const char *folder, names *ret_names)
{
    ls_status status = LS_OK;
    names list = {0};
    DIR *directory = opendir(folder);
    if (!directory) {
        const int error = errno;
        LS_FAIL(error == ENOENT || error == ENOTDIR ? LS_ERR_INPUT : LS_ERR_IO, "%s: %s%s",
                ls_show(folder), ls_show_errno(error),
                error == ENOTDIR ? "; images stand in FOLDER/LABEL/FILE" : "");
    }
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (!entry) {
            if (errno != 0) LS_FAIL(LS_ERR_IO, "%s: %s", ls_show(folder), ls_show_errno(errno));
            break;
        }
        if (entry->d_name[0] != '.') LS_TRY(add_name(&list, entry->d_name));
    }
    bool numbers = true;
    for (size_t i = 0; i < list.count; i++)
        numbers = numbers && list.name[i][strspn(list.name[i], "0123456789")] == '\0';
    if (list.count > 1)
        qsort(list.name, list.count, sizeof *list.name, numbers ? by_number : by_bytes);
    *ret_names = list;
    memset(&list, 0, sizeof list);
exit:
    if (directory) closedir(directory);
    free_names(&list);
    return status;
}

static ls_status check_is(const char *path, bool folder, const char *why)
{
    ls_status status = LS_OK;
    struct stat about;
    if (stat(path, &about) != 0) LS_FAIL(LS_ERR_IO, "%s: %s", ls_show(path), ls_show_errno(errno));
    if (folder ? !S_ISDIR(about.st_mode) : !S_ISREG(about.st_mode))
        LS_FAIL(LS_ERR_INPUT, "%s: is %s; %s", ls_show(path),
                S_ISDIR(about.st_mode)   ? "a folder"
                : S_ISREG(about.st_mode) ? "a file"
                                         : "a device, a pipe or a socket",
                why);
exit:
    return status;
}

static ls_status check_extension(const char *path)
{
    static const char *const known[] = {".png", ".pnm", ".pgm", ".ppm"};
    ls_status status = LS_OK;
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof known / sizeof known[0]; i++)
        if (strcasecmp(dot, known[i]) == 0) goto exit;
    LS_FAIL(LS_ERR_INPUT, "%s: in a label's folder stand *.png, *.pnm, *.pgm and *.ppm alone",
            ls_show(path));
exit:
    return status;
}

/* ---- the set ---- */

/* The set as far as it is read; the first image gives all their size. */
typedef struct collection {
    ls_images images;
    size_t room;      /* images */
    char *first_path; /* of the first image */
} collection;

static ls_status make_room(collection *c)
{
    ls_status status = LS_OK;
    ls_images *images = &c->images;
    const size_t n = images->channels * images->height * images->width; /* below 2^28 */
    const size_t room = c->room ? 2 * c->room : 64;
    if (images->count < c->room) goto exit;
    LS_RESIZE(images->pixels, ls_size_product(room, n));
    LS_RESIZE(images->labels, room);
    c->room = room;
exit:
    return status;
}

/* One channel more or less than wanted: grey to three alike, colours to grey. */
static void convert(unsigned char *to, size_t channels, const ls_image *image)
{
    const size_t pixels = image->height * image->width;
    const unsigned char *from = image->pixels;
    if (image->channels == channels) {
        memcpy(to, from, channels * pixels);
        return;
    }
    for (size_t i = 0; i < pixels; i++) {
        if (channels == 3)
            to[i] = to[pixels + i] = to[2 * pixels + i] = from[i];
        else
            to[i] = (unsigned char)((299u * from[i] + 587u * from[pixels + i] +
                                     114u * from[2 * pixels + i] + 500u) /
                                    1000u);
    }
}

static ls_status add_image(collection *c, const char *path, int32_t label)
{
    ls_status status = LS_OK;
    ls_images *images = &c->images;
    ls_image image = {0};
    LS_TRY(check_is(path, false, "a label's folder holds images alone"));
    LS_TRY(check_extension(path));
    LS_TRY(ls_image_read(path, &image));
    if (images->count == 0) {
        images->height = image.height;
        images->width = image.width;
        LS_COPY(c->first_path, path);
    }
    if (image.height != images->height || image.width != images->width)
        LS_FAIL(LS_ERR_INPUT,
                "%s: has %zu rows and %zu columns, %s has %zu and %zu; all images must be of one "
                "size",
                ls_show(path), image.height, image.width, ls_show(c->first_path), images->height,
                images->width);
    LS_TRY(make_room(c));
    convert(images->pixels + images->count * images->channels * images->height * images->width,
            images->channels, &image);
    images->labels[images->count++] = label;
exit:
    ls_image_free(&image);
    return status;
}

static ls_status add_label(collection *c, const char *folder, int32_t label)
{
    ls_status status = LS_OK;
    names files = {0};
    char *path = NULL;
    LS_TRY(check_is(folder, true, "the images of each label stand in a folder of their own"));
    LS_TRY(list_folder(folder, &files));
    if (files.count == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: no image in it; each label has at least one", ls_show(folder));
    for (size_t i = 0; i < files.count; i++) {
        free(path);
        path = ls_path_inside(folder, files.name[i]);
        if (!path) LS_NO_MEMORY("a file name");
        LS_TRY(add_image(c, path, label));
    }
exit:
    free(path);
    free_names(&files);
    return status;
}

ls_status ls_images_read(const char *folder, size_t channels, ls_images *ret_images)
{
    ls_status status = LS_OK;
    collection c = {.images = {.channels = channels}};
    names labels = {0};
    char *path = NULL;
    if (channels != 1 && channels != 3)
        LS_FAIL(LS_ERR_INPUT, "%s: images of %zu channels asked for; files give 1 or 3",
                ls_show(folder), channels);
    LS_TRY(list_folder(folder, &labels));
    if (labels.count == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: no label in it; images stand in FOLDER/LABEL/FILE",
                ls_show(folder));
    for (size_t i = 0; i < labels.count; i++) {
        free(path);
        path = ls_path_inside(folder, labels.name[i]);
        if (!path) LS_NO_MEMORY("a file name");
        LS_TRY(add_label(&c, path, (int32_t)i));
    }
    c.images.classes = labels.count;
    c.images.class_names = labels.name;
    memset(&labels, 0, sizeof labels);
    *ret_images = c.images;
    memset(&c.images, 0, sizeof c.images);
exit:
    ls_images_free(&c.images);
    free_names(&labels);
    free(c.first_path);
    free(path);
    return status;
}
