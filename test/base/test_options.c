/* Options: every good spelling sets its variable, every bad one is refused in one line that names
 * the option, what was found and what is allowed. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/options.h"
#include "run_tests.h"

static const char *const engines[] = {"portable", "openblas", NULL};

typedef struct values {
    bool flag, help;
    int number;
    size_t size;
    uint64_t seed;
    double rate;
    int engine;
    const char *text;
    size_t pair[2];
} values;

enum { OPTIONS = 11 };

static void table(ls_option *options, values *v)
{
    *v = (values){.number = 7, .size = 8, .seed = 9, .rate = 0.5, .text = NULL};
    ls_option all[OPTIONS] = {
        ls_option_heading("Numbers"),
        ls_option_int("number", &v->number, -5, 64, "N", "a number"),
        ls_option_size("size", &v->size, 1, 4096, "N", "a size"),
        ls_option_u64("seed", &v->seed, 0, UINT64_MAX, "N", "a seed"),
        ls_option_real("rate", &v->rate, 0.0, true, 1000.0, "X", "a rate"),
        ls_option_heading("Others"),
        ls_option_choice("engine", &v->engine, engines, "which engine"),
        ls_option_string("text", &v->text, "FILE", "a file"),
        ls_option_pair("grid", v->pair, 1, 16, "HxW", "a grid"),
        ls_option_flag("verbose", &v->flag, "say more"),
        ls_option_flag("help", &v->help, "this text"),
    };
    memcpy(options, all, sizeof all);
}

/* Parses up to three words; NULL ends them. */
static ls_status parse(values *v, const char *a, const char *b, const char *c)
{
    ls_option options[OPTIONS];
    const char *argv[3] = {a, b, c};
    int argc = a == NULL ? 0 : b == NULL ? 1 : c == NULL ? 2 : 3;
    table(options, v);
    ls_error_clear();
    return ls_options_parse(options, OPTIONS, argc, argv, NULL);
}

START_TEST(good_values)
{
    values v;
    ck_assert_int_eq(parse(&v, NULL, NULL, NULL), LS_OK);
    ck_assert_int_eq(v.number, 7);
    ck_assert_int_eq(parse(&v, "--number", "64", "--verbose"), LS_OK);
    ck_assert_int_eq(v.number, 64);
    ck_assert(v.flag);
    ck_assert_int_eq(parse(&v, "--number=-5", NULL, NULL), LS_OK);
    ck_assert_int_eq(v.number, -5);
    ck_assert_int_eq(parse(&v, "--number", "-0", NULL), LS_OK);
    ck_assert_int_eq(v.number, 0);
    ck_assert_int_eq(parse(&v, "--size", "0004096", NULL), LS_OK);
    ck_assert_uint_eq(v.size, 4096);
    ck_assert_int_eq(parse(&v, "--seed=18446744073709551615", NULL, NULL), LS_OK);
    ck_assert_uint_eq(v.seed, UINT64_MAX);
    ck_assert_int_eq(parse(&v, "--rate", "1e-3", NULL), LS_OK);
    ck_assert(v.rate == 1e-3);
    ck_assert_int_eq(parse(&v, "--rate", ".25", NULL), LS_OK);
    ck_assert(v.rate == 0.25);
    ck_assert_int_eq(parse(&v, "--engine", "openblas", NULL), LS_OK);
    ck_assert_int_eq(v.engine, 1);
    ck_assert_int_eq(parse(&v, "--text=--odd=name", NULL, NULL), LS_OK);
    ck_assert_str_eq(v.text, "--odd=name");
    ck_assert_int_eq(parse(&v, "--grid", "2x16", NULL), LS_OK);
    ck_assert_uint_eq(v.pair[0], 2);
    ck_assert_uint_eq(v.pair[1], 16);
}
END_TEST

