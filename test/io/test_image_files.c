/* test_image_files.c - images from PNM and PNG files, and files that are no images. */
#include <stdint.h>

#include "io/png_files.h"
#include "io/scratch.h"
#include "lockstep/io/image_folder.h"
#include "run_tests.h"

/* A file of these bytes holds an image of these pixels, channel by channel. */
static void assert_image(const void *bytes, size_t count, size_t channels, size_t height,
                         size_t width, const unsigned char *pixels)
{
    ls_image image = {0};
    ASSERT_OK(ls_image_read(scratch_file("image", bytes, count), &image));
    ck_assert_uint_eq(image.channels, channels);
    ck_assert_uint_eq(image.height, height);
    ck_assert_uint_eq(image.width, width);
    ck_assert_mem_eq(image.pixels, pixels, channels * height * width);
    ls_image_free(&image);
    ck_assert(image.pixels == NULL && image.width == 0);
    ls_image_free(&image);
}

#define PIXELS(...)                                                                                \
    (const unsigned char[])                                                                        \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define TEXT(text) text, sizeof text - 1

START_TEST(reads_pnm)
{
    assert_image(TEXT("P2 3 2 255 0 10 128\n200 254 255"), 1, 2, 3,
                 PIXELS(0, 10, 128, 200, 254, 255));
    assert_image(TEXT("P2#a comment\n#another 7 8 9\r 3\t1 # 5\n15\n0 7 15\n\n"), 1, 1, 3,
                 PIXELS(0, 119, 255));
    assert_image(TEXT("P3\n2 1\n100\n1 2 3 97 98 100\n"), 3, 1, 2,
                 PIXELS(3, 247, 5, 250, 8, 255)); /* 255 / 100, rounded */
    assert_image(TEXT("P5 2 2 255\n\n #\xff"), 1, 2, 2, PIXELS('\n', ' ', '#', 255));
    assert_image(TEXT("P5 2 1 65535 \xff\xff\x80\x00"), 1, 1, 2, PIXELS(255, 128));
    assert_image(TEXT("P5 2 1 256\n\x01\x00\x00\x80"), 1, 1, 2, PIXELS(255, 128));
    assert_image(TEXT("P5 3 1 1\n\x00\x01\x01"), 1, 1, 3, PIXELS(0, 255, 255));
    assert_image(TEXT("P6 2 2 255\nabcdefghijkl"), 3, 2, 2,
                 PIXELS('a', 'd', 'g', 'j', 'b', 'e', 'h', 'k', 'c', 'f', 'i', 'l'));
}
END_TEST

START_TEST(reads_png)
{
    if (!ls_image_has_png()) {
        ls_image image;
        ASSERT_SAYS(ls_image_read(scratch_file("g", png_grey, sizeof png_grey), &image),
                    LS_ERR_INPUT, "g: is a PNG", "no libpng");
        SKIP_PART("built without PNG");
        return;
    }
    assert_image(png_grey, sizeof png_grey, 1, 2, 3, PIXELS(0, 10, 128, 200, 254, 255));
    assert_image(png_colour, sizeof png_colour, 3, 1, 2, PIXELS(1, 250, 2, 251, 3, 252));
    assert_image(png_palette, sizeof png_palette, 3, 1, 3, PIXELS(60, 255, 9, 50, 0, 8, 40, 1, 7));
    assert_image(png_transparent, sizeof png_transparent, 3, 1, 2, PIXELS(10, 0, 20, 0, 30, 0));
    assert_image(png_sixteen, sizeof png_sixteen, 1, 1, 2, PIXELS(255, 64));
}
END_TEST

typedef struct refusal {
    const char *bytes;
    size_t count;
    const char *words[3];
} refusal;

