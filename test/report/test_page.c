/* The page: of networks each layer's grid and bytes, and images; nothing left behind without
 * commit, foreign text harmless, losses that are no numbers, key and value heads that several ranks
 * hold. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/pipeline/plan.h"
#include "report/page_file.h"
#include "report/svg.h"
#include "run_tests.h"

static char folder[64], made[96], file_path[128];

static void enter(void)
{
    snprintf(folder, sizeof folder, "/tmp/lockstep_page_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(made, sizeof made, "%s/report", folder);
    snprintf(file_path, sizeof file_path, "%s/index.html", made);
}

static void leave(void)
{
    unlink(file_path);
    rmdir(made);
    ck_assert_msg(rmdir(folder) == 0, "something is left in %s", folder);
}

static bool exists(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0;
}

/* A report of one run in `tp` ranks with `losses`. */
static ls_report *make_report(const char *model, int tp, const double *losses, size_t n,
                              const ls_text *text)
{
    ls_report *report = NULL;
    ls_run common;
    ls_config config;
    ck_assert_int_eq(ls_config_named(model, &config), LS_OK);
    ls_run_defaults(&common, &config);
    common.text = text;
    ck_assert_int_eq(ls_report_create(&report, &common, 1, 1), LS_OK);
    report->command = "lockstep verify";
    report->text_name = "<b>&\"'\x01\xff";
    ls_report_run *run = &report->runs[report->n_runs++];
    run->layout = ls_layout_serial();
    run->layout.tp = tp;
    for (size_t i = 0; i < n; i++) {
        ls_step step = {.step = i, .loss = losses[i]};
        ck_assert_int_eq(ls_losses_add(&run->losses, &step), LS_OK);
    }
    run->result.ranks = tp;
    run->result.last_step = n;
    run->result.rank = calloc((size_t)tp, sizeof *run->result.rank);
    ck_assert_ptr_nonnull(run->result.rank);
    return report;
}

static char *page_of(const ls_report *report)
{
    static char *text;
    static size_t size;
    FILE *file = open_memstream(&text, &size);
    ck_assert_int_eq(ls_page_write(file, report), LS_OK);
    fclose(file);
    return text;
}

static const double falling[] = {5.5, 5.0, 4.5};
static const ls_text nothing = {NULL, 0};

START_TEST(only_what_is_committed_stays)
{
    ls_page *page = NULL;
    ls_report *report = make_report("gpt2-nano", 2, falling, 3, &nothing);
    ck_assert_int_eq(ls_page_open(&page, made), LS_OK);
    ck_assert(exists(made) && !exists(file_path));
    ls_page_close(&page);
    ck_assert(!exists(made));
    ck_assert_int_eq(ls_page_open(&page, made), LS_OK);
    ck_assert_int_eq(ls_page_commit(page, report), LS_OK);
    ls_page_close(&page);
    ck_assert(exists(file_path));
    /* What stands is neither lost nor half written over by a page that is given up. */
    struct stat before, after;
    ck_assert_int_eq(stat(file_path, &before), 0);
    ck_assert_int_eq(ls_page_open(&page, made), LS_OK);
    ls_page_close(&page);
    ck_assert_int_eq(stat(file_path, &after), 0);
    ck_assert(before.st_size == after.st_size && before.st_ino == after.st_ino);
    ls_report_destroy(&report);
}
END_TEST

START_TEST(bad_folders)
{
    ls_page *page = NULL;
    char path[160];
    ls_error_clear();
    snprintf(path, sizeof path, "%s/missing/deep", folder);
    ck_assert_int_eq(ls_page_open(&page, path), LS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "missing/deep"));
    ls_error_clear();
    FILE *file = fopen(made, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ck_assert_int_eq(ls_page_open(&page, made), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), made));
    ck_assert_ptr_null(page);
    unlink(made);
}
END_TEST