/* words, and what the text must hold */
static const struct {
    const char *a, *b, *text;
} bad[] = {
    {"--number", "", "--number \"\": a whole number from -5 to 64"},
    {"--number", "65", "--number 65: a whole number from -5 to 64"},
    {"--number", "-6", "--number -6: "},
    {"--number", "x", "--number x: "},
    {"--number", "5x", "--number 5x: "},
    {"--number", " 5", "--number  5: "},
    {"--number", "5 ", "--number 5 : "},
    {"--number", "+5", "--number +5: "},
    {"--number", "5.0", "--number 5.0: "},
    {"--number", "1e1", "--number 1e1: "},
    {"--number", "0x5", "--number 0x5: "},
    {"--number", "-", "--number -: "},
    {"--number", "4294967301", "--number 4294967301: "},                     /* 5 in 32 bits */
    {"--number", "18446744073709551621", "--number 18446744073709551621: "}, /* 5 in 64 bits */
    {"--number", "-18446744073709551615", "--number -18446744073709551615: "},
    {"--size", "0", "--size 0: a whole number from 1 to 4096"},
    {"--size", "-1", "--size -1: "},
    {"--size", "4097", "--size 4097: "},
    {"--seed", "-1", "--seed -1: a whole number from 0 to 2^64 - 1"},
    {"--seed", "18446744073709551616", "--seed 18446744073709551616: "},
    {"--rate", "0", "--rate 0: a number above 0 up to 1000"},
    {"--rate", "-1e-3", "--rate -1e-3: "},
    {"--rate", "1001", "--rate 1001: "},
    {"--rate", "nan", "--rate nan: "},
    {"--rate", "inf", "--rate inf: "},
    {"--rate", "1e999", "--rate 1e999: "},
    {"--rate", "1e-999", "--rate 1e-999: "},
    {"--rate", "0x1p-3", "--rate 0x1p-3: "},
    {"--rate", "0.1f", "--rate 0.1f: "},
    {"--rate", "1e", "--rate 1e: "},
    {"--rate", " 1", "--rate  1: "},
    {"--rate", "", "--rate \"\": "},
    {"--engine", "Portable", "--engine Portable: portable or openblas is allowed"},
    {"--engine", "", "--engine \"\": portable or openblas"},
    {"--text=", NULL, "--text: the value is empty, a FILE is expected"},
    {"--text", NULL, "--text: its value is missing, a FILE"},
    {"--text", "--size", "--text: its value is missing"},
    {"--size", NULL, "--size: its value is missing, a whole number from 1 to 4096"},
    {"--grid", "2", "--grid 2: two whole numbers from 1 to 16"},
    {"--grid", "2x", "--grid 2x: "},
    {"--grid", "x2", "--grid x2: "},
    {"--grid", "0x2", "--grid 0x2: "},
    {"--grid", "2x17", "--grid 2x17: "},
    {"--grid", "2x2x2", "--grid 2x2x2: "},
    {"--grid", "-2x2", "--grid -2x2: "},
    {"--verbose=1", NULL, "--verbose: takes no value, 1 was found"},
    {"--sede", "1", "--sede: unknown option; is --seed meant?"},
    {"--sede=1", NULL, "--sede: unknown option; is --seed meant?"},
    {"--zzzzzzzz", NULL, "--zzzzzzzz: unknown option; --help lists"},
    {"--random-seed", "1", "--random-seed: unknown option; here it is --seed"},
    {"--random_sead=1", NULL, "--random_sead: unknown option; here it is --seed"},
    {"--dataset", "x", "--dataset: unknown option; here it is --text, or --images"},
    {"--batch-size", "1", "--batch-size: unknown option; --help lists"}, /* no --batch here */
    {"--=1", NULL, "--: unknown option"},
    {"--numbe\n\x1b[31mr", NULL, "--numbe\\x0a\\x1b[31mr: unknown option"},
    {"-n", NULL, "-n: unknown option; options begin with two dashes"},
    {"word", NULL, "word: no such word is expected here"},
    {"", NULL, "\"\": no such word is expected here"},
};

