/* images_command.c - writes a drawn set of images as files, for people to look at and for train. */
#include <stdio.h>

#include "command.h"
#include "lockstep/io/image_folder.h"
#include "settings.h"

/* What the command line says. */
typedef struct images_words {
    const char *model, *directory;
    size_t count;
    uint64_t seed;
    bool help;
} images_words;

enum { IMAGES_OPTIONS = 4 };

static void make_table(images_words *w, ls_option options[IMAGES_OPTIONS])
{
    options[0] = ls_option_string("model", &w->model, "NAME|FILE.json",
                                  "the network that they are for: how large an image is, how many "
                                  "channels it has and how many labels there are");
    options[1] = ls_option_size("image-count", &w->count, 1, (size_t)1 << 20, "N", "how many");
    options[2] = ls_option_u64("seed", &w->seed, 0, UINT64_MAX, "N",
                               "of what is drawn; train draws with this one");
    options[3] = ls_option_flag("help", &w->help, "this text");
}

ls_status images_command(const command_spec *command, int argc, const char *const *argv)
{
    static const char *const names[] = {"DIR (the folder to write)"};
    ls_status status = LS_OK;
    ls_config config;
    ls_images images = {0};
    ls_option options[IMAGES_OPTIONS];
    images_words w = {.model = "alexnet-nano", .count = LS_DRAWN_IMAGES, .seed = LS_DRAWN_SEED};
    ls_words place = {names, 1, &w.directory, command->usage};
    make_table(&w, options);
    if (asks_for_help(argc, argv)) {
        print_command_help(command, NULL, options, IMAGES_OPTIONS);
        goto exit;
    }
    LS_TRY(ls_options_parse(options, IMAGES_OPTIONS, argc, argv, &place));
    LS_TRY(ls_config_load(w.model, &config));
    LS_TRY(ls_config_check(&config));
    LS_TRY(ls_job_draw_images(&config, w.seed, w.count, &images));
    LS_TRY(ls_images_write(&images, w.directory));
    printf("%zu images of %zu labels in %s/LABEL/NUMBER.%s\n", images.count, images.classes,
           ls_show(w.directory),
           ls_image_has_png()     ? "png"
           : images.channels == 1 ? "pgm"
                                  : "ppm");
exit:
    ls_images_free(&images);
    return status;
}
