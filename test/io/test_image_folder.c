/* test_image_folder.c - sets of images from folders, a label each. */
#include <stdint.h>

#include "io/png_files.h"
#include "io/scratch.h"
#include "lockstep/io/image_folder.h"
#include "run_tests.h"

/* An empty folder of this name in the scratch folder; what stood there goes. */
static void folder(const char *name)
{
    const char *path = scratch_path(name);
    nftw(path, scratch_remove, 8, FTW_DEPTH | FTW_PHYS);
    ck_assert_int_eq(mkdir(path, 0755), 0);
}

/* A grey image of one row. */
static void put_grey(const char *name, const char *levels)
{
    char text[64];
    const int n = snprintf(text, sizeof text, "P5 %zu 1 255\n%s", strlen(levels), levels);
    scratch_file(name, text, (size_t)n);
}

/* Folders and files are taken in the order of their names, not in that of their making. */
START_TEST(order_of_names)
{
    folder("set");
    folder("set/pear");
    folder("set/apple");
    folder("set/fig");
    put_grey("set/pear/b.PGM", "ab");
    put_grey("set/pear/a.pnm", "cd");
    put_grey("set/fig/10.pgm", "ef");
    put_grey("set/fig/9.pgm", "gh");
    put_grey("set/apple/.hidden", "");
    put_grey("set/apple/x.pgm", "ij");
    scratch_file("set/.DS_Store", "x", 1);
    ls_images images = {0};
    ASSERT_OK(ls_images_read(scratch_path("set"), 1, &images));
    ck_assert(images.count == 5 && images.classes == 3 && images.channels == 1);
    ck_assert(images.height == 1 && images.width == 2);
    ck_assert_str_eq(images.class_names[0], "apple");
    ck_assert_str_eq(images.class_names[1], "fig");
    ck_assert_str_eq(images.class_names[2], "pear");
    ck_assert_mem_eq(images.pixels, "ijefghcdab", 10);
    const int32_t labels[] = {0, 1, 1, 2, 2};
    ck_assert_mem_eq(images.labels, labels, sizeof labels);
    ls_images_free(&images);
}
END_TEST

/* Labels that are numbers stand in the order of the numbers. */
START_TEST(labels_that_are_numbers)
{
    folder("set");
    const char *const names[] = {"10", "2", "0", "1", "007", "7"};
    char path[64], level[2] = "A";
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "set/%s", names[i]);
        folder(path);
        snprintf(path, sizeof path, "set/%s/i.pgm", names[i]);
        level[0] = (char)('A' + i);
        put_grey(path, level);
    }
    ls_images images = {0};
    ASSERT_OK(ls_images_read(scratch_path("set"), 1, &images));
    ck_assert_mem_eq(images.pixels, "CDBEFA", 6); /* 0 1 2 007 7 10 */
    ls_images_free(&images);
}
END_TEST

/* More images than the first room holds; grey for colours and colours for grey. */
START_TEST(many_and_channels)
{
    folder("set");
    char path[64];
    folder("set/a");
    for (int i = 0; i < 200; i++) {
        const unsigned char colour[] = {'P',
                                        '6',
                                        ' ',
                                        '1',
                                        ' ',
                                        '1',
                                        ' ',
                                        '2',
                                        '5',
                                        '5',
                                        '\n',
                                        (unsigned char)i,
                                        (unsigned char)(255 - i),
                                        7};
        snprintf(path, sizeof path, "set/a/%03d.ppm", i);
        scratch_file(path, colour, sizeof colour);
    }
    ls_images images = {0};
    ASSERT_OK(ls_images_read(scratch_path("set"), 1, &images));
    ck_assert_uint_eq(images.count, 200);
    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(images.pixels[i], (299 * i + 587 * (255 - i) + 114 * 7 + 500) / 1000);
    ls_images_free(&images);
    put_grey("set/a/200.pgm", "x");
    ASSERT_OK(ls_images_read(scratch_path("set"), 3, &images));
    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(images.pixels[3 * i], i);
        ck_assert_int_eq(images.pixels[3 * i + 1], 255 - i);
        ck_assert_int_eq(images.pixels[3 * i + 2], 7);
    }
    ck_assert_mem_eq(images.pixels + 600, "xxx", 3);
    ls_images_free(&images);
    if (ls_image_has_png()) { /* beside the others, by the same rules */
        folder("set/b");
        folder("png");
        folder("png/a");
        scratch_file("png/a/a.png", png_colour, sizeof png_colour);
        put_grey("png/a/b.pgm", "xy");
        ASSERT_OK(ls_images_read(scratch_path("png"), 3, &images));
        ck_assert_mem_eq(images.pixels, "\x01\xfa\x02\xfb\x03\xfcxyxyxy", 12);
        ls_images_free(&images);
    } else {
        SKIP_PART("built without PNG");
    }
}
END_TEST

