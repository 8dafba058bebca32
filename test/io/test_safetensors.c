/* test_safetensors.c - files that are as they should be: bytes of the writer, what the reader makes
 * of them, and of files that others write. */
#include <stdint.h>

#include "io/scratch.h"
#include "lockstep/io/safetensors.h"
#include "run_tests.h"

/* A file from a header and `data_bytes` bytes of data that count up from 0. */
static const char *made(const char *header, size_t data_bytes)
{
    unsigned char bytes[2048];
    size_t length = strlen(header);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++) bytes[8 + length + i] = (unsigned char)i;
    return scratch_file("made.safetensors", bytes, 8 + length + data_bytes);
}

START_TEST(file_written_byte_for_byte)
{
    static const float a[2][3] = {{1, 2, 3}, {4, 5, 6}};
    static const unsigned char b[1] = {7};
    static const char header[] =
        "{\"__metadata__\":{\"step\":\"3\"},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[24,25]}}";
    const char *path = scratch_path("bytes.safetensors");
    ls_safetensors_writer *writer = NULL;
    ASSERT_OK(ls_safetensors_create(&writer, path));
    ASSERT_OK(ls_safetensors_add_metadata(writer, "step", "3"));
    ASSERT_OK(ls_safetensors_declare(writer, "a", LS_F32, 2, (uint64_t[]){2, 3}));
    ASSERT_OK(ls_safetensors_declare(writer, "b", LS_U8, 0, NULL));
    ASSERT_OK(ls_safetensors_write(writer, a, sizeof a));
    ASSERT_OK(ls_safetensors_write(writer, b, sizeof b));
    ck_assert_int_eq(access(path, F_OK), -1); /* not there before it is whole */
    ASSERT_OK(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
    ck_assert_ptr_null(writer);

    size_t count, padded = (sizeof header - 1 + 7) / 8 * 8;
    unsigned char *bytes = scratch_read(path, &count);
    ck_assert_uint_eq(count, 8 + padded + 25);
    ck_assert_uint_eq(bytes[0] + 256u * bytes[1], padded);
    for (int i = 2; i < 8; i++) ck_assert_uint_eq(bytes[i], 0);
    ck_assert_mem_eq(bytes + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < padded; i++) ck_assert_uint_eq(bytes[8 + i], ' ');
    ck_assert_mem_eq(bytes + 8 + padded, a, sizeof a);
    ck_assert_uint_eq(bytes[8 + padded + 24], 7);
    free(bytes);
}
END_TEST

/* Every dtype, 0 to 8 dimensions, empty tensors among them, names with any Unicode. */
START_TEST(round_trip)
{
    static const struct {
        const char *name;
        ls_dtype dtype;
        int n_dims;
        uint64_t dims[8];
    } tensors[] = {
        {"layers.0.norm1.weight", LS_F32, 1, {5}},
        {"empty first", LS_F64, 2, {0, 7}},
        {"eight", LS_F64, 8, {1, 2, 1, 3, 1, 1, 2, 1}},
        {"scalar", LS_I64, 0, {0}},
        {"odd bytes", LS_U8, 1, {3}},
        {"unaligned", LS_I32, 2, {2, 2}},
        {"h\xc3\xa4lfte", LS_F16, 1, {4}},
        {"brain \"quoted\"\n", LS_BF16, 2, {3, 1}},
        {"empty huge", LS_F64, 3, {(uint64_t)1 << 62, (uint64_t)1 << 40, 0}},
        {"empty last", LS_U8, 1, {0}},
    };
    enum { N = sizeof tensors / sizeof tensors[0] };
    const char *path = scratch_path("round.safetensors");
    unsigned char data[N][128];
    size_t bytes[N];
    ls_safetensors_writer *writer = NULL;
    ASSERT_OK(ls_safetensors_create(&writer, path));
    for (size_t t = 0; t < N; t++) {
        bytes[t] = ls_dtype_bytes(tensors[t].dtype);
        for (int i = 0; i < tensors[t].n_dims; i++) bytes[t] *= tensors[t].dims[i];
        for (size_t i = 0; i < sizeof data[t]; i++)
            data[t][i] = (unsigned char)(31 * t + 7 * i + 1);
        ASSERT_OK(ls_safetensors_declare(writer, tensors[t].name, tensors[t].dtype,
                                         tensors[t].n_dims, tensors[t].dims));
    }
    ASSERT_OK(ls_safetensors_add_metadata(writer, "model", "gpt2-nano"));
    ASSERT_OK(ls_safetensors_add_metadata(writer, "seed", "1"));
    ASSERT_OK(ls_safetensors_add_metadata(writer, "seed", "18446744073709551615"));
    for (size_t t = 0; t < N; t++) ASSERT_OK(ls_safetensors_write(writer, data[t], bytes[t]));
    ASSERT_OK(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);

    ls_safetensors *file = NULL;
    ASSERT_OK(ls_safetensors_open(&file, path));
    ck_assert_uint_eq(ls_safetensors_count(file), N);
    for (size_t t = 0; t < N; t++) {
        const ls_tensor_info *info = ls_safetensors_find(file, tensors[t].name);
        ck_assert_ptr_nonnull(info);
        ck_assert_str_eq(info->name, tensors[t].name);
        ck_assert_int_eq(info->dtype, tensors[t].dtype);
        ck_assert_int_eq(info->n_dims, tensors[t].n_dims);
        for (int i = 0; i < info->n_dims; i++) ck_assert_uint_eq(info->dims[i], tensors[t].dims[i]);
        ck_assert_uint_eq(info->elements * ls_dtype_bytes(info->dtype), bytes[t]);
        ck_assert(memcmp(info->data, data[t], bytes[t]) == 0);
        /* The order of the data is the order of the declarations. */
        ck_assert_ptr_eq(info, ls_safetensors_at(file, t));
    }
    ck_assert_ptr_null(ls_safetensors_find(file, "eigh"));
    ck_assert_ptr_null(ls_safetensors_find(file, ""));
    ck_assert_ptr_null(ls_safetensors_find(file, "__metadata__"));
    ck_assert_str_eq(ls_safetensors_metadata(file, "model"), "gpt2-nano");
    ck_assert_str_eq(ls_safetensors_metadata(file, "seed"), "18446744073709551615");
    ck_assert_ptr_null(ls_safetensors_metadata(file, "step"));
    ls_safetensors_close(&file);
    ck_assert_ptr_null(file);
    ls_safetensors_close(&file); /* NULL is allowed */
}
END_TEST

START_TEST(empty_file_of_no_tensors)
{
    const char *path = scratch_path("none.safetensors");
    ls_safetensors_writer *writer = NULL;
    ASSERT_OK(ls_safetensors_create(&writer, path));
    ASSERT_OK(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
    ls_safetensors *file = NULL;
    ASSERT_OK(ls_safetensors_open(&file, path));
    ck_assert_uint_eq(ls_safetensors_count(file), 0);
    ck_assert_ptr_null(ls_safetensors_find(file, "a"));
    ck_assert_ptr_null(ls_safetensors_metadata(file, "a"));
    ls_safetensors_close(&file);
}
END_TEST

/* What other programs write and the format allows: a header that is not padded, entries in another
 * order than the data, spaces in the JSON, truth values. */
START_TEST(files_of_others)
{
    const char *path =
        made("{\"late\": {\"data_offsets\": [5, 9], \"shape\": [1], \"dtype\": \"F32\"} ,\n"
             " \"early\":{\"dtype\":\"BOOL\",\"shape\":[5],\"data_offsets\":[0,5]},"
             " \"void\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[5,5]}}   ",
             9);
    ls_safetensors *file = NULL;
    ASSERT_OK(ls_safetensors_open(&file, path));
    ck_assert_uint_eq(ls_safetensors_count(file), 3);
    ck_assert_str_eq(ls_safetensors_at(file, 0)->name, "early");
    ck_assert_int_eq(ls_safetensors_at(file, 0)->dtype, LS_U8);
    ck_assert_str_eq(ls_safetensors_at(file, 1)->name, "void");
    ck_assert_str_eq(ls_safetensors_at(file, 2)->name, "late");
    ck_assert_mem_eq(ls_safetensors_find(file, "early")->data, "\0\1\2\3\4", 5);
    ck_assert_mem_eq(ls_safetensors_find(file, "late")->data, "\5\6\7\10", 4);
    ls_safetensors_close(&file);
}
END_TEST

/* Which NaN an operation returns is the machine's affair, so files hold one of each format, streamed
 * and mapped; numbers and integers stay as they are. */
START_TEST(one_nan_in_files)
{
    static const uint32_t f32[] = {0xffc00000u, 0x7f800001u, 0x7f800000u, 0xff800000u, 0x80000000u};
    static const uint64_t f64[] = {0xfff8000000000000u, 0x7ff0000000000000u, 1};
    static const uint16_t f16[] = {0xfe01u, 0x7c00u, 0xfc00u}, bf16[] = {0x7f81u, 0xff80u, 0x7c01u};
    static const int32_t i32[] = {-1, 0x7fffffff};
    static const struct {
        const char *name;
        ls_dtype dtype;
        size_t count;
        const void *values;
    } tensors[] = {{"f64", LS_F64, 3, f64},
                   {"f32", LS_F32, 5, f32},
                   {"i32", LS_I32, 2, i32},
                   {"f16", LS_F16, 3, f16},
                   {"bf16", LS_BF16, 3, bf16}};
    enum { TENSORS = sizeof tensors / sizeof tensors[0] };
    const char *path = scratch_path("nan.safetensors");
    for (int mapped = 0; mapped < 2; mapped++) {
        ls_safetensors_writer *w = NULL;
        ls_safetensors *file = NULL;
        ASSERT_OK(ls_safetensors_create(&w, path));
        for (size_t t = 0; t < TENSORS; t++)
            ASSERT_OK(ls_safetensors_declare(w, tensors[t].name, tensors[t].dtype, 1,
                                             (const uint64_t[]){tensors[t].count}));
        if (mapped) ASSERT_OK(ls_safetensors_map(w));
        for (size_t t = 0; t < TENSORS; t++) {
            const size_t bytes = tensors[t].count * ls_dtype_bytes(tensors[t].dtype);
            if (mapped)
                memcpy(ls_safetensors_place(w, t), tensors[t].values, bytes);
            else
                ASSERT_OK(ls_safetensors_write(w, tensors[t].values, bytes));
        }
        ASSERT_OK(ls_safetensors_commit(w));
        ls_safetensors_destroy(&w);
        ASSERT_OK(ls_safetensors_open(&file, path));
        ck_assert_mem_eq(ls_safetensors_find(file, "f64")->data,
                         ((uint64_t[]){0x7ff8000000000000u, f64[1], f64[2]}), sizeof f64);
        ck_assert_mem_eq(ls_safetensors_find(file, "f32")->data,
                         ((uint32_t[]){0x7fc00000u, 0x7fc00000u, f32[2], f32[3], f32[4]}),
                         sizeof f32);
        ck_assert_mem_eq(ls_safetensors_find(file, "i32")->data, i32, sizeof i32);
        ck_assert_mem_eq(ls_safetensors_find(file, "f16")->data,
                         ((uint16_t[]){0x7e00u, f16[1], f16[2]}), sizeof f16);
        ck_assert_mem_eq(ls_safetensors_find(file, "bf16")->data,
                         ((uint16_t[]){0x7fc0u, bf16[1], bf16[2]}), sizeof bf16);
        ls_safetensors_close(&file);
    }
}
END_TEST

/* Each misuse is refused with the file's and the tensor's name, and leaves nothing behind. */
START_TEST(writer_refuses)
{
    char folder[300];
    snprintf(folder, sizeof folder, "%s", scratch_path("refused"));
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    const char *path = scratch_path("refused/x.safetensors");
    uint64_t two[2] = {2, 2}, nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t huge[3] = {(uint64_t)1 << 31, (uint64_t)1 << 31, 4}, minus_one = UINT64_MAX;
    unsigned char data[32] = {0};
    ls_safetensors_writer *w = NULL;
    ASSERT_OK(ls_safetensors_create(&w, path));
    ASSERT_OK(ls_safetensors_declare(w, "a", LS_F32, 2, two));
    ASSERT_SAYS(ls_safetensors_declare(w, "a", LS_F32, 2, two), LS_ERR_INPUT, "x.safetensors",
                "\"a\"", "twice");
    ASSERT_SAYS(ls_safetensors_declare(w, "__metadata__", LS_F32, 2, two), LS_ERR_INPUT,
                "__metadata__");
    ASSERT_SAYS(ls_safetensors_declare(w, "", LS_F32, 2, two), LS_ERR_INPUT, "\"\"");
    ASSERT_SAYS(ls_safetensors_declare(w, "\xff\x1b", LS_F32, 2, two), LS_ERR_INPUT,
                "\"\\xff\\x1b\"");
    ASSERT_SAYS(ls_safetensors_declare(w, "b", LS_F32, 9, nine), LS_ERR_INPUT, "\"b\"", "9",
                "at most 8");
    ASSERT_SAYS(ls_safetensors_declare(w, "b", LS_F32, -1, nine), LS_ERR_INPUT, "\"b\"", "-1");
    ASSERT_SAYS(ls_safetensors_declare(w, "b", LS_F32, 3, huge), LS_ERR_INPUT, "\"b\"",
                "more bytes");
    ASSERT_SAYS(ls_safetensors_declare(w, "b", LS_U8, 1, &minus_one), LS_ERR_INPUT, "\"b\"",
                "more bytes");
    ASSERT_SAYS(ls_safetensors_add_metadata(w, "k", "\xc3"), LS_ERR_INPUT, "\"k\"", "\\xc3",
                "UTF-8");
    ASSERT_SAYS(ls_safetensors_commit(w), LS_ERR_INPUT, "data of 0 tensors of 1");
    ASSERT_SAYS(ls_safetensors_write(w, data, 15), LS_ERR_INPUT, "15 bytes", "16");
    ASSERT_OK(ls_safetensors_write(w, data, 16));
    ASSERT_SAYS(ls_safetensors_write(w, data, 16), LS_ERR_INPUT, "number 2", "only 1");
    ASSERT_SAYS(ls_safetensors_declare(w, "b", LS_F32, 2, two), LS_ERR_INPUT,
                "after the first data");
    ASSERT_SAYS(ls_safetensors_add_metadata(w, "k", "v"), LS_ERR_INPUT, "after the first data");
    ck_assert_int_eq(scratch_entries(folder), 1); /* the temporary one */
    ls_safetensors_destroy(&w);
    ck_assert_int_eq(scratch_entries(folder), 0);
}
END_TEST

/* The sum of sizes, too, must stay inside what JSON can say. */
START_TEST(writer_refuses_a_total_beyond_63_bits)
{
    uint64_t half = (uint64_t)1 << 62;
    ls_safetensors_writer *w = NULL;
    ASSERT_OK(ls_safetensors_create(&w, scratch_path("total.safetensors")));
    ASSERT_OK(ls_safetensors_declare(w, "a", LS_U8, 1, &half));
    ASSERT_SAYS(ls_safetensors_declare(w, "b", LS_U8, 1, &half), LS_ERR_INPUT, "\"b\"",
                "more bytes");
    ls_safetensors_destroy(&w);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("safetensors", 0);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, file_written_byte_for_byte);
    tcase_add_test(tcase, round_trip);
    tcase_add_test(tcase, empty_file_of_no_tensors);
    tcase_add_test(tcase, files_of_others);
    tcase_add_test(tcase, one_nan_in_files);
    tcase_add_test(tcase, writer_refuses);
    tcase_add_test(tcase, writer_refuses_a_total_beyond_63_bits);
    return run_tests();
}
