/* test_npy.c - single arrays as NumPy writes them. */
#include <stdint.h>

#include "io/scratch.h"
#include "lockstep/io/npy.h"
#include "run_tests.h"

/* A file of version 1.0 with this dictionary and `data_bytes` bytes that count up from 0. */
static const char *made(const char *dictionary, size_t data_bytes)
{
    unsigned char bytes[1024] = "\x93NUMPY\x01";
    size_t length = strlen(dictionary);
    bytes[8] = (unsigned char)length;
    bytes[9] = (unsigned char)(length >> 8);
    memcpy(bytes + 10, dictionary, length);
    for (size_t i = 0; i < data_bytes; i++) bytes[10 + length + i] = (unsigned char)i;
    return scratch_file("made.npy", bytes, 10 + length + data_bytes);
}

static void refused(const char *path, const char *const *words)
{
    ls_dtype dtype = LS_I64;
    int n_dims = -7;
    uint64_t dims[LS_NPY_MAX_DIMS] = {77};
    void *data = &dims;
    ls_status status = ls_npy_read(path, &dtype, &n_dims, dims, &data);
    ck_assert(dtype == LS_I64 && n_dims == -7 && dims[0] == 77 && data == &dims);
    assert_says(status, LS_ERR_INPUT, words);
}

/* As numpy.save writes a float array of shape (2, 3). */
START_TEST(file_byte_for_byte)
{
    static const float a[2][3] = {{1, 2, 3}, {4, 5, 6}};
    const char *path = scratch_path("bytes.npy");
    ASSERT_OK(ls_npy_write(path, LS_F32, 2, (uint64_t[]){2, 3}, a));
    size_t count;
    unsigned char *bytes = scratch_read(path, &count);
    static const char dictionary[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    ck_assert_uint_eq(count, 128 + 24);
    ck_assert_mem_eq(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    ck_assert_mem_eq(bytes + 10, dictionary, sizeof dictionary - 1);
    for (size_t i = 10 + sizeof dictionary - 1; i < 127; i++) ck_assert_uint_eq(bytes[i], ' ');
    ck_assert_uint_eq(bytes[127], '\n');
    ck_assert_mem_eq(bytes + 128, a, sizeof a);
    free(bytes);
}
END_TEST

START_TEST(round_trip)
{
    static const struct {
        ls_dtype dtype;
        int n_dims;
        uint64_t dims[8];
    } arrays[] = {{LS_F32, 2, {5, 3}},    {LS_F64, 1, {7}},
                  {LS_I32, 3, {2, 1, 3}}, {LS_I64, 0, {0}},
                  {LS_U8, 1, {11}},       {LS_F16, 2, {0, 4}},
                  {LS_U8, 1, {0}},        {LS_F64, 8, {1, 2, 1, 2, 1, 1, 3, 1}}};
    unsigned char data[256];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(17 * i + 3);
    for (size_t t = 0; t < sizeof arrays / sizeof arrays[0]; t++) {
        size_t bytes = ls_dtype_bytes(arrays[t].dtype);
        for (int i = 0; i < arrays[t].n_dims; i++) bytes *= arrays[t].dims[i];
        const char *path = scratch_path("round.npy");
        ASSERT_OK(ls_npy_write(path, arrays[t].dtype, arrays[t].n_dims, arrays[t].dims, data));
        size_t count;
        free(scratch_read(path, &count));
        ck_assert_uint_eq((count - bytes) % 64, 0); /* the array begins where a cache line does */
        ls_dtype dtype;
        int n_dims;
        uint64_t dims[LS_NPY_MAX_DIMS];
        void *read = NULL;
        ASSERT_OK(ls_npy_read(path, &dtype, &n_dims, dims, &read));
        ck_assert_int_eq(dtype, arrays[t].dtype);
        ck_assert_int_eq(n_dims, arrays[t].n_dims);
        for (int i = 0; i < 8; i++) ck_assert_uint_eq(dims[i], i < n_dims ? arrays[t].dims[i] : 0);
        ck_assert(memcmp(read, data, bytes) == 0);
        free(read);
    }
}
END_TEST

/* Versions 2 and 3 have four bytes of length; keys may stand in any order, with either quotes. */
START_TEST(files_of_others)
{
    ls_dtype dtype;
    int n_dims;
    uint64_t dims[LS_NPY_MAX_DIMS];
    void *data = NULL;
    static const char dictionary[] =
        "{\"shape\": (3,), \"descr\": \"|u1\", \"fortran_order\": True}\n";
    unsigned char bytes[256] = "\x93NUMPY";
    for (unsigned char version = 2; version <= 3; version++) {
        bytes[6] = version;
        memset(bytes + 7, 0, 5);
        bytes[8] = sizeof dictionary - 1;
        memcpy(bytes + 12, dictionary, sizeof dictionary - 1);
        memcpy(bytes + 12 + sizeof dictionary - 1, "abc", 3);
        ASSERT_OK(ls_npy_read(scratch_file("v.npy", bytes, 12 + sizeof dictionary - 1 + 3), &dtype,
                              &n_dims, dims, &data));
        ck_assert(dtype == LS_U8 && n_dims == 1 && dims[0] == 3);
        ck_assert_mem_eq(data, "abc", 3);
        free(data);
    }
    /* One dimension is in both orders. */
    ASSERT_OK(ls_npy_read(made("{'descr':'<f4','fortran_order':False,'shape':()}", 4), &dtype,
                          &n_dims, dims, &data));
    ck_assert(dtype == LS_F32 && n_dims == 0);
    free(data);
}
END_TEST

static const struct {
    const char *dictionary;
    size_t data_bytes;
    const char *words[3];
} hostile[] = {
    {"", 0, {"must be {'descr'"}},
    {"{}", 0, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False}", 8, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", 8, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", 8, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'shape': (2,)}",
     8,
     {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", 8, {"must be {'descr'"}},
    {"{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}", 8, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}", 8, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", 8, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': 2}", 8, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 8, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 1)}", 8, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", 8, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2", 8, {"must be {'descr'"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2)}", 8, {"at most 8"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
     8,
     {"must be {'descr'"}},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", 8, {"must be {'descr'"}},
    {"{'descr': '<f4", 8, {"must be {'descr'"}},
    {"{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}", 8, {"must be {'descr'"}},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", 8, {"\">f4\"", "<f4"}},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8, {"\"<c8\"", "<f4"}},
    {"{'descr': '|O\x1b', 'fortran_order': False, 'shape': (1,)}", 8, {"\"|O\\x1b\""}},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)}", 8, {"Fortran"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 8, {"8 bytes of data"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 8, {"8 bytes of data"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", 8, {"8 bytes of data"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824, 1073741824, 1073741824)}",
     8,
     {"8 bytes of data"}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000000, "
     "1000000000000000000)}",
     8,
     {"8 bytes of data"}},
};

