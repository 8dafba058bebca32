/* test_show.c - foreign bytes made harmless, and the word that was meant. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "run_tests.h"

START_TEST(shown_as_it_is)
{
    static const char *const texts[] = {
        "",
        "plain text.safetensors",
        "h\xc3\xa4lfte",
        "\xe2\x82\xac \xf0\x9f\x98\x80",
        "\xed\x9f\xbf\xee\x80\x80", /* both sides of the surrogates */
        "\xf4\x8f\xbf\xbf"          /* U+10FFFF                     */
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        ck_assert_str_eq(ls_show(texts[i]), texts[i]);
    ck_assert_str_eq(ls_show(NULL), "(null)");
}
END_TEST

START_TEST(made_harmless)
{
    static const char *const pairs[][2] = {
        {"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"},
        {"line\nend\r\t", "line\\x0aend\\x0d\\x09"},
        {"del\x7f", "del\\x7f"},
        {"back\\slash", "back\\\\slash"},
        {"\xff\xfe", "\\xff\\xfe"},
        {"cut \xc3", "cut \\xc3"},
        {"cut \xe2\x82", "cut \\xe2\\x82"},
        {"lone \x80 tail", "lone \\x80 tail"},
        {"long form \xc0\xaf", "long form \\xc0\\xaf"},
        {"long form \xe0\x80\xaf", "long form \\xe0\\x80\\xaf"},
        {"surrogate \xed\xa0\x80", "surrogate \\xed\\xa0\\x80"},
        {"beyond \xf4\x90\x80\x80", "beyond \\xf4\\x90\\x80\\x80"},
        {"five bytes \xf8\x88\x80\x80\x80", "five bytes \\xf8\\x88\\x80\\x80\\x80"},
        {"C1 \xc2\x9b", "C1 \\xc2\\x9b"},              /* a control sequence introducer */
        {"turn \xe2\x80\xae", "turn \\xe2\\x80\\xae"}, /* right-to-left override        */
        {"line \xe2\x80\xa8", "line \\xe2\\x80\\xa8"}, /* line separator                */
        {"\xef\xbb\xbf", "\\xef\\xbb\\xbf"},           /* byte order mark               */
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        ck_assert_str_eq(ls_show(pairs[i][0]), pairs[i][1]);
    ck_assert_str_eq(ls_show_bytes("a\0b", 3), "a\\x00b");
    ck_assert_str_eq(ls_show_bytes("\xc3\xa4", 1), "\\xc3"); /* does not look behind the end */
    ck_assert_str_eq(ls_show_bytes(NULL, 0), "");
}
END_TEST

/* However long the input, the output is bounded and does not cut a character in two. */
START_TEST(long_texts)
{
    static char text[5000];
    static const char *const units[] = {"a", "\xff", "\xe2\x82\xac", "\\", "\xf0\x9f\x98\x80"};
    for (size_t u = 0; u < 5; u++) {
        for (size_t shift = 0; shift < 4; shift++) {
            size_t length = strlen(units[u]), n = shift;
            memset(text, 'x', shift);
            for (; n + length < sizeof text; n += length) memcpy(text + n, units[u], length);
            const char *shown = ls_show_bytes(text, n);
            size_t end = strlen(shown);
            ck_assert_uint_le(end, 403);
            ck_assert_uint_ge(end, 380);
            ck_assert_str_eq(shown + end - 3, "...");
            if ((unsigned char)units[u][0] >= 0x80 && units[u][0] != '\xff')
                ck_assert_uint_eq((end - 3 - shift) % length, 0);
        }
    }
}
END_TEST

/* Eight results live side by side, per thread. */
static void *other_thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100; i++) ls_show("other");
    return NULL;
}

START_TEST(results_live_side_by_side)
{
    static const char *const texts[8] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    const char *shown[8];
    for (int i = 0; i < 8; i++) shown[i] = ls_show(texts[i]);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < 8; i++) ck_assert_str_eq(shown[i], texts[i]);
}
END_TEST

START_TEST(errors_of_the_system)
{
    ck_assert_str_eq(ls_show_errno(ENOENT), "No such file or directory");
    ck_assert_uint_gt(strlen(ls_show_errno(123456)), 0);
}
END_TEST

START_TEST(nearest_word)
{
    static const char *const known[] = {"--heads",  "--kv-heads", "--d-model", "--d-ff", "--tp",
                                        "--layers", "--seq",      "--steps",   "--sp"};
    static const char *const pairs[][2] = {
        {"--heads", "--heads"},      {"--haeds", "--heads"},
        {"--head", "--heads"},       {"--d_model", "--d-model"},
        {"--D-Model", "--d-model"},  {"--dmodel", "--d-model"},
        {"--kvheads", "--kv-heads"}, {"--layer", "--layers"},
        {"--setps", "--steps"},      {"--t", "--tp"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const char *found = ls_nearest(pairs[i][0], known, 9);
        ck_assert_msg(found && strcmp(found, pairs[i][1]) == 0, "%s: %s", pairs[i][0],
                      found ? found : "none");
    }
    ck_assert_ptr_null(ls_nearest("--learning-rate", known, 9));
    /* More than one letter in four: another word. */
    static const char *const far[][2] = {{"threads", "heads"}, {"nope", "norm"}, {"data", "draw"},
                                         {"ep", "tp"},         {"x", "sp"},      {"oops", "tp"}};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
        ck_assert_msg(ls_nearest(far[i][0], &far[i][1], 1) == NULL, "%s is taken for %s", far[i][0],
                      far[i][1]);
    ck_assert_ptr_null(ls_nearest("zzz", known, 9));
    ck_assert_ptr_null(ls_nearest("", known, 9));
    ck_assert_ptr_null(ls_nearest("--heads", known, 0));
    char long_word[200];
    memset(long_word, 'a', 199);
    long_word[199] = '\0';
    ck_assert_ptr_null(ls_nearest(long_word, known, 9));
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("show", 0);
    tcase_add_test(tcase, shown_as_it_is);
    tcase_add_test(tcase, made_harmless);
    tcase_add_test(tcase, long_texts);
    tcase_add_test(tcase, results_live_side_by_side);
    tcase_add_test(tcase, errors_of_the_system);
    tcase_add_test(tcase, nearest_word);
    return run_tests();
}
