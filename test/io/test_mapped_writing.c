/* test_mapped_writing.c - safetensors filled through a map, and folders that appear whole or not at
 * all. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "io/new_file.h"
#include "io/new_folder.h"
#include "io/scratch.h"
#include "io/temporary_name.h"
#include "lockstep/io/safetensors.h"

/* A fresh folder of this name. */
static const char *folder(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s", scratch_path(name));
    ck_assert_int_eq(mkdir(path, 0755), 0);
    return path;
}

static const char *inside(const char *folder_name, const char *name)
{
    static char paths[4][1100];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder_name, name);
    return path;
}

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

/* ---- folders ---- */

static int looked_enough;

static void put(ls_new_folder *made, const char *name, const char *text)
{
    const char *path;
    ls_new_file *file = NULL;
    ASSERT_OK(ls_new_folder_file(made, name, &path));
    ASSERT_OK(ls_new_file_create(&file, path));
    ASSERT_OK(ls_new_file_write(file, text, strlen(text)));
    ASSERT_OK(ls_new_file_commit(file));
    ls_new_file_destroy(&file);
}

static ls_new_folder *half_made(const char *path, const char *text)
{
    ls_new_folder *made = NULL;
    ASSERT_OK(ls_new_folder_create(&made, path));
    put(made, "a", text);
    ASSERT_OK(ls_new_folder_inner(made, "ranks"));
    put(made, "ranks/0", text);
    put(made, "ranks/1", text);
    put(made, "b", text);
    return made;
}

static void assert_holds(const char *path, const char *text)
{
    size_t count;
    unsigned char *bytes = scratch_read(path, &count);
    ck_assert_uint_eq(count, strlen(text));
    ck_assert_mem_eq(bytes, text, count);
    free(bytes);
}

START_TEST(folder_appears_by_commit_alone)
{
    const char *f = folder("appears");
    ls_new_folder *made = half_made(inside(f, "x/"), "one");
    ck_assert_int_eq(access(inside(f, "x"), F_OK), -1);
    ASSERT_OK(ls_new_folder_commit(made));
    ls_new_folder_destroy(&made);
    ck_assert_ptr_null(made);
    assert_holds(inside(f, "x/ranks/1"), "one");
    ck_assert_int_eq(scratch_entries(inside(f, "x")), 3);

    /* In the place of an older one, through a link. */
    ck_assert_int_eq(symlink("x", inside(f, "link")), 0);
    made = half_made(inside(f, "link"), "two");
    assert_holds(inside(f, "x/a"), "one");
    ASSERT_OK(ls_new_folder_commit(made));
    ls_new_folder_destroy(&made);
    assert_holds(inside(f, "link/ranks/0"), "two");
    assert_holds(inside(f, "x/b"), "two");
    ck_assert_int_eq(scratch_entries(f), 2);

    /* Given up. */
    made = half_made(inside(f, "x"), "three");
    ls_new_folder_destroy(&made);
    made = half_made(inside(f, "y"), "three");
    ls_new_folder_destroy(&made);
    assert_holds(inside(f, "x/b"), "two");
    ck_assert_int_eq(scratch_entries(f), 2);
}
END_TEST

START_TEST(folder_abandoned_by_a_signal_handler)
{
    const char *f = folder("abandoned");
    ls_new_folder *made = half_made(inside(f, "x"), "text");
    const char *path;
    ls_new_file *file = NULL;
    ASSERT_OK(ls_new_folder_file(made, "half", &path));
    ASSERT_OK(ls_new_file_create(&file, path));
    ls_new_folders_abandon();
    ck_assert_int_eq(scratch_entries(f), 0);
    ASSERT_SAYS(ls_new_folder_commit(made), LS_ERR_IO, "abandoned/x", "cannot be written");
    ls_new_file_destroy(&file);
    ls_new_folder_destroy(&made);
    ck_assert_int_eq(scratch_entries(f), 0);
}
END_TEST

/* What is in the place is at no moment missing: another thread looks all the time. */
static void *look_for(void *path)
{
    static _Thread_local size_t missed;
    for (struct stat about; !__atomic_load_n(&looked_enough, __ATOMIC_ACQUIRE);)
        missed += stat(path, &about) != 0;
    return (void *)missed;
}

START_TEST(folder_is_never_missing)
{
    char place[1024], within[1100];
    void *missed;
    pthread_t looking;
    snprintf(place, sizeof place, "%s", inside(folder("exchanged"), "x"));
    snprintf(within, sizeof within, "%s/ranks/1", place);
    ls_new_folder *made = half_made(place, "first");
    ASSERT_OK(ls_new_folder_commit(made));
    ls_new_folder_destroy(&made);
    ck_assert_int_eq(pthread_create(&looking, NULL, look_for, within), 0);
    for (int i = 0; i < 200; i++) {
        made = half_made(place, "next");
        ASSERT_OK(ls_new_folder_commit(made));
        ls_new_folder_destroy(&made);
    }
    __atomic_store_n(&looked_enough, 1, __ATOMIC_RELEASE);
    pthread_join(looking, &missed);
#ifdef __linux__
    ck_assert_uint_eq((size_t)missed, 0);
#endif
    assert_holds(within, "next");
    ck_assert_int_eq(scratch_entries(inside(place, "..")), 1);
}
END_TEST

