/* Who owns what: counted exhaustively for small sizes. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/partition/layout.h"
#include "lockstep/partition/share.h"
#include "run_tests.h"

/* Every thing belongs to exactly one part, parts are in order, and no two shares differ by more
 * than one. */
START_TEST(shares_cover_once)
{
    for (size_t n = 0; n <= 40; n++) {
        for (size_t parts = 1; parts <= 13; parts++) {
            size_t bounds[14], next = 0;
            ls_share_bounds(n, parts, bounds);
            for (size_t p = 0; p < parts; p++) {
                ls_share share = ls_share_of(n, parts, p);
                ck_assert_uint_eq(share.first, next);
                ck_assert_uint_eq(bounds[p], next);
                ck_assert(share.count == n / parts || share.count == n / parts + 1);
                next += share.count;
            }
            ck_assert_uint_eq(next, n);
            ck_assert_uint_eq(bounds[parts], n);
        }
    }
}
END_TEST

/* Sizes of known cases: five rows on four ranks; three on four leave the last empty; thirty ranks
 * and 512 rows. */
START_TEST(shares_of_known_cases)
{
    static const struct {
        size_t n, parts, part, first, count;
    } cases[] = {{5, 4, 0, 0, 2}, {5, 4, 3, 4, 1},     {3, 4, 3, 3, 0},        {1, 4, 1, 1, 0},
                 {0, 4, 2, 0, 0}, {512, 30, 0, 0, 18}, {512, 30, 29, 495, 17}, {9, 2, 0, 0, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_share share = ls_share_of(cases[i].n, cases[i].parts, cases[i].part);
        ck_assert_uint_eq(share.first, cases[i].first);
        ck_assert_uint_eq(share.count, cases[i].count);
    }
}
END_TEST

/* A rank holds exactly the kv heads that its query heads use: by asking each query head. */
START_TEST(kv_heads_follow_query_heads)
{
    for (size_t group = 1; group <= 6; group++) {
        for (size_t first = 0; first <= 12; first++) {
            for (size_t count = 0; first + count <= 12; count++) {
                ls_share query = {first, count}, kv = ls_share_of_kv(query, group);
                for (size_t j = 0; j < 12; j++) {
                    int used = 0;
                    for (size_t h = first; h < first + count; h++) used |= h / group == j;
                    ck_assert_int_eq(used, kv.first <= j && j < kv.first + kv.count);
                }
            }
        }
    }
}
END_TEST

/* 8 query heads on 2 kv heads at tp 4: rank r uses kv head r / 2, and there are 2 kv heads, not 4.
 */
START_TEST(more_ranks_than_kv_heads)
{
    for (size_t r = 0; r < 4; r++) {
        ls_share kv = ls_share_of_kv(ls_share_of(8, 4, r), 8 / 2);
        ck_assert_uint_eq(kv.first, r / 2);
        ck_assert_uint_eq(kv.count, 1);
    }
}
END_TEST

/* A refusal lists every number of parts that would do. */
START_TEST(equal_cuts)
{
    for (size_t n = 1; n <= 12; n++)
        for (size_t parts = 0; parts <= 13; parts++)
            ck_assert((ls_share_check_equal("--tp", parts, n, "heads") == LS_OK) ==
                      (parts > 0 && n % parts == 0));
    ls_error_clear();
    ck_assert_int_eq(ls_share_check_equal("--tp", 5, 12, "heads"), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "--tp 5: 12 heads cannot be cut into 5 equal parts; use 1, "
                                      "2, 3, 4, 6 or 12");
    ls_error_clear();
    ck_assert_int_eq(ls_share_check_equal("--ranks", 2, 7, "granules"), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "--ranks 2: 7 granules cannot be cut into 2 equal parts; "
                                      "use 1 or 7");
}
END_TEST

/* Rank and coordinates are inverse, and the order is tp, cp, dp, pp from fast to slow. */
START_TEST(grid)
{
    ls_layout layout = ls_layout_serial();
    layout.tp = 2;
    layout.cp = 3;
    layout.dp = 2;
    layout.pp = 4;
    ck_assert_int_eq(ls_layout_ranks(&layout), 48);
    for (int rank = 0; rank < 48; rank++) {
        ls_coordinates at = ls_layout_coordinates(&layout, rank);
        ck_assert_int_eq(at.tp, rank % 2);
        ck_assert_int_eq(at.cp, rank / 2 % 3);
        ck_assert_int_eq(at.dp, rank / 6 % 2);
        ck_assert_int_eq(at.pp, rank / 12);
        ck_assert_int_eq(ls_layout_rank(&layout, at), rank);
    }
    ls_layout huge = ls_layout_serial(), none = ls_layout_serial();
    huge.tp = huge.dp = 1 << 16;
    none.tp = 0;
    ck_assert_int_eq(ls_layout_ranks(&huge), -1);
    ck_assert_int_eq(ls_layout_ranks(&none), -1);
}
END_TEST

/* A network's grid: channels, columns, rows, samples from fast to slow, as that of a layer. */
START_TEST(image_grid)
{
    ls_layout layout = ls_layout_serial();
    layout.dp = 2;
    layout.down = 4;
    layout.across = 3;
    layout.channels = 5;
    const ls_layer_grid layer = {2, 4, 3, 5};
    ck_assert_int_eq(ls_layout_ranks(&layout), 120);
    ck_assert_int_eq(ls_layer_grid_ranks(&layer), 120);
    for (int rank = 0; rank < 120; rank++) {
        const ls_coordinates at = ls_layout_coordinates(&layout, rank);
        const ls_grid_place place = ls_layer_grid_place(&layer, rank);
        ck_assert_int_eq(at.channel, rank % 5);
        ck_assert_int_eq(at.column, rank / 5 % 3);
        ck_assert_int_eq(at.row, rank / 15 % 4);
        ck_assert_int_eq(at.dp, rank / 60);
        ck_assert_int_eq(ls_layout_rank(&layout, at), rank);
        ck_assert_int_eq(place.channel, at.channel);
        ck_assert_int_eq(place.column, at.column);
        ck_assert_int_eq(place.row, at.row);
        ck_assert_int_eq(place.sample, at.dp);
        ck_assert_int_eq(ls_layer_grid_rank(&layer, place), rank);
    }
    const ls_layer_grid huge = {1 << 16, 1, 1, 1 << 16}, none = {1, 0, 1, 1};
    ck_assert_int_eq(ls_layer_grid_ranks(&huge), -1);
    ck_assert_int_eq(ls_layer_grid_ranks(&none), -1);
}
END_TEST

/* A network's layout is read back as it was written. */
START_TEST(image_description)
{
    char text[256];
    ls_layout layout = ls_layout_serial(), back;
    layout.dp = 2;
    layout.down = 4;
    layout.across = 1;
    layout.channels = 5;
    layout.overlap = true;
    layout.n_strategies = 2;
    layout.strategies[0] = (ls_strategy){3, {1, 8, 1, 5}};
    layout.strategies[1] = (ls_strategy){11, {40, 1, 1, 1}};
    ls_layout_describe(&layout, text, sizeof text);
    ck_assert_str_eq(text, "dp 2 x spatial 4x1 x channel 5, overlap, layer 3 1x8x1x5, "
                           "layer 11 40x1x1x1");
    ck_assert_int_eq(ls_layout_parse("--layouts", text, &back), LS_OK);
    ck_assert(memcmp(&back, &layout, sizeof back) == 0);
    static const char *const bad[] = {"spatial 2",
                                      "spatial 2x",
                                      "spatial 2x1x1",
                                      "spatial 0x1",
                                      "channel 0",
                                      "layer 3 1x8x1",
                                      "layer 3 1x8x1x5x1",
                                      "layer 3",
                                      "spatial 2x1 x spatial 2x1",
                                      "layer 3 1x1x1x1, layer 3 1x1x1x1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_int_eq(ls_layout_parse("--layouts", bad[i], &back), LS_ERR_INPUT);
}
END_TEST

START_TEST(description)
{
    char text[128];
    ls_layout layout = ls_layout_serial(), one = ls_layout_serial();
    layout.tp = 2;
    layout.dp = 4;
    layout.pp = 3;
    ls_layout_describe(&layout, text, sizeof text);
    ck_assert_str_eq(text, "dp 4 x pp 3 x tp 2");
    ls_layout_describe(&one, text, sizeof text);
    ck_assert_str_eq(text, "one rank");
    ls_layout_describe(&layout, text, 5);
    ck_assert_str_eq(text, "d...");
    layout.sp = true;
    layout.virtual_stages = 2;
    layout.micro_batches = 6;
    layout.schedule = LS_INTERLEAVED;
    layout.recompute = LS_RECOMPUTE_LAYER;
    layout.given = 6;
    for (int s = 0; s < 6; s++) layout.stage_layers[s] = s == 2 ? 3 : 1;
    ls_layout_describe(&layout, text, sizeof text);
    ck_assert_str_eq(text,
                     "dp 4 x pp 3 x tp 2, sp, interleaved, 2 virtual stages, 6 micro-batches, "
                     "recompute layer, layers 1,1,3,1,1,1");
}
END_TEST

/* Every description is read back as the layout it came from. */
START_TEST(description_read_back)
{
    static const char *const descriptions[] = {
        "one rank",
        "tp 2",
        "dp 4 x pp 3 x tp 2",
        "cp 1 x tp 12",
        "dp 2, sp",
        "pp 4, gpipe, 2 micro-batches",
        ("dp 4 x pp 3 x tp 2, sp, interleaved, 2 virtual stages, 6 micro-batches, recompute layer, "
         "layers 1,1,3,1,1,1"),
        "interleaved, 4 virtual stages",
        "pp 2, recompute selective, layers 4,0",
        "recompute stage"};
    for (size_t i = 0; i < sizeof descriptions / sizeof descriptions[0]; i++) {
        char text[256];
        ls_layout layout;
        ck_assert_msg(ls_layout_parse("--layouts", descriptions[i], &layout) == LS_OK, "%s",
                      ls_error_text());
        ls_layout_describe(&layout, text, sizeof text);
        if (strncmp(descriptions[i], "cp 1", 4) == 0)
            ck_assert_str_eq(text, "tp 12");
        else
            ck_assert_str_eq(text, descriptions[i]);
    }
    ls_layout layout;
    ck_assert_int_eq(ls_layout_parse("", "tp 3 x sp", &layout), LS_OK);
    ck_assert(layout.tp == 3 && layout.sp);
    ck_assert_int_eq(ls_layout_parse("", "sp x dp 2", &layout), LS_OK);
    ck_assert(layout.dp == 2 && layout.sp);
    ck_assert_int_eq(ls_layout_parse("", "  pp 2  x tp 3 ,1f1b,3 micro-batches ", &layout), LS_OK);
    ck_assert(layout.pp == 2 && layout.tp == 3 && layout.schedule == LS_1F1B &&
              layout.micro_batches == 3);
}
END_TEST

START_TEST(what_is_said_twice)
{
    static const struct {
        const char *text, *part;
    } bad[] = {{"tp 2 x tp 2", "tp 2 x tp 2"},
               {"dp 2 x tp 3, dp 2", "dp 2"},
               {"pp 2 x dp 1, pp 2", "pp 2"},
               {"cp 1, cp 1", "cp 1"},
               {"tp 2, sp, sp", "sp"},
               {"pp 2, 1f1b, gpipe", "gpipe"},
               {"recompute layer, recompute none", "recompute none"},
               {"2 micro-batches, 3 micro-batches", "3 micro-batches"},
               {"interleaved, 2 virtual stages, 2 virtual stages", "2 virtual stages"},
               {"pp 2, layers 2,2, layers 1,3", "layers 1"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char wanted[128];
        ls_layout layout = {.tp = 77};
        snprintf(wanted, sizeof wanted, "--layouts: %s says something for the second time",
                 bad[i].part);
        ls_error_clear();
        ck_assert_int_eq(ls_layout_parse("--layouts", bad[i].text, &layout), LS_ERR_INPUT);
        ck_assert_msg(strncmp(ls_error_text(), wanted, strlen(wanted)) == 0, "%s: %s", bad[i].text,
                      ls_error_text());
        ck_assert_int_eq(layout.tp, 77);
    }
}
END_TEST

/* A comma where a semicolon was meant: two layouts would quietly be one. */
START_TEST(degrees_after_a_comma)
{
    static const char *const bad[][3] = {
        {"tp 4, dp 2", "tp 4 x dp 2", "tp 4; dp 2"},
        {"tp 4, sp, dp 2", "tp 4 x dp 2", "tp 4; dp 2"},
        {"pp 2 x tp 2 , 1f1b, dp 2 x cp 1", "pp 2 x tp 2 x dp 2 x cp 1",
         "pp 2 x tp 2; dp 2 x cp 1"},
        {"spatial 2x1, channel 2", "spatial 2x1 x channel 2", "spatial 2x1; channel 2"},
        {"dp 2, spatial 2x1", "dp 2 x spatial 2x1", "dp 2; spatial 2x1"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ls_layout layout = {.tp = 77};
        ls_error_clear();
        ck_assert_int_eq(ls_layout_parse("--layouts", bad[i][0], &layout), LS_ERR_INPUT);
        ck_assert_msg(strstr(ls_error_text(), bad[i][1]) && strstr(ls_error_text(), bad[i][2]),
                      "%s: %s", bad[i][0], ls_error_text());
        ck_assert_int_eq(layout.tp, 77);
    }
}
END_TEST

START_TEST(what_is_no_description)
{
    static const struct {
        const char *text, *part;
    } bad[] = {{"", "\"\""},         {"tp", "tp"},
               {"tp x", "tp x"},     {"tp 0", "tp 0"},
               {"tp -2", "tp -2"},   {"tp 2 x", "tp 2 x"},
               {"tp 2 2", "tp 2 2"}, {"pp 2, gpip", "gpip"},
               {"sp,", "\"\""},      {"pp 2, 4 microbatches", "4 microbatches"},
               {"layers 1,x", "x"},  {"recompute all", "recompute all"},
               {"sp 2", "sp 2"},     {"tp 99999999999", "tp 99999999999"},
               {"one", "one"},       {"3", "3"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char wanted[128];
        ls_layout layout = {.tp = 77};
        snprintf(wanted, sizeof wanted, "--layouts: %s is no part of a layout", bad[i].part);
        ls_error_clear();
        ck_assert_int_eq(ls_layout_parse("--layouts", bad[i].text, &layout), LS_ERR_INPUT);
        ck_assert_msg(strncmp(ls_error_text(), wanted, strlen(wanted)) == 0, "%s: %s", bad[i].text,
                      ls_error_text());
        ck_assert_int_eq(layout.tp, 77);
    }
}
END_TEST

START_TEST(layers_of_stages)
{
    size_t bounds[LS_MAX_STAGES + 1];
    ls_layout layout = ls_layout_serial();
    layout.pp = 3;
    layout.virtual_stages = 2;
    static const size_t even[] = {0, 2, 3, 4, 5, 6, 7}, uneven[] = {0, 1, 1, 4, 5, 6, 7};
    ck_assert_int_eq(ls_layout_stages(&layout), 6);
    ls_layout_stage_bounds(&layout, 7, bounds);
    for (int s = 0; s <= 6; s++) ck_assert_uint_eq(bounds[s], even[s]);
    layout.given = 6;
    for (int s = 0; s < 6; s++) layout.stage_layers[s] = (int)(uneven[s + 1] - uneven[s]);
    ls_layout_stage_bounds(&layout, 7, bounds);
    for (int s = 0; s <= 6; s++) ck_assert_uint_eq(bounds[s], uneven[s]);
}
END_TEST

/* 30 layers on 4 stages are 8, 8, 7, 7 (not 28 in all); 40 on 8 ranks with 2 chunks are all there
 * (not 32); 3, 1, 3, 1 on two ranks with two chunks: rank 0 has layers 0 to 2 and 4 to 6, rank 1
 * layers 3 and 7. */
START_TEST(every_layer_has_one_stage)
{
    static const size_t thirty[] = {0, 8, 16, 23, 30}, eight[] = {0, 3, 4, 7, 8};
    size_t bounds[LS_MAX_STAGES + 1];
    ls_layout layout = ls_layout_serial();
    layout.pp = 4;
    ls_layout_stage_bounds(&layout, 30, bounds);
    for (int s = 0; s <= 4; s++) ck_assert_uint_eq(bounds[s], thirty[s]);
    layout.pp = 8;
    layout.virtual_stages = 2;
    ls_layout_stage_bounds(&layout, 40, bounds);
    for (size_t s = 0; s <= 16; s++)
        ck_assert_uint_eq(bounds[s], s <= 8 ? 3 * s : 24 + 2 * (s - 8));
    layout.pp = 2;
    layout.given = 4;
    for (int s = 0; s < 4; s++) layout.stage_layers[s] = s % 2 ? 1 : 3;
    ls_layout_stage_bounds(&layout, 8, bounds);
    for (int s = 0; s <= 4; s++) ck_assert_uint_eq(bounds[s], eight[s]);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("share and layout", 0);
    tcase_add_test(tests, shares_cover_once);
    tcase_add_test(tests, shares_of_known_cases);
    tcase_add_test(tests, kv_heads_follow_query_heads);
    tcase_add_test(tests, more_ranks_than_kv_heads);
    tcase_add_test(tests, equal_cuts);
    tcase_add_test(tests, grid);
    tcase_add_test(tests, image_grid);
    tcase_add_test(tests, image_description);
    tcase_add_test(tests, description);
    tcase_add_test(tests, description_read_back);
    tcase_add_test(tests, what_is_said_twice);
    tcase_add_test(tests, what_is_no_description);
    tcase_add_test(tests, degrees_after_a_comma);
    tcase_add_test(tests, layers_of_stages);
    tcase_add_test(tests, every_layer_has_one_stage);
    return run_tests();
}
