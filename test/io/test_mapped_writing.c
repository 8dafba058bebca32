/* test_mapped_writing.c - safetensors filled through a map. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "io/new_file.h"
#include "io/fresh_folder.h"
#include "lockstep/io/safetensors.h"
#include "run_tests.h"

/* ---- tensors ---- */

enum { TENSORS = 40, FILLERS = 4 };

static ls_dtype dtype_of(size_t t)
{
    static const ls_dtype dtypes[] = {LS_U8, LS_F32, LS_F64, LS_BF16, LS_I32, LS_I64, LS_F16};
    return dtypes[t % 7];
}

/* 0, 1 and more elements, no size alike. */
static uint64_t size_of(size_t t)
{
    return t % 11 == 10 ? 0 : t < 7 ? 1 : 3 * t + 1;
}

static unsigned char byte_of(size_t t, size_t i)
{
    return (unsigned char)((31 * t + 7 * i + 1) % 61); /* no NaN in any format */
}

typedef struct filler {
    ls_safetensors_writer *writer;
    size_t number;
} filler;

/* Every FILLERS-th tensor, last first. */
static void *fill(void *argument)
{
    filler *f = argument;
    for (size_t t = TENSORS; t-- > 0;) {
        if (t % FILLERS != f->number) continue;
        unsigned char *place = ls_safetensors_place(f->writer, t);
        for (size_t i = size_of(t) * ls_dtype_bytes(dtype_of(t)); i-- > 0;)
            place[i] = byte_of(t, i);
    }
    return NULL;
}

static void write_mapped(const char *path, bool whole)
{
    ls_safetensors_writer *writer = NULL;
    pthread_t threads[FILLERS];
    filler fillers[FILLERS];
    char name[16];
    ASSERT_OK(ls_safetensors_create(&writer, path));
    ASSERT_OK(ls_safetensors_add_metadata(writer, "cut:a", "0:1 2:3"));
    for (size_t t = 0; t < TENSORS; t++) {
        uint64_t dims[1] = {size_of(t)};
        snprintf(name, sizeof name, "t%zu", t);
        ASSERT_OK(ls_safetensors_declare(writer, name, dtype_of(t), 1, dims));
    }
    ASSERT_OK(ls_safetensors_map(writer));
    ASSERT_SAYS(ls_safetensors_map(writer), LS_ERR_INPUT, "after the first data");
    ASSERT_SAYS(ls_safetensors_write(writer, path, 1), LS_ERR_INPUT, "is mapped");
    ASSERT_SAYS(ls_safetensors_declare(writer, "late", LS_U8, 0, NULL), LS_ERR_INPUT,
                "after the first data");
    for (size_t f = 0; f < FILLERS; f++) {
        fillers[f] = (filler){writer, f};
        ck_assert_int_eq(pthread_create(&threads[f], NULL, fill, &fillers[f]), 0);
    }
    for (size_t f = 0; f < FILLERS; f++) pthread_join(threads[f], NULL);
    ck_assert_int_eq(access(path, F_OK), -1);
    if (whole) ASSERT_OK(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
}

START_TEST(filled_by_several_threads)
{
    const char *f = folder("filled");
    ls_safetensors *file = NULL;
    char name[16];
    write_mapped(inside(f, "a"), true);
    ASSERT_OK(ls_safetensors_open(&file, inside(f, "a")));
    ck_assert_uint_eq(ls_safetensors_count(file), TENSORS);
    ck_assert_str_eq(ls_safetensors_metadata(file, "cut:a"), "0:1 2:3");
    for (size_t t = 0; t < TENSORS; t++) {
        snprintf(name, sizeof name, "t%zu", t);
        const ls_tensor_info *info = ls_safetensors_find(file, name);
        ck_assert_ptr_nonnull(info);
        ck_assert_uint_eq(info->elements, size_of(t));
        ck_assert_uint_eq((uintptr_t)info->data % ls_dtype_bytes(info->dtype), 0);
        for (size_t i = 0; i < info->elements * ls_dtype_bytes(info->dtype); i++)
            ck_assert_uint_eq(((const unsigned char *)info->data)[i], byte_of(t, i));
    }
    ls_safetensors_close(&file);

    /* The same calls give the same bytes. */
    size_t a_bytes, b_bytes;
    write_mapped(inside(f, "b"), true);
    unsigned char *a = scratch_read(inside(f, "a"), &a_bytes);
    unsigned char *b = scratch_read(inside(f, "b"), &b_bytes);
    ck_assert_uint_eq(a_bytes, b_bytes);
    ck_assert_mem_eq(a, b, a_bytes);
    free(a);
    free(b);
    write_mapped(inside(f, "c"), false);
    ck_assert_int_eq(scratch_entries(f), 2);
}
END_TEST

START_TEST(unfilled_is_zero_and_none_is_a_file)
{
    const char *f = folder("zero");
    ls_safetensors_writer *writer = NULL;
    ls_safetensors *file = NULL;
    uint64_t dims[2] = {3, 5};
    ASSERT_OK(ls_safetensors_create(&writer, inside(f, "x")));
    ASSERT_OK(ls_safetensors_declare(writer, "t", LS_F64, 2, dims));
    ASSERT_OK(ls_safetensors_map(writer));
    ASSERT_OK(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
    ASSERT_OK(ls_safetensors_open(&file, inside(f, "x")));
    static const double zeros[15];
    ck_assert_mem_eq(ls_safetensors_find(file, "t")->data, zeros, sizeof zeros);
    ls_safetensors_close(&file);

    ASSERT_OK(ls_safetensors_create(&writer, inside(f, "none")));
    ASSERT_OK(ls_safetensors_map(writer));
    ASSERT_OK(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
    ASSERT_OK(ls_safetensors_open(&file, inside(f, "none")));
    ck_assert_uint_eq(ls_safetensors_count(file), 0);
    ls_safetensors_close(&file);
}
END_TEST

/* A limit on the size of files stands for a full disk; it must show before anything is written
 * through the map, where it would be a signal. */
START_TEST(full_disk)
{
    const char *f = folder("full");
    struct rlimit limit, before;
    uint64_t dims[1] = {1 << 20};
    ls_safetensors_writer *writer = NULL;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 65536;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ASSERT_OK(ls_safetensors_create(&writer, inside(f, "x")));
    ASSERT_OK(ls_safetensors_declare(writer, "t", LS_F32, 1, dims));
    ASSERT_SAYS(ls_safetensors_map(writer), LS_ERR_IO, "full/x", "File too large");
    ls_safetensors_destroy(&writer);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(scratch_entries(f), 0);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("mapped_writing", 0);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, filled_by_several_threads);
    tcase_add_test(tcase, unfilled_is_zero_and_none_is_a_file);
    tcase_add_test(tcase, full_disk);
    return run_tests();
}
