/* Numbers in text have a decimal point, also where the program that uses the library has a locale
 * with a comma: options, links, drawings, error texts, models. Without such a locale on the system
 * one is made with localedef; where that is missing too the test is skipped. */
#include "base/decimal_point.h"
#include "lockstep/base/options.h"
#include "lockstep/comm/world.h"
#include "lockstep/model/config.h"
#include "lockstep/pipeline/drawing.h"
#include "lockstep/pipeline/replay.h"
#include "run_tests.h"


static bool set_comma(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8",  "fr_FR.UTF-8",
                                        "de_DE",       "pt_BR.UTF-8", "ru_RU.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (setlocale(LC_ALL, names[i]) != NULL && strcmp(localeconv()->decimal_point, ",") == 0)
            return true;
    return set_decimal_point("<U002C>");
}

#define ck_ok(call) ck_assert_msg((call) == LS_OK, "%s", ls_error_text())

START_TEST(options_and_links)
{
    double rate = 0.25;
    const char *const words[] = {"--rate", "1.5e-3"}, *const comma[] = {"--rate", "1,5"};
    ls_option option = ls_option_real("rate", &rate, 0, false, 0.5, "X", "a rate");
    char help[512] = "";
    FILE *file = fmemopen(help, sizeof help - 1, "w");
    ls_options_help(file, &option, 1);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(help, "a number from 0 to 0.5"));
    ck_assert_ptr_nonnull(strstr(help, "(default 0.25)"));
    ck_ok(ls_options_parse(&option, 1, 2, words, NULL));
    ck_assert(rate == 1.5e-3);
    ck_assert_int_eq(ls_options_parse(&option, 1, 2, comma, NULL), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "--rate 1,5: a number from 0 to 0.5 is allowed");

    ls_link link;
    ck_ok(ls_link_parse("--link", "0.5us,1.5GB/s", &link));
    ck_assert(link.latency_ns == 500 && link.bytes_per_ns == 1.5);
    ck_assert_int_eq(ls_link_parse("--link", "0,5us,1,5GB/s", &link), LS_ERR_INPUT);
    ck_assert_str_eq(localeconv()->decimal_point, ","); /* the caller's is as it was */
}
END_TEST

START_TEST(drawings)
{
    static char text[20000];
    const ls_box boxes[] = {{.row = 0, .start = 0, .end = 0.75, .kind = LS_BOX_FORWARD}};
    const ls_drawing drawing = {.rows = 1, .boxes = boxes, .count = 1, .time_unit = "ms"};
    FILE *file = fmemopen(text, sizeof text - 1, "w");
    ls_svg_boxes(file, &drawing);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, ">0.2</text>"));
    for (const char *c = text; *c != '\0'; c++)
        ck_assert_msg(*c != ',' || c[1] == ' ', "a comma in %.60s", c - 20);
    ck_assert_str_eq(localeconv()->decimal_point, ",");
}
END_TEST

START_TEST(models)
{
    ls_config config, again;
    char *json = NULL;
    ck_ok(ls_config_named("gpt2-nano", &config));
    config.dropout = 0.125;
    config.norm_eps = 1.5e-3;
    ck_ok(ls_config_to_json(&config, &json));
    ck_assert_ptr_nonnull(strstr(json, "0.125"));
    ck_ok(ls_config_from_json("again", json, &again));
    ck_assert(again.dropout == config.dropout && again.norm_eps == config.norm_eps);
    config.dropout = 1.5;
    ck_assert_int_eq(ls_config_check(&config), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "1.5"));
    free(json);
}
END_TEST

static ls_status write_number(ls_rank *rank, void *text)
{
    if (ls_rank_index(rank) == 1) snprintf(text, 16, "%.2f", 0.75);
    return LS_OK;
}

/* A rank is a thread of its own. */
START_TEST(ranks)
{
    char text[16] = "";
    ck_ok(ls_world_run(2, NULL, write_number, text));
    ck_assert_str_eq(text, "0.75");
}
END_TEST

int main(void)
{
    int status = TESTS_SKIPPED;
    scratch_setup();
    if (set_comma()) {
        TCase *tests = test_case("decimal_comma", 0);
        tcase_add_test(tests, options_and_links);
        tcase_add_test(tests, drawings);
        tcase_add_test(tests, models);
        tcase_add_test(tests, ranks);
        status = run_tests();
    } else {
        puts("skipped: no locale with a decimal comma, and no localedef to make one");
    }
    scratch_teardown();
    return status;
}