START_TEST(foreign_text)
{
    ls_report *report = make_report("gpt2-nano", 2, falling, 3, &nothing);
    char *text = page_of(report);
    ck_assert_ptr_null(strstr(text, "<b>"));
    ck_assert_ptr_nonnull(strstr(text, "&lt;b&gt;&amp;&quot;&#39;\\x01\\xff"));
    free(text);
    ls_report_destroy(&report);
}
END_TEST

START_TEST(losses_that_are_no_numbers)
{
    const double broken[] = {5.5, (double)INFINITY, 4.5, (double)NAN, -(double)INFINITY};
    for (size_t n = 0; n <= 5; n++) {
        ls_report *report = make_report("gpt2-nano", 2, broken + (n == 1), n, &nothing);
        char *text = page_of(report);
        /* Coordinates stand in quotes or behind M and L. */
        static const char *const signs[] = {"\"nan", "\"-nan", "\"inf", "Mnan",   "Lnan",
                                            " nan",  "Minf",   "Linf",  " inf\"", "L-inf"};
        char *drawing = strstr(text, "<svg");
        char *end = drawing != NULL ? strstr(drawing, "</svg>") : NULL;
        if (end != NULL) *end = '\0';
        for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
            ck_assert_msg(drawing == NULL || strstr(drawing, signs[i]) == NULL, "%zu losses: %s", n,
                          signs[i]);
        free(text);
        ls_report_destroy(&report);
    }
}
END_TEST

/* Losses that differ in their last bit, are equal and so large that 1 more is nothing, or lie
 * farther apart than a number can say: the axis has ticks, and they come to an end. */
START_TEST(losses_very_near_and_very_far)
{
    const double odd[][2] = {
        {5.0, nextafter(5.0, 6.0)}, {1e20, 1e20}, {0.0, 0.0}, {-1.7e308, 1.7e308}, {0.0, 1.79e308}};
    for (int i = 0; i < 5; i++) {
        ls_report *report = make_report("gpt2-nano", 2, odd[i], 2, &nothing);
        char *text = page_of(report);
        ck_assert(strstr(text, "class=\"grid\"") != NULL);
        free(text);
        ls_report_destroy(&report);
    }
}
END_TEST

/* llama-nano: 12 query heads share 4 key/value heads. At tp 6 ranks 1 and 4 hold two of them each:
 * 8 parts in a key matrix; at tp 4 each rank holds one. Counts the parts of one drawing. */
START_TEST(shared_heads)
{
    static const struct {
        int tp;
        size_t key_parts;
    } cases[] = {{1, 1}, {2, 2}, {4, 4}, {6, 8}, {12, 12}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_report *report = make_report("llama-nano", cases[i].tp, falling, 3, &nothing);
        char *text = NULL;
        size_t size = 0, parts = 0;
        FILE *file = open_memstream(&text, &size);
        ck_assert_int_eq(ls_svg_cut(file, report->table, &report->runs[0].layout), LS_OK);
        fclose(file);
        char *at = strstr(text, "layers.0.attention.key.weight");
        char *end = at != NULL ? strstr(at, "layers.0.attention.value.weight") : NULL;
        ck_assert(at != NULL && end != NULL);
        *end = '\0';
        while ((at = strstr(at, "class=\"part\"")) != NULL) {
            parts++;
            at++;
        }
        ck_assert_msg(parts == cases[i].key_parts, "tp %d: %zu parts", cases[i].tp, parts);
        free(text);
        ls_report_destroy(&report);
    }
}
END_TEST

/* ---- networks */

/* A report of one run of a network in a layout. */
static ls_report *make_net_report(const char *model, const ls_images *images, const char *layout)
{
    ls_report *report = make_report(model, 1, falling, 3, NULL);
    ls_report_run *run = &report->runs[0];
    report->common.images = images;
    report->text_name = "drawn";
    ck_assert_int_eq(ls_layout_parse("test", layout, &run->layout), LS_OK);
    run->result.ranks = ls_layout_ranks(&run->layout);
    free(run->result.rank);
    run->result.rank = calloc((size_t)run->result.ranks, sizeof *run->result.rank);
    ck_assert_ptr_nonnull(run->result.rank);
    return report;
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) n++;
    return n;
}

