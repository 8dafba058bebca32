/* test_images.c - batches of images as a function of seed and step, and drawn sets. */
#include <stdint.h>

#include "lockstep/model/batch.h"
#include "lockstep/model/images.h"
#include "lockstep/numerics/random.h"
#include "model/config_compare.h"
#include "run_tests.h"

enum { COUNT = 7, C = 3, H = 2, W = 5, N = C * H * W, B = 11 };

static ls_images counting(unsigned char pixels[COUNT * N], int32_t labels[COUNT])
{
    for (int i = 0; i < COUNT * N; i++) pixels[i] = (unsigned char)(i * 37);
    for (int i = 0; i < COUNT; i++) labels[i] = 10 + i;
    return (ls_images){.count = COUNT,
                       .channels = C,
                       .height = H,
                       .width = W,
                       .classes = 17,
                       .pixels = pixels,
                       .labels = labels};
}

static int same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

START_TEST(batch_is_the_definition)
{
    unsigned char pixels[COUNT * N];
    int32_t own[COUNT], labels[B];
    const ls_images images = counting(pixels, own);
    float x[B][N];
    int seen[COUNT] = {0};
    for (uint32_t step = 0; step < 20; step++) {
        memset(x, 0xff, sizeof x);
        ls_images_batch(&images, 99, step, 0, B, &x[0][0], labels);
        for (uint64_t b = 0; b < B; b++) {
            double u = ls_random_uniform((ls_stream){99, LS_RANDOM_DATA, 0, step}, b);
            size_t i = (size_t)(u * COUNT);
            ck_assert_int_eq(labels[b], own[i]);
            seen[i] = 1;
            for (size_t e = 0; e < N; e++)
                ck_assert(same(x[b][e], (float)((2.0 * pixels[i * N + e] - 255.0) / 255.0)));
        }
    }
    for (int i = 0; i < COUNT; i++) ck_assert(seen[i]);
    pixels[0] = 0, pixels[1] = 255;
    const ls_images one = {.count = 1,
                           .channels = 1,
                           .height = 1,
                           .width = 2,
                           .classes = 1,
                           .pixels = pixels,
                           .labels = own};
    ls_images_batch(&one, 1, 0, 0, 1, &x[0][0], labels);
    ck_assert(same(x[0][0], -1));
    ck_assert(same(x[0][1], 1));
}
END_TEST

/* Micro-batches and data-parallel ranks get their part, by themselves or from the whole. */
START_TEST(slices_of_a_batch)
{
    unsigned char pixels[COUNT * N];
    int32_t own[COUNT], labels[B], part_labels[B + 1];
    const ls_images images = counting(pixels, own);
    float x[B][N], part[B + 1][N];
    ls_images_batch(&images, 5, 9, 0, B, &x[0][0], labels);
    const ls_batch whole = {.B = B, .pixels = N, .images = &x[0][0], .labels = labels};
    for (size_t first = 0; first <= B; first++)
        for (size_t n = 0; first + n <= B; n++) {
            memset(part, 0xff, sizeof part);
            memset(part_labels, 0xff, sizeof part_labels);
            ls_images_batch(&images, 5, 9, first, n, &part[0][0], part_labels);
            ck_assert(memcmp(part, x[first], n * sizeof part[0]) == 0);
            ck_assert(memcmp(part_labels, labels + first, n * sizeof labels[0]) == 0);
            ck_assert_int_eq(part_labels[n], -1); /* nothing behind */
            const ls_batch cut = ls_batch_part(&whole, first, n);
            ck_assert(cut.images == x[first] && cut.labels == labels + first && cut.B == n);
            ck_assert(cut.first == first && cut.tokens == NULL);
        }
    ls_images_batch(&images, 5, 10, 0, B, &part[0][0], part_labels);
    ck_assert(memcmp(part_labels, labels, sizeof labels) != 0);
    ls_images_batch(&images, 6, 9, 0, B, &part[0][0], part_labels);
    ck_assert(memcmp(part_labels, labels, sizeof labels) != 0);
}
END_TEST

START_TEST(check_against_a_network)
{
    ls_config c = named("alexnet-nano"), transformer = named("gpt2-nano");
    ls_images images = {.count = 1, .channels = 3, .height = 32, .width = 32, .classes = 10};
    ASSERT_OK(ls_images_check(&images, "dir", &c));
    images.classes = 3;
    ASSERT_OK(ls_images_check(&images, "dir", &c));
    images.classes = 11;
    ASSERT_SAYS(ls_images_check(&images, "d\n", &c), LS_ERR_INPUT, "d\\x0a: 11 labels",
                "at most 10");
    images.classes = 10;
    images.width = 33;
    ASSERT_SAYS(ls_images_check(&images, "dir", &c), LS_ERR_INPUT,
                "dir: the images are 3 x 32 x 33", "--model alexnet-nano reads 3 x 32 x 32");
    images.width = 32;
    images.channels = 1;
    ASSERT_SAYS(ls_images_check(&images, "dir", &c), LS_ERR_INPUT, "1 x 32 x 32");
    ASSERT_SAYS(ls_images_check(&images, "dir", &transformer), LS_ERR_INPUT,
                "--model gpt2-nano: is a transformer");
}
END_TEST