static const refusal refusals[] = {
    {TEXT(""), {"bad: empty", "PNG, PGM or PPM"}},
    {TEXT("P"), {"begins with \"P\""}},
    {TEXT("GIF89a..."), {"begins with \"GIF89a..\""}},
    {TEXT("\xff\xd8\xff\xe0\x1b"), {"begins with \"\\xff\\xd8\\xff\\xe0\\x1b\""}},
    {TEXT("P1 1 1 0"), {"is a P1", "P2, P3, P5 and P6"}},
    {TEXT("P4 1 1 0"), {"is a P4"}},
    {TEXT("P7\nWIDTH 1"), {"is a P7"}},
    {TEXT("P2"), {"ends before the width"}},
    {TEXT("P2 # only a comment"), {"ends before the width"}},
    {TEXT("P2 1"), {"ends before the height"}},
    {TEXT("P2 1 1"), {"ends before the brightest level"}},
    {TEXT("P2 x 1 255 0"), {"\"x\" instead of the width"}},
    {TEXT("P2 -1 1 255 0"), {"\"-\" instead of the width"}},
    {TEXT("P2 1 \x1b 255 0"), {"\"\\x1b\" instead of the height"}},
    {TEXT("P5 99999999999999999999999 1 255\n0"), {"the width is more than 4294967295"}},
    {TEXT("P5 4294967295 4294967295 255\n0"), {"4294967295 rows and 4294967295 columns", "16384"}},
    {TEXT("P5 16384 16384 255\n0"), {"16384 rows and 16384 columns", "67108864 pixels"}},
    {TEXT("P5 0 4 255\n"), {"4 rows and 0 columns", "1 to 16384"}},
    {TEXT("P5 1 1 0\n\0"), {"brightest level is 0", "1 to 65535"}},
    {TEXT("P5 1 1 65536\n\0"), {"the brightest level is more than 65535"}},
    {TEXT("P5 1 1 255"), {"no space behind the brightest level"}},
    {TEXT("P5 1 1 255x"), {"no space behind the brightest level"}},
    {TEXT("P5 2 2 255\nabc"), {"ends too early: 2 x 2 pixels need at least 4 bytes", "are 3"}},
    {TEXT("P6 2 1 255\nabcde"), {"need at least 6 bytes", "are 5"}},
    {TEXT("P5 2 1 256\nabc"), {"need at least 4 bytes"}},
    {TEXT("P5 1 1 255\nab"), {"1 bytes behind the last pixel", "one image"}},
    {TEXT("P5 1 1 9\n\x0a"), {"a pixel is 10, and the brightest level 9"}},
    {TEXT("P2 2 2 9 1 2 3"), {"ends too early: 2 x 2 pixels need at least 7 bytes"}},
    {TEXT("P2 2 1 9 111 "), {"a pixel is more than 9"}},
    {TEXT("P2 2 1 9 1    "), {"ends before a pixel"}},
    {TEXT("P2 2 1 9 1 2 3"), {"1 bytes behind the last pixel"}},
    {TEXT("P2 2 1 9 1 2x "), {"2 bytes behind the last pixel"}},
};

START_TEST(refuses)
{
    const refusal *r = &refusals[_i];
    ls_image image = {.width = 77};
    const char *words[5] = {"bad: "};
    for (int i = 0; i < 3 && r->words[i]; i++) words[i + 1] = r->words[i];
    assert_says(ls_image_read(scratch_file("bad", r->bytes, r->count), &image), LS_ERR_INPUT,
                words);
    ck_assert(image.width == 77 && image.pixels == NULL);
}
END_TEST

/* Cut off anywhere, and with any byte changed: refused in one line, or an image of one size. */
START_TEST(damaged_png)
{
    if (!ls_image_has_png()) SKIP_TEST("built without PNG");
    ls_image image;
    for (size_t n = 0; n < sizeof png_colour - 12; n++) { /* IEND itself may be missing */
        image = (ls_image){.width = 77};
        ASSERT_SAYS(ls_image_read(scratch_file("cut", png_colour, n), &image), LS_ERR_INPUT,
                    "cut: ");
        ck_assert(image.width == 77);
    }
    int refused = 0;
    for (size_t i = 0; i < sizeof png_colour; i++) {
        unsigned char bytes[sizeof png_colour];
        memcpy(bytes, png_colour, sizeof bytes);
        bytes[i] ^= 0x41;
        image = (ls_image){0};
        const ls_status status = ls_image_read(scratch_file("odd", bytes, sizeof bytes), &image);
        if (status == LS_OK) {
            ck_assert(image.height == 1 && image.width == 2);
            ls_image_free(&image);
            continue;
        }
        refused++;
        ASSERT_SAYS(status, LS_ERR_INPUT, "odd: ");
    }
    ck_assert_int_gt(refused, (int)sizeof png_colour * 2 / 3);
    ASSERT_SAYS(ls_image_read(scratch_file("huge", png_huge, sizeof png_huge), &image),
                LS_ERR_INPUT, "huge: an image of 20000 rows and 20000 columns");
}
END_TEST

START_TEST(no_file)
{
    ls_image image;
    ASSERT_SAYS(ls_image_read(scratch_path("missing"), &image), LS_ERR_INPUT, "missing: No such");
    ASSERT_SAYS(ls_image_read(scratch_folder, &image), LS_ERR_INPUT, "is a folder");
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("image_files", 0);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, reads_pnm);
    tcase_add_test(tcase, reads_png);
    tcase_add_loop_test(tcase, refuses, 0, (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_test(tcase, damaged_png);
    tcase_add_test(tcase, no_file);
    return run_tests();
}
