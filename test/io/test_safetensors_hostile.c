/* test_safetensors_hostile.c - files that nobody should trust: each is refused with one line that
 * names the file and, where it has one, the tensor. */
#include <stdint.h>

#include "base/json_memory.h"
#include "io/scratch.h"
#include "lockstep/io/safetensors.h"
#include "run_tests.h"

static const char *written(const char *name, uint64_t length, const void *header,
                           size_t header_bytes, size_t data_bytes)
{
    static unsigned char bytes[1 << 16];
    ck_assert_uint_le(8 + header_bytes + data_bytes, sizeof bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(length >> 8 * i);
    memcpy(bytes + 8, header, header_bytes);
    memset(bytes + 8 + header_bytes, 0x3f, data_bytes);
    return scratch_file(name, bytes, 8 + header_bytes + data_bytes);
}

/* Opening must fail with these words, and leave the output alone. */
static void refused(const char *path, const char *const *words)
{
    ls_safetensors *file = (ls_safetensors *)&file; /* any value */
    ls_safetensors *before = file;
    ls_status status = ls_safetensors_open(&file, path);
    ck_assert_ptr_eq(file, before);
    assert_says(status, LS_ERR_INPUT, words);
}

/* T(s): the entry of a float tensor "t" of 8 bytes in which one thing is wrong. */
#define T(text) "{\"t\":" text "}"
#define TENSOR(dtype, shape, offsets)                                                              \
    "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(a, b)                                                                                  \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" a                                   \
    "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" b "}}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *words[4]; /* besides the file's name */
} hostile[] = {
    /* not a header */
    {"", 8, {"must begin with {"}},
    {"[1,2]", 8, {"must begin with {"}},
    {" {}", 0, {"must begin with {"}},
    {"{", 0, {"not JSON"}},
    {"{}}", 0, {"not JSON"}},
    {"{}\n{}", 0, {"not JSON"}},
    {"{\"t\":", 0, {"not JSON"}},
    {"{\"\xff\":1}", 0, {"not JSON"}},
    {"{\"a\\u0000b\":1}", 0, {"not JSON"}},
    {"{\x01}", 0, {"not JSON"}},
    {"{NaN:1}", 0, {"not JSON"}},
    /* duplicate keys, anywhere */
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2,
     {"duplicate"}},
    {"{\"t\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
     1,
     {"duplicate"}},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, {"duplicate"}},
    /* metadata */
    {"{\"__metadata__\":[]}", 0, {"__metadata__", "object"}},
    {"{\"__metadata__\":{\"k\":1}}", 0, {"__metadata__", "\"k\"", "string"}},
    {"{\"__metadata__\":{\"k\":{\"k\":\"v\"}}}", 0, {"__metadata__", "\"k\"", "string"}},
    /* entries */
    {T("null"), 0, {"\"t\"", "object"}},
    {T("[]"), 0, {"\"t\"", "object"}},
    {T("{}"), 0, {"\"t\"", "dtype"}},
    {T("{\"dtype\":\"F32\"}"), 0, {"\"t\"", "shape"}},
    {T("{\"dtype\":\"F32\",\"shape\":[2]}"), 8, {"\"t\"", "data_offsets"}},
    {T("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"scale\":2}"),
     8,
     {"\"t\"", "\"scale\""}},
    /* dtype */
    {TENSOR("\"F8_E4M3\"", "[8]", "[0,8]"), 8, {"\"t\"", "F8_E4M3", "\"BF16\""}},
    {TENSOR("\"f32\"", "[2]", "[0,8]"), 8, {"\"t\"", "f32"}},
    {TENSOR("\"\\u001b[2J\"", "[2]", "[0,8]"), 8, {"\"t\"", "\\x1b[2J"}},
    {TENSOR("4", "[2]", "[0,8]"), 8, {"\"t\"", "not a string"}},
    /* shape */
    {TENSOR("\"F32\"", "2", "[0,8]"), 8, {"\"t\"", "shape", "array"}},
    {TENSOR("\"F32\"", "{\"0\":2}", "[0,8]"), 8, {"\"t\"", "shape", "array"}},
    {TENSOR("\"F32\"", "[-2]", "[0,8]"), 8, {"\"t\"", "size 0"}},
    {TENSOR("\"F32\"", "[1,2.0]", "[0,8]"), 8, {"\"t\"", "size 1"}},
    {TENSOR("\"F32\"", "[\"2\"]", "[0,8]"), 8, {"\"t\"", "size 0"}},
    {TENSOR("\"F32\"", "[[2]]", "[0,8]"), 8, {"\"t\"", "size 0"}},
    {TENSOR("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, {"\"t\"", "at most 8"}},
    {TENSOR("\"F32\"", "[3]", "[0,8]"), 8, {"\"t\"", "8 bytes", "3 elements of F32 are 12"}},
    {TENSOR("\"F32\"", "[1]", "[0,8]"), 8, {"\"t\"", "8 bytes", "1 elements of F32 are 4"}},
    {TENSOR("\"F32\"", "[0]", "[0,8]"), 8, {"\"t\"", "0 elements"}},
    {TENSOR("\"F64\"", "[2]", "[0,8]"), 8, {"\"t\"", "2 elements of F64 are 16"}},
    {TENSOR("\"F32\"", "[]", "[0,8]"), 8, {"\"t\"", "1 elements of F32 are 4"}},
    /* shapes whose product leaves 64 bits, one of them to come out as 2 */
    {TENSOR("\"F32\"", "[4294967296,4294967296]", "[0,8]"), 8, {"\"t\"", "2^61"}},
    {TENSOR("\"U8\"", "[9223372036854775807,9223372036854775807,2,4]", "[0,8]"),
     8,
     {"\"t\"", "2^61"}},
    {TENSOR("\"F32\"", "[4611686018427387905,2]", "[0,8]"), 8, {"\"t\"", "2^61"}},
    {TENSOR("\"F64\"", "[2305843009213693953]", "[0,8]"), 8, {"\"t\"", "2^61"}},
    {TENSOR("\"F32\"", "[18446744073709551616]", "[0,8]"), 8, {"not JSON", "integer"}},
    {TENSOR("\"F32\"", "[0,9223372036854775807,9223372036854775807]", "[0,8]"),
     8,
     {"\"t\"", "0 elements"}},
    /* offsets */
    {TENSOR("\"F32\"", "[2]", "8"), 8, {"\"t\"", "data_offsets"}},
    {TENSOR("\"F32\"", "[2]", "[0]"), 8, {"\"t\"", "data_offsets"}},
    {TENSOR("\"F32\"", "[2]", "[0,8,8]"), 8, {"\"t\"", "data_offsets"}},
    {TENSOR("\"F32\"", "[2]", "[-8,0]"), 8, {"\"t\"", "data_offsets", "whole numbers"}},
    {TENSOR("\"F32\"", "[2]", "[0,8e0]"), 8, {"\"t\"", "data_offsets"}},
    {TENSOR("\"F32\"", "[2]", "[0,null]"), 8, {"\"t\"", "data_offsets"}},
    {TENSOR("\"F32\"", "[2]", "[8,0]"), 8, {"\"t\"", "8 to 0", "8 bytes of data"}},
    {TENSOR("\"F32\"", "[2]", "[4,12]"), 8, {"\"t\"", "4 to 12", "8 bytes of data"}},
    {TENSOR("\"F32\"", "[2]", "[0,8]"), 7, {"\"t\"", "0 to 8", "7 bytes of data"}},
    {TENSOR("\"F32\"", "[2]", "[9223372036854775799,9223372036854775807]"),
     8,
     {"\"t\"", "8 bytes of data"}},
    {TENSOR("\"F32\"", "[2]", "[18446744073709551608,16]"), 8, {"not JSON", "integer"}},
    {TENSOR("\"F32\"", "[2]", "[1,8]"), 8, {"\"t\"", "7 bytes", "2 elements"}},
    /* the data as a whole */
    {TENSOR("\"F32\"", "[2]", "[0,8]"), 9, {"1 bytes stand behind"}},
    {"{}", 1, {"1 bytes stand behind"}},
    {TENSOR("\"F32\"", "[2]", "[1,9]"), 9, {"\"t\"", "begin at 1", "end at 0", "hole"}},
    {TWO("[0,4]", "[5,9]"), 9, {"\"b\"", "begin at 5", "end at 4", "hole"}},
    {TWO("[0,4]", "[3,7]"), 7, {"\"b\"", "begin at 3", "\"a\"", "end at 4"}},
    {TWO("[3,7]", "[0,4]"), 7, {"\"a\"", "begin at 3", "\"b\"", "end at 4"}},
    {TWO("[0,4]", "[0,4]"), 4, {"\"b\"", "begin at 0", "\"a\"", "end at 4"}},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
     "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}",
     4,
     {"\"e\"", "begin at 2", "\"a\""}},
    {"{\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]}}", 1, {"\"e\"", "hole"}},
};