/* The row of a layer in the table of layers, up to its end. */
static char *row_of(const char *text, const char *layer)
{
    char begin[64];
    snprintf(begin, sizeof begin, "<tr><td>%s</td><td>", layer);
    const char *at = strstr(text, begin);
    ck_assert_msg(at != NULL, "no row of %s", layer);
    char *row = strndup(at, (size_t)(strchr(at, '\n') - at));
    ck_assert_ptr_nonnull(row);
    return row;
}

START_TEST(layers_of_a_network)
{
    ls_images images;
    ck_assert_int_eq(ls_images_draw("test", 5, 20, 3, 32, 32, 10, &images), LS_OK);
    ls_report *report = make_net_report(
        "alexnet-nano", &images,
        "dp 2 x spatial 2x1 x channel 2, overlap, layer 8 4x1x1x2, layer 18 2x1x1x4");
    const ls_run *run = &report->common;
    const ls_net *net = &run->config.net;
    ls_plan *plan = NULL;
    const ls_plan_setup setup = {&run->config, &report->runs[0].layout, run->batch, run->dtype,
                                 false};
    char *text = page_of(report);
    ck_assert_ptr_nonnull(
        strstr(text, "data parallel 2, spatial 2 x 1, channel parallel 2: 8 ranks; with overlap"));
    ck_assert_ptr_nonnull(strstr(text, "conv3 4x1x1x2, dense7 2x1x1x4 (samples"));
    /* Every rank once, a frame for each place of pixels of each replica. */
    for (int r = 0; r < 8; r++) {
        char place[64];
        snprintf(place, sizeof place, "<title>rank %d: replica %d, row %d, column 0, channels %d ",
                 r, r / 4, r / 2 % 2, r % 2);
        ck_assert_msg(count_of(text, place) == 1, "%s: %zu times", place, count_of(text, place));
    }
    ck_assert_uint_eq(count_of(text, "class=\"place\""), 4);
    /* A row per layer, with the plan's numbers. */
    ck_assert_int_eq(ls_plan_create(&plan, &setup), LS_OK);
    for (size_t n = 0; n < net->count; n++) {
        const ls_net_layer_plan *layer = &plan->net_layers[n];
        const uint64_t bytes[] = {layer->forward.bytes,  layer->forward.most,   layer->halo_formula,
                                  layer->backward.bytes, layer->returned.bytes, layer->summed};
        char *row = row_of(text, net->layers[n].name);
        const char *at = row;
        for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
            uint64_t found = 0;
            at = strstr(at, "right\">");
            ck_assert_ptr_nonnull(at);
            for (at += strlen("right\">"); *at != '<'; at++)
                if (*at >= '0' && *at <= '9') found = 10 * found + (uint64_t)(*at - '0');
            ck_assert_msg(found == bytes[i], "%s, number %zu: %s", net->layers[n].name, i, row);
        }
        free(row);
    }
    static const struct {
        const char *layer, *grid, *purpose;
    } rows[] = {{"conv2", "\"n\">2x2x1x2<", ">halo<"},
                {"norm1", "\"n\">2x2x1x2<", ">channels<"},
                {"conv3", "\"n other\">4x1x1x2<", ">redistribution<"},
                {"relu3", "\"n\">4x1x1x2<", ">-<"},
                {"dense6", "\"n\">4x1x1x2<", ">channels<"},
                {"dense7", "\"n other\">2x1x1x4<", ">redistribution<"},
                {"dense8", "\"n other\">8x1x1x1<", ">redistribution<"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *row = row_of(text, rows[i].layer);
        ck_assert_msg(strstr(row, rows[i].grid) != NULL, "%s: %s", rows[i].grid, row);
        ck_assert_msg(strstr(row, rows[i].purpose) != NULL, "%s: %s", rows[i].purpose, row);
        free(row);
    }
    ck_assert_ptr_null(strstr(text, "pipeline"));
    ck_assert_ptr_null(strstr(text, "tensor"));
    ck_assert_uint_eq(count_of(text, "data:image/bmp;base64,Qk"), 10);
    free(text);
    ls_plan_destroy(&plan);
    ls_report_destroy(&report);
    ls_images_free(&images);
}
END_TEST