/* A process of its own that writes a folder and a file and is killed; returns its id. */
static pid_t killed_while_writing(const char *f)
{
    const pid_t child = fork();
    if (child == 0) {
        ls_new_file *file = NULL;
        (void)half_made(inside(f, "x"), "half");
        if (ls_new_file_create(&file, inside(f, "y")) != LS_OK) _exit(1);
        raise(SIGKILL);
    }
    int how;
    ck_assert_int_eq(waitpid(child, &how, 0), child);
    ck_assert(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    return child;
}

/* The next one that writes there removes what is left, and nothing else: not what a living process
 * writes, not what another system wrote, not what a link of such a name leads to. */
START_TEST(left_over_is_removed)
{
    const char *f = folder("left-over");
    char kept[1024], name[LS_TEMPORARY_NAME], other[LS_TEMPORARY_NAME];
    ls_new_folder *made = half_made(inside(f, "own"), "own"); /* of this process: it lives */
    const pid_t dead = killed_while_writing(f);
    ck_assert_int_eq(scratch_entries(f), 3);
    ls_temporary_name(name, "");
    snprintf(other, sizeof other, "%.10s%016x-%ld-0.dir", name, 17, (long)dead); /* elsewhere */
    ck_assert_int_eq(mkdir(inside(f, other), 0755), 0);
    snprintf(kept, sizeof kept, "%s", inside(f, "kept"));
    ck_assert_int_eq(mkdir(kept, 0755), 0);
    snprintf(other, sizeof other, "%.26s-%ld-77.dir", name, (long)dead);
    ck_assert_int_eq(symlink("kept", inside(f, other)), 0);
    snprintf(other, sizeof other, "%.26s-%ld-0.dir.mine", name, (long)dead);
    ck_assert_int_eq(mkdir(inside(f, other), 0755), 0);
    ck_assert_int_eq(scratch_entries(f), 7);

    ls_new_file *file = NULL;
    ASSERT_OK(ls_new_file_create(&file, inside(f, "z")));
    ls_new_file_destroy(&file);
    ck_assert_int_eq(scratch_entries(f), 5);
    ck_assert_int_eq(access(kept, F_OK), 0);
    ASSERT_OK(ls_new_folder_commit(made));
    ls_new_folder_destroy(&made);
    assert_holds(inside(f, "own/ranks/1"), "own");

    killed_while_writing(f);
    ck_assert_int_eq(scratch_entries(f), 7);
    made = half_made(inside(f, "own"), "again"); /* a folder removes as a file does */
    ASSERT_OK(ls_new_folder_commit(made));
    ls_new_folder_destroy(&made);
    ck_assert_int_eq(scratch_entries(f), 5);
}
END_TEST

/* What fails inside the temporary folder names the place that was asked for. */
START_TEST(errors_name_the_place)
{
    const char *f = folder("named"), *path;
    ls_new_folder *made = half_made(inside(f, "x/"), "text");
    ls_new_file *file = NULL;
    ASSERT_OK(ls_new_folder_file(made, "none/c", &path));
    ck_assert_int_eq(ls_new_file_create(&file, path), LS_ERR_INPUT);
    ls_new_folder_destroy(&made);
    ck_assert_msg(strstr(ls_error_text(), "named/x/none/c: cannot be written") != NULL &&
                      strstr(ls_error_text(), ".lockstep-") == NULL,
                  "%s", ls_error_text());
    ls_error_clear();
}
END_TEST

START_TEST(places_that_are_no_folder)
{
    const char *f = folder("places");
    ls_new_folder *made = NULL;
    scratch_file("places/file", "x", 1);
    ASSERT_SAYS(ls_new_folder_create(&made, inside(f, "file")), LS_ERR_INPUT, "places/file",
                "is no folder");
    ASSERT_SAYS(ls_new_folder_create(&made, inside(f, "none/x")), LS_ERR_INPUT, "none/x",
                "No such file");
    ASSERT_SAYS(ls_new_folder_create(&made, inside(f, "file/x")), LS_ERR_INPUT, "file/x",
                "Not a directory");
    ASSERT_SAYS(ls_new_folder_create(&made, ""), LS_ERR_INPUT, "names no folder");
    ASSERT_SAYS(ls_new_folder_create(&made, "/"), LS_ERR_INPUT, "root folder");
    ck_assert_int_eq(symlink("nothing", inside(f, "dangling")), 0);
    ASSERT_SAYS(ls_new_folder_create(&made, inside(f, "dangling")), LS_ERR_INPUT, "dangling",
                "link to nothing");
    ck_assert_ptr_null(made);
    ck_assert_int_eq(scratch_entries(f), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mapped_writing");
    TCase *tcase = tcase_create("mapped_writing");
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, filled_by_several_threads);
    tcase_add_test(tcase, unfilled_is_zero_and_none_is_a_file);
    tcase_add_test(tcase, full_disk);
    tcase_add_test(tcase, folder_appears_by_commit_alone);
    tcase_add_test(tcase, folder_abandoned_by_a_signal_handler);
    tcase_add_test(tcase, folder_is_never_missing);
    tcase_add_test(tcase, left_over_is_removed);
    tcase_add_test(tcase, errors_name_the_place);
    tcase_add_test(tcase, places_that_are_no_folder);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