START_TEST(hostile_headers)
{
    const char *header = hostile[_i].header;
    const char *words[6] = {"hostile.safetensors"};
    for (int i = 0; i < 4; i++) words[i + 1] = hostile[_i].words[i];
    refused(written("hostile.safetensors", strlen(header), header, strlen(header),
                    hostile[_i].data_bytes),
            words);
}
END_TEST

/* The same skeletons without the fault are accepted, so each refusal above is of its fault. */
START_TEST(sound_skeletons)
{
    static const struct {
        const char *header;
        size_t data_bytes;
    } sound[] = {{TENSOR("\"F32\"", "[2]", "[0,8]"), 8},
                 {TWO("[0,4]", "[4,8]"), 8},
                 {TWO("[4,8]", "[0,4]"), 8},
                 {TENSOR("\"F32\"", "[9223372036854775807,0,9223372036854775807]", "[0,0]"), 0},
                 {"{\"__metadata__\":{\"k\":\"v\"}}", 0},
                 {"{}", 0}};
    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++) {
        ls_safetensors *file = NULL;
        size_t bytes = strlen(sound[i].header);
        ASSERT_OK(ls_safetensors_open(&file, written("sound.safetensors", bytes, sound[i].header,
                                                     bytes, sound[i].data_bytes)));
        ls_safetensors_close(&file);
    }
}
END_TEST