/* Bytes of the set, as a digest: the same on every machine. */
START_TEST(drawn_alike_everywhere)
{
    ls_images a = {0}, b = {0};
    ASSERT_OK(ls_images_draw("here", 1234, 40, 3, 24, 32, 16, &a));
    ck_assert(a.count == 40 && a.channels == 3 && a.height == 24 && a.width == 32);
    for (size_t i = 0; i < 40; i++) ck_assert_int_eq(a.labels[i], (int32_t)(i % 16));
    ck_assert_str_eq(a.class_names[0], "0");
    ck_assert_str_eq(a.class_names[15], "cross");
    uint32_t sum = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < 40u * 3 * 24 * 32; i++) sum = (sum ^ a.pixels[i]) * 16777619u;
    ck_assert_msg(sum == 0xe37a4569u, "0x%08xu", sum);
    /* An image does not depend on how many are drawn with it; all 64 bits of the seed count. */
    ASSERT_OK(ls_images_draw("here", 1234, 20, 3, 24, 32, 16, &b));
    ck_assert_mem_eq(a.pixels, b.pixels, 20u * 3 * 24 * 32);
    ls_images_free(&b);
    ASSERT_OK(ls_images_draw("here", 1234 + ((uint64_t)1 << 32), 1, 3, 24, 32, 16, &b));
    int far = 0; /* beyond what noise makes: the scene is another one */
    for (int e = 0; e < 3 * 24 * 32; e++) far += abs(a.pixels[e] - b.pixels[e]) > 90;
    ck_assert_int_gt(far, 30);
    ls_images_free(&b);
    ls_images_free(&a);
    ck_assert(a.pixels == NULL && a.class_names == NULL && a.count == 0);
    ls_images_free(&a);
}
END_TEST

/* Whoever compares an image with the mean of each class is right far more often than by chance: the
 * sets can be learned. Grey, and every class. */
START_TEST(classes_can_be_told_apart)
{
    enum { SIDE = 16, PIXELS = SIDE * SIDE, EACH = 40, CLASSES = LS_DRAWN_CLASSES };
    ls_images set = {0};
    static double mean[CLASSES][PIXELS];
    ASSERT_OK(ls_images_draw("here", 3, EACH * CLASSES, 1, SIDE, SIDE, CLASSES, &set));
    memset(mean, 0, sizeof mean);
    int right = 0, constant = 0;
    for (int half = 0; half < 2; half++) /* learn from the first half, judge the second */
        for (size_t i = half ? set.count / 2 : 0; i < (half ? set.count : set.count / 2); i++) {
            const unsigned char *p = set.pixels + i * PIXELS;
            double average = 0, sign, best = -1e30;
            int named_as = -1;
            for (int e = 0; e < PIXELS; e++) average += p[e];
            average /= PIXELS;
            /* Ink may be bright or dark: the corners are paper. */
            sign = (p[0] + p[SIDE - 1] + p[PIXELS - SIDE] + p[PIXELS - 1]) / 4.0 < average ? 1 : -1;
            double length = 0;
            for (int e = 0; e < PIXELS; e++) length += (p[e] - average) * (p[e] - average);
            constant += length < 1;
            for (int k = 0; k < CLASSES; k++) {
                double product = 0, size = 1e-9;
                for (int e = 0; e < PIXELS; e++) {
                    product += sign * (p[e] - average) * mean[k][e];
                    size += mean[k][e] * mean[k][e];
                }
                if (product * (product < 0 ? -product : product) / size > best) {
                    best = product * (product < 0 ? -product : product) / size;
                    named_as = k;
                }
            }
            if (half == 1)
                right += named_as == set.labels[i];
            else
                for (int e = 0; e < PIXELS; e++)
                    mean[set.labels[i]][e] += sign * (p[e] - average) / (length + 1);
        }
    ck_assert_int_eq(constant, 0);
    ck_assert_msg(right > EACH * CLASSES / 2 * 3 / 10, "%d of %d", right, EACH * CLASSES / 2);
    ls_images_free(&set);
}
END_TEST

START_TEST(drawing_refuses)
{
    ls_images a = {.count = 77};
    ASSERT_SAYS(ls_images_draw("m.json", 1, 5, 3, 32, 32, 17, &a), LS_ERR_INPUT,
                "m.json: 17 classes", "1 to 16");
    ASSERT_SAYS(ls_images_draw("m.json", 1, 5, 3, 32, 32, 0, &a), LS_ERR_INPUT, "0 classes");
    ASSERT_SAYS(ls_images_draw("m.json", 1, 5, 2, 32, 32, 4, &a), LS_ERR_INPUT, "2 channels",
                "1 or 3");
    ASSERT_SAYS(ls_images_draw("m.json", 1, 5, 1, 7, 32, 4, &a), LS_ERR_INPUT, "7 x 32", "8 x 8");
    ASSERT_SAYS(ls_images_draw("m.json", 1, 5, 1, 8, 16385, 4, &a), LS_ERR_INPUT, "8 x 16385");
    ASSERT_SAYS(ls_images_draw("m.json", 1, 0, 1, 8, 8, 4, &a), LS_ERR_INPUT, "0 images");
    ASSERT_SAYS(ls_images_draw("m.json", 1, SIZE_MAX, 1, 8, 8, 4, &a), LS_ERR_INPUT, "1 to 1677");
    ck_assert(a.count == 77);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("images", 0);
    tcase_add_test(tcase, batch_is_the_definition);
    tcase_add_test(tcase, slices_of_a_batch);
    tcase_add_test(tcase, check_against_a_network);
    tcase_add_test(tcase, drawn_alike_everywhere);
    tcase_add_test(tcase, classes_can_be_told_apart);
    tcase_add_test(tcase, drawing_refuses);
    return run_tests();
}