START_TEST(bad_values)
{
    values v;
    const char *text = bad[_i].text;
    ck_assert_int_eq(parse(&v, bad[_i].a, bad[_i].b, NULL), LS_ERR_INPUT);
    ck_assert_msg(strncmp(ls_error_text(), text, strlen(text)) == 0,
                  "expected \"%s\", found \"%s\"", text, ls_error_text());
    ck_assert_ptr_null(strchr(ls_error_text(), '\n'));
    /* The variable keeps what it had. */
    ck_assert_int_eq(v.number, 7);
    ck_assert_uint_eq(v.size, 8);
    ck_assert_uint_eq(v.seed, 9);
    ck_assert(v.rate == 0.5);
    ck_assert(v.engine == 0 && v.text == NULL && v.pair[0] == 0 && v.pair[1] == 0);
}
END_TEST

START_TEST(words)
{
    values v;
    ls_option options[OPTIONS];
    table(options, &v);
    static const char *const names[] = {"GOLDEN", "CANDIDATE"};
    const char *found[2] = {NULL, NULL};
    ls_words w = {names, 2, found, NULL};
    const char *argv[] = {"one", "--size", "3", "--", "--two", "three"};
    ls_error_clear();
    ck_assert_int_eq(ls_options_parse(options, OPTIONS, 5, argv, &w), LS_OK);
    ck_assert_str_eq(found[0], "one");
    ck_assert_str_eq(found[1], "--two");
    ck_assert(ls_options_given(options, OPTIONS, "size"));
    ck_assert(!ls_options_given(options, OPTIONS, "seed"));
    ck_assert_int_eq(ls_options_parse(options, OPTIONS, 6, argv, &w), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "three: "));
    ls_error_clear();
    ck_assert_int_eq(ls_options_parse(options, OPTIONS, 1, argv, &w), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "CANDIDATE is missing");
    ls_error_clear();
    w.usage = "judge GOLDEN CANDIDATE";
    ck_assert_int_eq(ls_options_parse(options, OPTIONS, 1, argv, &w), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "CANDIDATE is missing; usage: judge GOLDEN CANDIDATE");
    /* One option a second time; a flag too. */
    static const char *const twice[][3] = {{"--size=1", "--size=1", "--size: was given before"},
                                           {"--verbose", "--verbose", "--verbose: was given"}};
    for (size_t i = 0; i < 2; i++) {
        ls_error_clear();
        ck_assert_int_eq(ls_options_parse(options, OPTIONS, 2, twice[i], NULL), LS_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(ls_error_text(), twice[i][2]));
    }
    /* After "--" an option is a word, and none was wanted. */
    const char *after[] = {"--", "--size"};
    ls_error_clear();
    ck_assert_int_eq(ls_options_parse(options, OPTIONS, 2, after, NULL), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "leave the -- out"));
    const char *brief[] = {"-h"};
    ck_assert_int_eq(ls_options_parse(options, OPTIONS, 1, brief, NULL), LS_OK);
    ck_assert(ls_options_given(options, OPTIONS, "help"));
    ls_error_clear();
    const char *help[] = {"--help"};
    ck_assert_int_eq(ls_options_parse(options, OPTIONS, 1, help, &w), LS_OK);
}
END_TEST

START_TEST(help)
{
    values v;
    ls_option options[OPTIONS];
    table(options, &v);
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(file);
    ls_options_help(file, options, OPTIONS);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, "Numbers:\n"));
    ck_assert_ptr_nonnull(strstr(text, "--size N "));
    ck_assert_ptr_nonnull(strstr(text, "(default 8)"));
    ck_assert_ptr_nonnull(strstr(text, "--engine portable|openblas"));
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        ck_assert_uint_le(strlen(line), 100);
    free(text);
}
END_TEST

int main(void)
{
    TCase *all = test_case("all", 0);
    tcase_add_test(all, good_values);
    tcase_add_loop_test(all, bad_values, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(all, words);
    tcase_add_test(all, help);
    return run_tests();
}
