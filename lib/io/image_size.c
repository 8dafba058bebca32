/* image_size.c - how large an image that is read may be. */
#include "io/image_parts.h"
#include "lockstep/base/show.h"

ls_status ls_image_check_size(const char *path, uint64_t height, uint64_t width)
{
    ls_status status = LS_OK;
    const uint64_t side = LS_IMAGE_MOST_SIDE;
    if (height == 0 || width == 0 || height > side || width > side ||
        height * width > LS_IMAGE_MOST_PIXELS)
        LS_FAIL(LS_ERR_INPUT,
                "%s: an image of %llu rows and %llu columns; 1 to %d of each and %d pixels are "
                "read",
                ls_show(path), (unsigned long long)height, (unsigned long long)width,
                (int)LS_IMAGE_MOST_SIDE, (int)LS_IMAGE_MOST_PIXELS);
exit:
    return status;
}
