/* test_json.c - JSON from outside: what is whole and what is not, against jansson on every text
 * that differs from a good one by a byte; the errors; memory that is short; another decimal point.
 */
#include <jansson.h>
#include <math.h>

#include "base/decimal_point.h"
#include "base/json_memory.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "run_tests.h"

static ls_json_span span(const char *text)
{
    return (ls_json_span){text, strlen(text)};
}

/* Every kind of token, so that a changed byte meets each. */
static const char good[] =
    " {\"a\": [0, -1, 20, 3.5, -4e1, 5E-2, 6.25e+3, true, false, null],\n\t\"\\u00e9\\n\\\"\": {},"
    " \"\xc3\xa9\": [], \"s\\/\": [[{\"k\": \"\\ud83d\\ude00 \\\\\"}]], \"\": \"\"}\r\n";

/* Errors of jansson that the scan leaves to it. */
static bool left_to_jansson(const json_error_t *error)
{
    const enum json_error_code code = json_error_code(error);
    return code == json_error_invalid_utf8 || code == json_error_duplicate_key ||
           code == json_error_numeric_overflow;
}

static void same_as_jansson(const char *text, size_t bytes)
{
    ls_json_scan scan;
    json_error_t error;
    memset(&error, 0, sizeof error);
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    const bool whole = ls_json_is_whole(&scan, (ls_json_span){text, bytes});
    const bool zero = memchr(text, 0, bytes) != NULL; /* jansson passes over one after a number */
    ck_assert(!zero || !whole);
    ck_assert_msg(zero || whole == (root != NULL) || (whole && left_to_jansson(&error)) ||
                      (!whole && json_error_code(&error) == json_error_null_character),
                  "%.*s: jansson %s, scan %s", (int)bytes, text, root ? "reads it" : error.text,
                  whole ? "finds it whole" : scan.fault);
    ck_assert(whole == (scan.fault == NULL));
    json_decref(root);
}

START_TEST(any_byte)
{
    static const char others[] = "0123456789+-.eE\"\\/bfnrtu{}[]:, \n\x1f\x80\xc3\xff"
                                 "adD8c";
    char text[sizeof good];
    same_as_jansson(good, sizeof good - 1);
    for (size_t i = 0; i + 1 < sizeof good; i++) {
        memcpy(text, good, sizeof good);
        for (size_t c = 0; c < sizeof others; c++) { /* the zero byte too */
            text[i] = others[c];
            same_as_jansson(text, sizeof good - 1);
        }
        same_as_jansson(good, i); /* cut off */
        memmove(text + i, good + i + 1, sizeof good - i - 1);
        same_as_jansson(text, sizeof good - 2); /* a byte less */
    }
}
END_TEST

START_TEST(numbers_and_strings)
{
    static const char *const texts[] = {"-",
                                        "-0",
                                        "00",
                                        "01",
                                        "-01",
                                        "-00",
                                        "0.",
                                        "0.0",
                                        ".5",
                                        "+1",
                                        "1e",
                                        "1e+",
                                        "1e5",
                                        "1E-05",
                                        "1.5.5",
                                        "0x1",
                                        "NaN",
                                        "Infinity",
                                        "-Infinity",
                                        "nan",
                                        "tru",
                                        "truex",
                                        "true false",
                                        "\"",
                                        "\"\\",
                                        "\"\\u",
                                        "\"\\u12",
                                        "\"\\u12g4\"",
                                        "\"\\ud800\"",
                                        "\"\\udc00\"",
                                        "\"\\ud800\\u0041\"",
                                        "\"\\ud800\\udc00\"",
                                        "\"\\ud800x\"",
                                        "\"\\x\"",
                                        "\"\t\"",
                                        "[",
                                        "[1",
                                        "[1,",
                                        "[1,]",
                                        "[,]",
                                        "[1 2]",
                                        "[1}",
                                        "{",
                                        "{\"a\"",
                                        "{\"a\":",
                                        "{\"a\":1",
                                        "{\"a\":1,",
                                        "{\"a\":1,}",
                                        "{\"a\" 1}",
                                        "{1:2}",
                                        "{a:1}",
                                        "{\"a\":1 \"b\":2}",
                                        "{]",
                                        "//",
                                        "1//",
                                        "''"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        same_as_jansson(texts[i], strlen(texts[i]));
}
END_TEST

START_TEST(nested)
{
    ls_json_scan scan;
    char text[2 * LS_JSON_MOST_DEPTH + 4];
    for (int depth = LS_JSON_MOST_DEPTH - 1; depth <= LS_JSON_MOST_DEPTH + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        const ls_json_span t = {text, 2 * (size_t)depth};
        ck_assert_int_eq(ls_json_is_whole(&scan, t), depth <= LS_JSON_MOST_DEPTH);
    }
}
END_TEST

START_TEST(members)
{
    ls_json_scan scan;
    ls_json_span key, value;
    char seen[200] = "";
    ls_json_open(&scan, span(" { \"a\" : [1, {\"x\": 2}] ,\"b\":\"}\", \"\\u0061\": 3 } "), '{');
    while (ls_json_next(&scan, &key, &value)) {
        strncat(seen, key.text, key.bytes);
        strcat(seen, "=");
        strncat(seen, value.text, value.bytes);
        strcat(seen, ";");
        ck_assert_int_eq(ls_json_key_is(key, "a"), strncmp(key.text, "\"a\"", 3) == 0);
    }
    ck_assert_ptr_null(scan.fault);
    ck_assert_str_eq(seen, "\"a\"=[1, {\"x\": 2}];\"b\"=\"}\";\"\\u0061\"=3;");

    static const struct {
        const char *text;
        char bracket;
        size_t members;
        bool whole;
    } cases[] = {
        {"[]", '[', 0, true},           {"[ ]", '[', 0, true},   {"[1,2]", '[', 2, true},
        {"{}", '[', 0, false},          {"", '{', 0, false},     {"{", '{', 0, false},
        {"[1", '[', 1, false},          {"[1,", '[', 1, false},  {"[1}", '[', 1, false},
        {"{\"a\":1} x", '{', 1, false}, {"[1,]", '[', 1, false}, {"{\"a\":}", '{', 0, false},
        {"[1 2]", '[', 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t found = 0;
        ls_json_open(&scan, span(cases[i].text), cases[i].bracket);
        while (ls_json_next(&scan, &key, &value)) found++;
        ck_assert_msg(found == cases[i].members && (scan.fault == NULL) == cases[i].whole,
                      "%s: %zu members, %s", cases[i].text, found, scan.fault);
        ck_assert(!ls_json_next(&scan, &key, &value) || cases[i].whole); /* stays at its end */
    }
}
END_TEST

START_TEST(errors)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "f: not JSON: line 1: it is empty"},
        {" \n", "f: not JSON: line 2, column 1: the text ends where a value is expected"},
        {"\xef\xbb\xbf{}", "f: not JSON: begins with a byte-order mark (EF BB BF)"},
        {"\xff\xfe{", "f: not JSON: begins with a byte-order mark (FF FE, UTF-16)"},
        {"{\"a\": NaN}", "f: not JSON: line 1, column 7: a value is expected, found NaN"},
        {"{\"a\": -Infinity}",
         "f: not JSON: line 1, column 8: a digit is expected, found Infinity"},
        {"{\"a\": 1", "f: not JSON: line 1, column 8: the text ends inside an object"},
        {"[\n\"abc", "f: not JSON: line 2, column 5: the text ends inside a string"},
        {"{}\n}", "f: not JSON: line 2, column 1: more text after the end of the value, found }"},
        {"{\"a\": 1, \"a\": 2}", "f: not JSON: line 1, column 12: duplicate object key near"},
        {"[1e999]", "f: not JSON: line 1, column 6: real number overflow"},
        {"[\"\xff\"]", "f: not JSON: line 1, column 2: unable to decode byte 0xff"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *root = NULL;
        ls_error_clear();
        ck_assert_int_eq(ls_json_parse("f", span(cases[i].text), &root), LS_ERR_INPUT);
        ck_assert_ptr_null(root);
        ck_assert_msg(strncmp(ls_error_text(), cases[i].words, strlen(cases[i].words)) == 0,
                      "\"%s\" is not \"%s\"", ls_error_text(), cases[i].words);
    }
}
END_TEST