/* Of two outputs that are added, the second one comes from another grid. */
START_TEST(additions_across_grids)
{
    ls_images images;
    ck_assert_int_eq(ls_images_draw("test", 5, 20, 3, 32, 32, 10, &images), LS_OK);
    ls_report *report =
        make_net_report("resnet-nano", &images, "dp 2 x spatial 2x1, layer 10 4x1x1x1");
    char *text = page_of(report);
    char *row = row_of(text, "block2.add");
    ck_assert_msg(strstr(row, ">redistribution<") != NULL && strstr(row, "n other") != NULL, "%s",
                  row);
    free(row);
    row = row_of(text, "block1.add");
    ck_assert_msg(strstr(row, "n other") == NULL, "%s", row);
    free(row);
    free(text);
    ls_report_destroy(&report);
    ls_images_free(&images);
}
END_TEST

/* One rank has no place to be drawn; one grey image of 10 x 9 is a bitmap of 54 + 9 x 32 bytes. */
START_TEST(one_rank_and_grey_images)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { BYTES = 54 + 9 * 32 };
    unsigned char bytes[BYTES + 2] = {0};
    ls_images images;
    ck_assert_int_eq(ls_images_draw("test", 5, 1, 1, 9, 10, 3, &images), LS_OK);
    ls_report *report = make_net_report("alexnet-nano", &images, "one rank");
    char *text = page_of(report);
    ck_assert_ptr_null(strstr(text, "Where ranks stand"));
    const char *at = strstr(text, "base64,");
    ck_assert_ptr_nonnull(at);
    at += strlen("base64,");
    const size_t length = strcspn(at, "\"");
    ck_assert_uint_eq(length, (BYTES + 2) / 3 * 4);
    for (size_t i = 0; i < length && at[i] != '='; i++) {
        const char *letter = strchr(letters, at[i]);
        ck_assert_ptr_nonnull(letter);
        for (size_t bit = 0; bit < 6; bit++) {
            const size_t number = 6 * i + bit;
            if (number / 8 < sizeof bytes && ((letter - letters) >> (5 - bit) & 1))
                bytes[number / 8] |= (unsigned char)(1 << (7 - number % 8));
        }
    }
    ck_assert(bytes[0] == 'B' && bytes[1] == 'M' && bytes[18] == 10 && bytes[22] == 9);
    for (size_t r = 0; r < 9; r++)
        for (size_t c = 0; c < 10; c++)
            for (size_t colour = 0; colour < 3; colour++)
                ck_assert_int_eq(bytes[54 + (8 - r) * 32 + 3 * c + colour],
                                 images.pixels[r * 10 + c]);
    ck_assert_ptr_nonnull(strstr(text, "1 of 3 labels"));
    free(text);
    ls_report_destroy(&report);
    ls_images_free(&images);
}
END_TEST

int main(void)
{
    TCase *all = test_case("all", 0);
    tcase_add_checked_fixture(all, enter, leave);
    tcase_add_test(all, only_what_is_committed_stays);
    tcase_add_test(all, bad_folders);
    tcase_add_test(all, foreign_text);
    tcase_add_test(all, losses_that_are_no_numbers);
    tcase_add_test(all, losses_very_near_and_very_far);
    tcase_add_test(all, shared_heads);
    tcase_add_test(all, layers_of_a_network);
    tcase_add_test(all, additions_across_grids);
    tcase_add_test(all, one_rank_and_grey_images);
    return run_tests();
}
