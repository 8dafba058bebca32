/* images.c - batches of labelled images as a function of seed and step. */
#include "lockstep/model/images.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "lockstep/numerics/random.h"

void ls_images_free(ls_images *images)
{
    for (size_t c = 0; images->class_names && c < images->classes; c++)
        free(images->class_names[c]);
    free(images->class_names);
    free(images->pixels);
    free(images->labels);
    memset(images, 0, sizeof *images);
}

ls_status ls_images_check(const ls_images *images, const char *what, const ls_config *config)
{
    ls_status status = LS_OK;
    const ls_net *net = &config->net;
    LS_TRY(ls_config_require(config, LS_MODEL_NET, "a set of images"));
    if (images->channels != net->channels || images->height != net->height ||
        images->width != net->width)
        LS_FAIL(LS_ERR_INPUT,
                "%s: the images are %zu x %zu x %zu (channels x rows x columns); --model %s reads "
                "%zu x %zu x %zu",
                ls_show(what), images->channels, images->height, images->width,
                ls_show(config->name), net->channels, net->height, net->width);
    if (images->classes > net->classes)
        LS_FAIL(LS_ERR_INPUT, "%s: %zu labels; --model %s tells at most %zu classes apart",
                ls_show(what), images->classes, ls_show(config->name), net->classes);
exit:
    return status;
}

void ls_images_batch(const ls_images *images, uint64_t seed, uint32_t step, size_t first,
                     size_t count, float *ret_pixels, int32_t *ret_labels)
{
    const ls_stream stream = {.seed = seed, .purpose = LS_RANDOM_DATA, .layer = 0, .step = step};
    const size_t n = images->channels * images->height * images->width;
    for (size_t b = 0; b < count; b++) {
        /* A uniform number is at most 1 - 2^-53: below 2^53 images the rounded product stays below
         * their number. */
        const size_t i = (size_t)(ls_random_uniform(stream, first + b) * (double)images->count);
        const unsigned char *from = images->pixels + i * n;
        for (size_t e = 0; e < n; e++)
            ret_pixels[b * n + e] = (float)((2 * (double)from[e] - 255) / 255);
        ret_labels[b] = images->labels[i];
    }
}
