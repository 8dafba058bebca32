/* job_data.c - what is trained on: a text, or images. */
#include <stdlib.h>
#include <string.h>

#include "job/builtin_text.h"
#include "job/job_settings.h"
#include "lockstep/io/image_folder.h"
#include "base/allocate.h"

static ls_status read_text(ls_job_settings *s)
{
    ls_status status = LS_OK;
    if (s->text_file != NULL) {
        s->data_name = s->text_file;
        LS_TRY(ls_text_read(s->text_file, &s->text));
    } else {
        s->data_name = "the built-in text";
        s->text.count = ls_builtin_text_bytes;
        LS_ROOM(s->text.bytes, ls_builtin_text_bytes);
        memcpy(s->text.bytes, ls_builtin_text, ls_builtin_text_bytes);
    }
    LS_TRY(ls_text_check_model(&s->text, s->data_name, &s->run.config));
    s->run.text = &s->text;
exit:
    return status;
}

ls_status ls_job_draw_images(const ls_config *config, uint64_t seed, size_t count,
                             ls_images *ret_images)
{
    ls_status status = LS_OK;
    const ls_net *net = &config->net;
    const size_t most = LS_DRAWN_CLASSES;
    LS_TRY(ls_config_require(config, LS_MODEL_NET, "a set of images"));
    LS_TRY(ls_images_draw("--image-count", seed, count, net->channels, net->height, net->width,
                          net->classes < most ? net->classes : most, ret_images));
exit:
    return status;
}

/* The drawn set depends on the model and on how many are asked for, not on the run's seed: a run
 * that goes on from a checkpoint finds it again. */
static ls_status read_images(ls_job_settings *s)
{
    ls_status status = LS_OK;
    if (s->images_folder != NULL) {
        s->data_name = s->images_folder;
        LS_TRY(ls_images_read(s->images_folder, s->run.config.net.channels, &s->images));
    } else {
        s->data_name = "digits and shapes, drawn";
        LS_TRY(ls_job_draw_images(&s->run.config, LS_DRAWN_SEED, s->image_count, &s->images));
    }
    LS_TRY(ls_images_check(&s->images, s->data_name, &s->run.config));
    s->run.images = &s->images;
exit:
    return status;
}

ls_status ls_job_read_data(ls_job_settings *s)
{
    return s->run.config.kind == LS_MODEL_NET ? read_images(s) : read_text(s);
}
