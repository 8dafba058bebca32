/* image_write.c - a set of images as a folder per label. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/image_parts.h"
#include "io/new_folder.h"
#include "lockstep/base/show.h"
#include "base/allocate.h"

/* ---- one file ---- */

const char *ls_image_extension(size_t channels)
{
    return ls_image_has_png() ? ".png" : channels == 1 ? ".pgm" : ".ppm";
}

ls_status ls_image_to_pnm(const ls_image *image, unsigned char **ret_bytes, size_t *ret_count)
{
    ls_status status = LS_OK;
    const size_t pixels = image->height * image->width, C = image->channels;
    char header[64];
    const size_t begin = (size_t)snprintf(header, sizeof header, "P%c\n%zu %zu\n255\n",
                                          C == 1 ? '5' : '6', image->width, image->height);
    unsigned char *bytes = NULL;
    LS_ROOM(bytes, begin + C * pixels);
    memcpy(bytes, header, begin);
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < C; c++) bytes[begin + i * C + c] = image->pixels[c * pixels + i];
    *ret_bytes = bytes;
    *ret_count = begin + C * pixels;
exit:
    return status;
}

/* It is flushed to the disk with its folder. */
ls_status ls_image_write(const char *path, const ls_image *image)
{
    ls_status status = LS_OK;
    unsigned char *bytes = NULL;
    size_t count = 0;
    FILE *file = NULL;
    if (ls_image_has_png())
        LS_TRY(ls_image_to_png(image, &bytes, &count));
    else
        LS_TRY(ls_image_to_pnm(image, &bytes, &count));
    errno = 0;
    file = fopen(path, "wb");
    if (!file) LS_FAIL(LS_ERR_IO, "%s: %s", ls_show(path), ls_show_errno(errno));
    const size_t written = fwrite(bytes, 1, count, file);
    const int closed = fclose(file);
    if (written != count || closed != 0)
        LS_FAIL(LS_ERR_IO, "%s: %s", ls_show(path), ls_show_errno(errno));
exit:
    free(bytes);
    return status;
}

/* ---- the set ---- */

/* A new folder, or an empty one: no images are written over. */
static ls_status check_place(const char *folder)
{
    ls_status status = LS_OK;
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    if (!directory) return LS_OK; /* what else is wrong, its making says */
    while ((entry = readdir(directory)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            LS_FAIL(LS_ERR_INPUT, "%s: is there already and not empty; give a new folder",
                    ls_show(folder));
exit:
    closedir(directory);
    return status;
}

ls_status ls_images_write(const ls_images *images, const char *folder)
{
    ls_status status = LS_OK;
    const size_t n = images->channels * images->height * images->width;
    ls_new_folder *made = NULL;
    char name[512];
    LS_TRY(check_place(folder));
    LS_TRY(ls_new_folder_create(&made, folder));
    for (size_t c = 0; c < images->classes; c++)
        LS_TRY(ls_new_folder_inner(made, images->class_names[c]));
    for (size_t i = 0; i < images->count; i++) {
        const ls_image image = {images->channels, images->height, images->width,
                                images->pixels + i * n};
        const char *path = NULL;
        snprintf(name, sizeof name, "%s/%06zu%s", images->class_names[images->labels[i]], i,
                 ls_image_extension(images->channels));
        LS_TRY(ls_new_folder_file(made, name, &path));
        LS_TRY(ls_image_write(path, &image));
    }
    LS_TRY(ls_new_folder_commit(made));
exit:
    ls_new_folder_destroy(&made);
    return status;
}