START_TEST(hostile_headers)
{
    const char *words[5] = {"made.npy"};
    for (int i = 0; i < 3; i++) words[i + 1] = hostile[_i].words[i];
    refused(made(hostile[_i].dictionary, hostile[_i].data_bytes), words);
}
END_TEST

START_TEST(not_npy)
{
    refused(scratch_path("missing.npy"),
            (const char *const[]){"missing.npy", "No such file", NULL});
    refused(scratch_folder, (const char *const[]){"is a folder", NULL});
    refused(scratch_file("empty.npy", "", 0),
            (const char *const[]){"empty.npy", "not a npy file", NULL});
    refused(scratch_file("other.npy", "PK\3\4 and so on", 15),
            (const char *const[]){"not a npy file", NULL});
    refused(scratch_file("v9.npy", "\x93NUMPY\x09\x00\x02\x00{}", 12),
            (const char *const[]){"version 9.0", NULL});
    refused(scratch_file("short.npy", "\x93NUMPY\x01\x00\x03\x00{}", 12),
            (const char *const[]){"claims 3 bytes", "has 2", NULL});
    refused(scratch_file("short2.npy", "\x93NUMPY\x02\x00\x00\x00", 10),
            (const char *const[]){"short2.npy", "has 0", NULL});
    refused(scratch_file("long2.npy", "\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14),
            (const char *const[]){"claims 4294967295 bytes", "has 2", NULL});

    size_t count;
    ASSERT_OK(ls_npy_write(scratch_path("whole.npy"), LS_F32, 1, (uint64_t[]){2}, (float[]){1, 2}));
    unsigned char *bytes = scratch_read(scratch_path("whole.npy"), &count);
    for (size_t length = 0; length < count; length++)
        refused(scratch_file("cut.npy", bytes, length), (const char *const[]){"cut.npy", NULL});
    free(bytes);
}
END_TEST

START_TEST(write_refuses)
{
    uint64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t huge[2] = {(uint64_t)1 << 40, (uint64_t)1 << 40};
    double data = 1;
    const char *path = scratch_path("refused.npy");
    ASSERT_SAYS(ls_npy_write(path, LS_BF16, 0, NULL, &data), LS_ERR_INPUT, "refused.npy", "BF16");
    ASSERT_SAYS(ls_npy_write(path, LS_F64, 9, nine, &data), LS_ERR_INPUT, "refused.npy",
                "at most 8");
    ASSERT_SAYS(ls_npy_write(path, LS_F64, 2, huge, &data), LS_ERR_INPUT, "refused.npy",
                "more bytes");
    ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("npy", 0);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, file_byte_for_byte);
    tcase_add_test(tcase, round_trip);
    tcase_add_test(tcase, files_of_others);
    tcase_add_loop_test(tcase, hostile_headers, 0, sizeof hostile / sizeof hostile[0]);
    tcase_add_test(tcase, not_npy);
    tcase_add_test(tcase, write_refuses);
    return run_tests();
}