#define REFUSED(...)                                                                               \
    do {                                                                                           \
        ls_images refused = {.count = 77};                                                         \
        ASSERT_SAYS(ls_images_read(scratch_path("set"), 1, &refused), LS_ERR_INPUT, __VA_ARGS__);  \
        ck_assert(refused.count == 77 && refused.pixels == NULL);                                  \
    } while (0)

START_TEST(refuses)
{
    ls_images images;
    ASSERT_SAYS(ls_images_read(scratch_path("none"), 1, &images), LS_ERR_INPUT, "none: No such");
    scratch_file("plain", "x", 1);
    ASSERT_SAYS(ls_images_read(scratch_path("plain"), 1, &images), LS_ERR_INPUT,
                "plain: Not a directory", "FOLDER/LABEL/FILE");
    folder("set");
    REFUSED("set: no label in it");
    scratch_file("set/x.pgm", "P5 1 1 255\nx", 12);
    REFUSED("set/x.pgm: is a file", "folder of their own");
    folder("set");
    folder("set/a");
    REFUSED("set/a: no image in it");
    put_grey("set/a/1.pgm", "ab");
    folder("set/b\x1b\n");
    put_grey("set/b\x1b\n/2.pgm", "abc");
    REFUSED("set/b\\x1b\\x0a/2.pgm: has 1 rows and 3 columns", "set/a/1.pgm has 1 and 2",
            "one size");
    put_grey("set/b\x1b\n/2.pgm", "ab");
    scratch_file("set/a/2.jpg", "x", 1);
    REFUSED("set/a/2.jpg: ", "*.png, *.pnm, *.pgm and *.ppm");
    remove(scratch_path("set/a/2.jpg"));
    scratch_file("set/a/2", "x", 1);
    REFUSED("set/a/2: in a label's folder");
    remove(scratch_path("set/a/2"));
    folder("set/a/deep.pgm");
    REFUSED("set/a/deep.pgm: is a folder");
    rmdir(scratch_path("set/a/deep.pgm"));
    ck_assert_int_eq(mkfifo(scratch_path("set/a/pipe.pgm"), 0600), 0);
    REFUSED("set/a/pipe.pgm: is a device, a pipe"); /* and nobody waits for it */
    remove(scratch_path("set/a/pipe.pgm"));
    scratch_file("set/a/3.pgm", "P5 2 1 255\nx", 12);
    REFUSED("set/a/3.pgm: ends too early");
    scratch_file("set/a/3.pgm", "", 0);
    REFUSED("set/a/3.pgm: empty");
    remove(scratch_path("set/a/3.pgm"));
    ASSERT_SAYS(ls_images_read(scratch_path("set"), 4, &images), LS_ERR_INPUT, "4 channels");
    ASSERT_OK(ls_images_read(scratch_path("set"), 1, &images));
    ls_images_free(&images);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("image_folder", 0);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, order_of_names);
    tcase_add_test(tcase, labels_that_are_numbers);
    tcase_add_test(tcase, many_and_channels);
    tcase_add_test(tcase, refuses);
    return run_tests();
}