/* ---- memory ---- */

/* From each allocation in turn on all fail: that is no fault of the text. (No string is longer than
 * the
 * 15 bytes for which jansson has room from the start: of longer ones it loses bytes.) */
START_TEST(short_of_memory)
{
    static const char text[] =
        "{\"layers\": 4, \"tied\": true, \"eps\": 1.5e-5, \"norm\": \"rms\", "
        "\"list\": [1, [2.5, \"\\u00e9\"], {\"k\": {}}], \"n\": null}";
    size_t failures = 0;
    json_count_bytes();
    for (json_t *root = NULL; !root; failures++) {
        json_allocations_left = failures;
        ls_error_clear();
        const ls_status status = ls_json_parse("f", span(text), &root);
        ck_assert_int_eq(status, root ? LS_OK : LS_ERR_MEMORY);
        if (!root) ck_assert_str_eq(ls_error_text(), "f: no memory for the JSON in it");
        json_allocations_left = SIZE_MAX;
        json_decref(root);
        if (root) break;
    }
    ck_assert_uint_gt(failures, 20);
    ck_assert_uint_eq(json_live_bytes, 0);
}
END_TEST

/* ---- locale ---- */

START_TEST(decimal_comma)
{
    json_t *root = NULL;
    /* jansson mends a comma, and ends the program at an Arabic point of two bytes. */
    if (!set_decimal_point(_i ? "<U066B>" : "<U002C>")) {
        puts("not tried: another decimal point, for there is no localedef");
        return;
    }
    ck_assert_int_eq(ls_json_parse("f", span("[0.125, 1e-3]"), &root), LS_OK);
    ck_assert(fabs(json_real_value(json_array_get(root, 0)) - 0.125) < 1e-300);
    char *text = ls_json_write(root, JSON_COMPACT);
    ck_assert_str_eq(text, "[0.125,0.001]");
    ck_assert_str_eq(ls_json_show(root), "[0.125,0.001]");
    free(text);
    json_decref(root);
    ck_assert_str_ne(localeconv()->decimal_point, "."); /* the caller's is as it was */
}
END_TEST

START_TEST(utf8)
{
    static const char *const yes[] = {"", "a", "\xc3\xa9", "\xf0\x9f\x98\x80 x"};
    static const char *const no[] = {"\xff", "\xc3", "a\xc0\x80", "\xed\xa0\x80",
                                     "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) ck_assert(ls_is_utf8(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) ck_assert(!ls_is_utf8(no[i]));
}
END_TEST

int main(void)
{
    TCase *tests = test_case("json", 0);
    tcase_add_test(tests, any_byte);
    tcase_add_test(tests, numbers_and_strings);
    tcase_add_test(tests, nested);
    tcase_add_test(tests, members);
    tcase_add_test(tests, errors);
    tcase_add_test(tests, short_of_memory);
    tcase_add_test(tests, utf8);
    TCase *locales = test_case("locales", 60); /* another program makes them */
    tcase_add_unchecked_fixture(locales, scratch_setup, scratch_teardown);
    tcase_add_loop_test(locales, decimal_comma, 0, 2);
    return run_tests();
}