START_TEST(header_lengths)
{
    static const struct {
        uint64_t length;
        const char *words[3];
    } cases[] = {{3, {"claims 3 bytes", "has 2"}},
                 {1000, {"claims 1000 bytes", "has 2"}},
                 {UINT64_MAX, {"18446744073709551615 bytes", "has 2"}},
                 {UINT64_MAX - 7, {"18446744073709551608 bytes", "has 2"}},
                 {(uint64_t)1 << 63, {"9223372036854775808 bytes", "has 2"}},
                 {0, {"must begin with {"}},
                 {1, {"not JSON"}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(written("length.safetensors", cases[i].length, "{}", 2, 0), cases[i].words);
}
END_TEST

/* A header above the format's limit, in a file that has as much: refused before it is parsed. The
 * file is a hole, it takes no room. */
START_TEST(header_above_the_limit)
{
    const char *path = written("large.safetensors", 100000001, "{}", 2, 0);
    ck_assert_int_eq(truncate(path, 8 + 100000001), 0);
    refused(path, (const char *const[]){"large.safetensors", "100000001 bytes", "at most 100000000",
                                        NULL});
}
END_TEST

/* However many tensors the header has, the JSON of one is in memory at a time. */
START_TEST(one_entry_at_a_time)
{
    size_t peak[2], used = 0;
    char *header = malloc(1 << 16);
    json_count_bytes();
    for (int many = 0; many < 2; many++) {
        used = (size_t)sprintf(header, "{");
        for (int i = 0; i < (many ? 1000 : 1); i++)
            used += (size_t)sprintf(header + used,
                                    "%s\"%04d\":{\"dtype\":\"U8\",\"shape\":[0],"
                                    "\"data_offsets\":[0,0]}",
                                    i ? "," : "", i);
        used += (size_t)sprintf(header + used, "}");
        ls_safetensors *file = NULL;
        json_peak_bytes = 0;
        ASSERT_OK(ls_safetensors_open(&file, written("many.safetensors", used, header, used, 0)));
        ck_assert_uint_eq(ls_safetensors_count(file), many ? 1000 : 1);
        ck_assert_ptr_nonnull(ls_safetensors_find(file, "0000"));
        peak[many] = json_peak_bytes;
        ls_safetensors_close(&file);
    }
    free(header);
    ck_assert_uint_eq(json_live_bytes, 0);
    ck_assert_uint_le(peak[1], peak[0]);
}
END_TEST

/* Memory that is short is no fault of the file, wherever it ends. (Short strings: see test_json.)
 */
START_TEST(short_of_memory)
{
    const char *header = "{\"__metadata__\":{\"k\":\"v\"},\"t\":{\"dtype\":\"F32\",\"shape\":[2],"
                         "\"data_offsets\":[0,8]}}";
    const char *path = written("good.safetensors", strlen(header), header, strlen(header), 8);
    ls_safetensors *file = NULL;
    json_count_bytes();
    for (size_t left = 0; !file; left++) {
        ls_error_clear();
        json_allocations_left = left;
        const ls_status status = ls_safetensors_open(&file, path);
        json_allocations_left = SIZE_MAX;
        ck_assert_msg(status == (file ? LS_OK : LS_ERR_MEMORY), "%s", ls_error_text());
        ck_assert(file || strstr(ls_error_text(), "good.safetensors") != NULL);
    }
    ls_safetensors_close(&file);
}
END_TEST

/* Ten thousand brackets: the parser's depth is limited, the stack survives. */
START_TEST(nested_garbage)
{
    static char header[20001] = "{\"t\":";
    memset(header + 5, '[', sizeof header - 6);
    size_t bytes = strlen(header);
    refused(written("nested.safetensors", bytes, header, bytes, 0),
            (const char *const[]){"nested.safetensors", "not JSON", "depth", NULL});
    for (size_t i = 0; i + 5 < sizeof header; i += 5) memcpy(header + i, "{\"t\":", 5);
    refused(written("nested.safetensors", bytes, header, bytes, 0),
            (const char *const[]){"nested.safetensors", "not JSON", NULL});
}
END_TEST

/* Every shorter piece of a sound file is refused. */
START_TEST(truncated_anywhere)
{
    const char *header = TWO("[0,4]", "[4,8]");
    size_t header_bytes = strlen(header), count;
    unsigned char *bytes =
        scratch_read(written("whole.safetensors", header_bytes, header, header_bytes, 8), &count);
    for (size_t length = 0; length < count; length++)
        refused(scratch_file("cut.safetensors", bytes, length),
                (const char *const[]){"cut.safetensors", NULL});
    free(bytes);
}
END_TEST

START_TEST(not_a_file)
{
    refused(scratch_path("missing.safetensors"),
            (const char *const[]){"missing.safetensors", "No such file", NULL});
    refused(scratch_folder, (const char *const[]){"is a folder", NULL});
    refused("/dev/null", (const char *const[]){"/dev/null", "plain file", NULL});
    refused("", (const char *const[]){"No such file", NULL});
    const char *fifo = scratch_path("pipe");
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    refused(fifo,
            (const char *const[]){"pipe", "plain file", NULL}); /* and does not wait for a writer */
    refused(scratch_file("empty.safetensors", "", 0),
            (const char *const[]){"empty.safetensors", "0 bytes long", NULL});
    refused(scratch_file("seven.safetensors", "1234567", 7),
            (const char *const[]){"seven.safetensors", "7 bytes long", NULL});
    refused(scratch_path("seven.safetensors/x"), (const char *const[]){"Not a directory", NULL});
}
END_TEST

/* Names of files and tensors may be any bytes; texts show them so that no terminal obeys them. */
START_TEST(names_of_any_bytes)
{
    const char *header = "{\"\\u001b[31m\\u202e\xc3\xa9\\\\\":{\"dtype\":\"F32\",\"shape\":[2],"
                         "\"data_offsets\":[0,4]}}";
    const char *path =
        written("n\xff\n\x1b.safetensors", strlen(header), header, strlen(header), 4);
    refused(path, (const char *const[]){"n\\xff\\x0a\\x1b.safetensors",
                                        "\"\\x1b[31m\\xe2\\x80\\xae\xc3\xa9\\\\\"", NULL});
}
END_TEST

START_TEST(file_that_may_not_be_read)
{
    const char *path = written("secret.safetensors", 2, "{}", 2, 0);
    ck_assert_int_eq(chmod(path, 0), 0);
    if (geteuid() == 0) ck_assert_int_eq(setuid(65534), 0); /* root reads everything */
    ls_safetensors *file = NULL;
    ASSERT_SAYS(ls_safetensors_open(&file, path), LS_ERR_IO, "secret.safetensors",
                "ermission denied");
    ck_assert_ptr_null(file);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("hostile", 0);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tcase, hostile_headers, 0, sizeof hostile / sizeof hostile[0]);
    tcase_add_test(tcase, sound_skeletons);
    tcase_add_test(tcase, header_lengths);
    tcase_add_test(tcase, header_above_the_limit);
    tcase_add_test(tcase, one_entry_at_a_time);
    tcase_add_test(tcase, short_of_memory);
    tcase_add_test(tcase, nested_garbage);
    tcase_add_test(tcase, truncated_anywhere);
    tcase_add_test(tcase, not_a_file);
    tcase_add_test(tcase, names_of_any_bytes);
    tcase_add_test(tcase, file_that_may_not_be_read);
    return run_tests();
}
