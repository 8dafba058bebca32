/* Maps of pixels: against drawings made by hand, as text; as SVG by counting what must be there. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/partition/image_box.h"
#include "lockstep/partition/pixel_map.h"
#include "run_tests.h"

static const char *written(const ls_pixel_map *maps, size_t count, size_t columns, bool svg)
{
    static char text[200000];
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    if (svg)
        ls_svg_pixel_maps(file, maps, count, columns);
    else
        ls_pixel_maps_text(file, maps, count, columns);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* 4 x 5 pixels; member 1 has none, nobody has the last column. */
static const ls_rectangle owned[] = {{0, 0, 3, 2}, {3, 2, 0, 2}, {0, 2, 3, 2}, {3, 0, 1, 4}};
static const ls_rectangle read = {1, 1, 3, 3}, small[] = {{0, 0, 1, 2}, {1, 0, 1, 2}};
static const ls_pixel_map maps[] = {{"who", 4, 5, owned, 4, NULL, 0},
                                    {"read by 2", 4, 5, owned, 4, &read, 2},
                                    {"y", 2, 2, small, 2, NULL, 0}};

START_TEST(as_text)
{
    /* Side by side, the lower ones first to end; nobody has the last column. */
    ck_assert_str_eq(written(maps, 3, 22, false), "who     read by 2   y\n"
                                                  "0022    .....       00\n"
                                                  "0022    .0==.       11\n"
                                                  "0022    .0==.\n"
                                                  "3333    .333.\n");
    /* One column less, and the third stands below. */
    ck_assert_str_eq(written(maps, 3, 21, false), "who     read by 2\n"
                                                  "0022    .....\n"
                                                  "0022    .0==.\n"
                                                  "0022    .0==.\n"
                                                  "3333    .333.\n"
                                                  "y\n00\n11\n");
    /* Wider than the line: each by itself, nothing is cut off. */
    ck_assert_str_eq(written(maps + 1, 2, 1, false),
                     "read by 2\n.....\n.0==.\n.0==.\n.333.\ny\n00\n11\n");
    ck_assert_str_eq(written(maps, 0, 80, false), "");
}
END_TEST

/* More members than there are marks; a reader that reads nothing; one that owns nothing. */
START_TEST(many)
{
    ls_rectangle each[64];
    for (size_t m = 0; m < 64; m++) each[m] = (ls_rectangle){0, m, 1, 1};
    const ls_rectangle nothing = {0, 0, 0, 0}, some = {0, 9, 1, 2};
    const ls_pixel_map all = {"", 1, 64, each, 64, NULL, 0};
    ck_assert_str_eq(written(&all, 1, 80, false), "\n0123456789abcdefghijklmnopqrstuvwxyz"
                                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ**\n");
    const ls_pixel_map none = {"r", 1, 12, each, 12, &nothing, 3};
    ck_assert_str_eq(written(&none, 1, 80, false), "r\n............\n");
    const ls_pixel_map without = {"r", 1, 12, each, 12, &some, 12};
    ck_assert_str_eq(written(&without, 1, 80, false), "r\n.........9a.\n");
}
END_TEST

static size_t times(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) n++;
    return n;
}

START_TEST(as_svg)
{
    const char *text = written(maps, 3, 2, true);
    ck_assert_int_eq(strncmp(text, "<svg ", 5), 0);
    ck_assert_str_eq(text + strlen(text) - 7, "</svg>\n");
    ck_assert_uint_eq(times(text, "<title>"), 2 * 16 + 4);           /* owned pixels             */
    ck_assert_uint_eq(times(text, "fill-opacity=\"0.25\""), 16 - 9); /* of them not read         */
    ck_assert_uint_eq(times(text, "stroke-dasharray"), 1);           /* what is read             */
    ck_assert_uint_eq(times(text, "stroke-width"), 2);               /* and what is the reader's */
    ck_assert_uint_eq(times(text, "text-anchor=\"middle\""), 3 + 3 + 2); /* numbers             */
    ck_assert_uint_eq(times(text, ">who</text>"), 1);
    const ls_pixel_map odd = {"a < b & c", 2, 2, small, 2, NULL, 0};
    ck_assert_ptr_nonnull(strstr(written(&odd, 1, 1, true), ">a &lt; b &amp; c</text>"));
}
END_TEST

/* A box is taken in the order of the array, element by element as its numbers say. */
START_TEST(take)
{
    const ls_image_box all = {{2, 3}, {1, 4}, {5, 6, 3, 4}}, none = {{2, 1}, {1, 1}, {5, 6, 0, 4}};
    const ls_image_box piece = {{3, 2}, {2, 2}, {6, 7, 2, 3}};
    double whole[3 * 4 * 3 * 4], own[2 * 2 * 2 * 3 + 1];
    float whole32[3 * 4 * 3 * 4], own32[2 * 2 * 2 * 3 + 1];
    size_t at = 0;
    for (size_t i = 0; i < 3 * 4 * 3 * 4; i++) whole[i] = (double)i, whole32[i] = (float)i;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) own[i] = -1, own32[i] = -1;
    ls_image_box_take(LS_F64, own, &none, whole, &all);
    ck_assert(own[0] == -1);
    ls_image_box_take(LS_F64, own, &piece, whole, &all);
    ls_image_box_take(LS_F32, own32, &piece, whole32, &all);
    for (size_t n = 3; n < 5; n++)
        for (size_t c = 2; c < 4; c++)
            for (size_t h = 6; h < 8; h++)
                for (size_t w = 7; w < 10; w++, at++) {
                    const size_t number = (((n - 2) * 4 + c - 1) * 3 + h - 5) * 4 + w - 6;
                    ck_assert(own[at] == (double)number && own32[at] == (float)number);
                }
    ck_assert(at == 24 && own[24] == -1 && own32[24] == -1);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("pixel_map", 0);
    tcase_add_test(tcase, as_text);
    tcase_add_test(tcase, many);
    tcase_add_test(tcase, as_svg);
    tcase_add_test(tcase, take);
    return run_tests();
}
