/* test_new_file.c - a file appears whole or not at all, whatever stands in its place. */
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>

#include "io/fresh_folder.h"
#include "io/new_file.h"
#include "io/temporary_name.h"
#include "io/unfinished.h"
#include "lockstep/io/npy.h"
#include "lockstep/io/safetensors.h"
#include "run_tests.h"

static void assert_holds(const char *path, const char *text)
{
    size_t count;
    unsigned char *bytes = scratch_read(path, &count);
    ck_assert_uint_eq(count, strlen(text));
    ck_assert_mem_eq(bytes, text, count);
    free(bytes);
}

static ls_status write_text(const char *path, const char *text)
{
    ls_new_file *file = NULL;
    ls_status status = LS_OK;
    LS_TRY(ls_new_file_create(&file, path));
    LS_TRY(ls_new_file_write(file, text, strlen(text)));
    LS_TRY(ls_new_file_commit(file));
exit:
    ls_new_file_destroy(&file);
    return status;
}

START_TEST(appears_by_commit_alone)
{
    const char *f = folder("commit");
    ls_new_file *file = NULL;
    ASSERT_OK(ls_new_file_create(&file, inside(f, "x")));
    ASSERT_OK(ls_new_file_write(file, "abc", 3));
    ASSERT_OK(ls_new_file_write(file, NULL, 0));
    ASSERT_OK(ls_new_file_write(file, "de", 2));
    ck_assert_int_eq(access(inside(f, "x"), F_OK), -1);
    ASSERT_OK(ls_new_file_commit(file));
    assert_holds(inside(f, "x"), "abcde");
    ls_new_file_destroy(&file);
    ck_assert_ptr_null(file);
    ls_new_file_destroy(&file);
    assert_holds(inside(f, "x"), "abcde");
    ck_assert_int_eq(scratch_entries(f), 1);
}
END_TEST

START_TEST(giving_up_leaves_the_old_file)
{
    const char *f = folder("give-up");
    ASSERT_OK(write_text(inside(f, "x"), "old"));
    ls_new_file *file = NULL;
    ASSERT_OK(ls_new_file_create(&file, inside(f, "x")));
    ASSERT_OK(ls_new_file_write(file, "new and longer", 14));
    ls_new_file_destroy(&file);
    assert_holds(inside(f, "x"), "old");
    ck_assert_int_eq(scratch_entries(f), 1);
    ASSERT_OK(write_text(inside(f, "x"), "new"));
    assert_holds(inside(f, "x"), "new");
}
END_TEST

/* Two at once in one folder, even of one name, do not meet. */
START_TEST(two_at_once)
{
    const char *f = folder("two");
    ls_new_file *a = NULL, *b = NULL;
    ASSERT_OK(ls_new_file_create(&a, inside(f, "x")));
    ASSERT_OK(ls_new_file_create(&b, inside(f, "x")));
    ASSERT_OK(ls_new_file_write(a, "first", 5));
    ASSERT_OK(ls_new_file_write(b, "second", 6));
    ASSERT_OK(ls_new_file_commit(b));
    ASSERT_OK(ls_new_file_commit(a));
    ls_new_file_destroy(&a);
    ls_new_file_destroy(&b);
    assert_holds(inside(f, "x"), "first");
    ck_assert_int_eq(scratch_entries(f), 1);
}
END_TEST

/* A name that is taken, or planted, is passed over and not written to. */
START_TEST(taken_temporary_names)
{
    const char *f = folder("taken");
    char name[LS_TEMPORARY_NAME];
    ls_temporary_name(name, "");
    char *number = strrchr(name, '-') + 1;
    const int next = atoi(number) + 1;
    for (int i = 0; i < 5; i++) {
        sprintf(number, "%d.tmp", next + i);
        ck_assert_int_eq(symlink(inside(f, "victim"), inside(f, name)), 0);
    }
    ASSERT_OK(write_text(inside(f, "x"), "text"));
    assert_holds(inside(f, "x"), "text");
    ck_assert_int_eq(access(inside(f, "victim"), F_OK), -1);
    ck_assert_int_eq(scratch_entries(f), 6);
}
END_TEST

START_TEST(link_is_followed_and_mode_kept)
{
    const char *f = folder("link");
    const char *g = folder("elsewhere");
    ASSERT_OK(write_text(inside(g, "real"), "old"));
    ck_assert_int_eq(chmod(inside(g, "real"), 0600), 0);
    ck_assert_int_eq(symlink(inside(g, "real"), inside(f, "link")), 0);
    ASSERT_OK(write_text(inside(f, "link"), "new"));
    struct stat about;
    ck_assert_int_eq(lstat(inside(f, "link"), &about), 0);
    ck_assert(S_ISLNK(about.st_mode));
    assert_holds(inside(g, "real"), "new");
    ck_assert_int_eq(stat(inside(g, "real"), &about), 0);
    ck_assert_uint_eq(about.st_mode & 0777, 0600);
    ck_assert_int_eq(scratch_entries(f) + scratch_entries(g), 2);

    ck_assert_int_eq(symlink(inside(g, "nothing"), inside(f, "dangling")), 0);
    ASSERT_SAYS(write_text(inside(f, "dangling"), "x"), LS_ERR_INPUT, "dangling",
                "link to nothing");
}
END_TEST

/* A rename would put a plain file in the place of a pipe or a device. (Tried on a pipe of the
 * test's own only: with that fault in it and run by root, a test on /dev/null would take it from
 * the whole machine.) */
START_TEST(places_that_are_no_plain_file)
{
    const char *f = folder("places");
    ASSERT_SAYS(write_text(f, "x"), LS_ERR_INPUT, "places", "is a folder");
    ck_assert_int_eq(mkfifo(inside(f, "pipe"), 0600), 0);
    ASSERT_SAYS(write_text(inside(f, "pipe"), "x"), LS_ERR_INPUT, "pipe", "plain file");
    ASSERT_SAYS(write_text(inside(f, "none/x"), "x"), LS_ERR_INPUT, "none/x",
                "cannot be created in ", "/none: No such file");
    ASSERT_SAYS(write_text(inside(f, "none/"), "x"), LS_ERR_INPUT, "none/", "names no file");
    ASSERT_SAYS(write_text("", "x"), LS_ERR_INPUT, "names no file");
    ASSERT_OK(write_text(inside(f, "plain"), "x"));
    ASSERT_SAYS(write_text(inside(f, "plain/x"), "x"), LS_ERR_INPUT, "plain/x", "Not a directory");
    ASSERT_SAYS(write_text(inside(f, "none\xff\n/x"), "x"), LS_ERR_INPUT, "none\\xff\\x0a/x");
    ck_assert_int_eq(scratch_entries(f), 2);
    struct stat about;
    ck_assert_int_eq(stat(inside(f, "pipe"), &about), 0);
    ck_assert(S_ISFIFO(about.st_mode));
}
END_TEST

/* A name of the greatest length, of any bytes, without a folder. */
START_TEST(names_of_any_kind)
{
    const char *f = folder("names");
    char longest[256];
    memset(longest, 'n', 255);
    longest[255] = '\0';
    ASSERT_OK(write_text(inside(f, longest), "x"));
    ASSERT_OK(write_text(inside(f, "\xff\x01"), "y"));
    ck_assert_int_eq(chdir(f), 0);
    ASSERT_OK(write_text("here", "z"));
    assert_holds("here", "z");
    ck_assert_int_eq(scratch_entries(f), 3);
    char too_long[300];
    memset(too_long, 'n', 299);
    too_long[299] = '\0';
    ASSERT_SAYS(write_text(too_long, "x"), LS_ERR_INPUT, "File name too long");
    ck_assert_int_eq(scratch_entries(f), 3);
}
END_TEST

START_TEST(folder_or_file_that_may_not_be_written)
{
    const char *f = folder("locked");
    ASSERT_OK(write_text(inside(f, "old"), "old"));
    ck_assert_int_eq(chmod(inside(f, "old"), 0444), 0);
    ck_assert_int_eq(chmod(f, 0555), 0);
    const char *g = folder("open");
    ASSERT_OK(write_text(inside(g, "protected"), "old"));
    ck_assert_int_eq(chmod(inside(g, "protected"), 0444), 0);
    ck_assert_int_eq(chmod(g, 0777), 0);
    if (geteuid() == 0) ck_assert_int_eq(setuid(65534), 0); /* root writes everywhere */
    ls_safetensors_writer *writer = NULL;
    ASSERT_SAYS(ls_safetensors_create(&writer, inside(f, "new")), LS_ERR_IO, "locked/new",
                "ermission denied");
    ck_assert_ptr_null(writer);
    ASSERT_SAYS(write_text(inside(f, "old"), "x"), LS_ERR_IO, "locked/old", "ermission denied");
    ASSERT_SAYS(write_text(inside(g, "protected"), "x"), LS_ERR_IO, "protected",
                "ermission denied");
    assert_holds(inside(f, "old"), "old");
    assert_holds(inside(g, "protected"), "old");
    ck_assert_int_eq(scratch_entries(f), 1);
    ck_assert_int_eq(scratch_entries(g), 1);
}
END_TEST

enum { FILES = 20, LISTED = 16 };

/* What a signal handler does before it ends the process: as many files as it keeps a list of, one
 * of them committed, one given up. */
START_TEST(abandoned_by_a_signal_handler)
{
    const char *f = folder("abandoned");
    ls_new_file *files[FILES] = {NULL};
    char name[8];
    for (int i = 0; i < LISTED; i++) {
        snprintf(name, sizeof name, "%d", i);
        ASSERT_OK(ls_new_file_create(&files[i], inside(f, name)));
        ASSERT_OK(ls_new_file_write(files[i], "half", 4));
    }
    ASSERT_OK(ls_new_file_commit(files[3]));
    ls_new_file_destroy(&files[5]);
    ck_assert_int_eq(scratch_entries(f), LISTED - 1);
    ls_unfinished_remove();
    ck_assert_int_eq(scratch_entries(f), 1);
    assert_holds(inside(f, "3"), "half");
    ASSERT_SAYS(ls_new_file_commit(files[0]), LS_ERR_IO, "abandoned/0", "cannot be written");
    for (int i = 0; i < LISTED; i++) ls_new_file_destroy(&files[i]);
    ck_assert_int_eq(scratch_entries(f), 1);
    ASSERT_SAYS(ls_new_file_create(&files[0], inside(f, "0")), LS_ERR_IO, "abandoned/0",
                "cannot be written: the program is ending");
    ck_assert_int_eq(scratch_entries(f), 1);
}
END_TEST

/* Those beyond the list are kept as carefully as the others. */
START_TEST(more_than_are_listed)
{
    const char *f = folder("many");
    ls_new_file *files[FILES] = {NULL};
    char name[8];
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "%d", i);
        ASSERT_OK(ls_new_file_create(&files[i], inside(f, name)));
    }
    for (int i = 0; i < FILES; i += 2) ASSERT_OK(ls_new_file_commit(files[i]));
    for (int i = 0; i < FILES; i++) ls_new_file_destroy(&files[i]);
    ck_assert_int_eq(scratch_entries(f), FILES / 2);
}
END_TEST

/* A limit on the size of files stands for a full disk: write fails in the same way. */
START_TEST(full_disk)
{
    static float data[65536];
    uint64_t dims[1] = {65536};
    const char *f = folder("full");
    ASSERT_OK(write_text(inside(f, "x"), "old"));
    struct rlimit limit, before;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 65536; /* enough for what Check itself writes about this test */
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);

    ls_safetensors_writer *writer = NULL;
    ASSERT_OK(ls_safetensors_create(&writer, inside(f, "x")));
    ASSERT_OK(ls_safetensors_declare(writer, "t", LS_F32, 1, dims));
    ASSERT_SAYS(ls_safetensors_write(writer, data, sizeof data), LS_ERR_IO, "full/x",
                "File too large");
    ASSERT_SAYS(ls_safetensors_commit(writer), LS_ERR_INPUT, "data of 0 tensors of 1");
    ls_safetensors_destroy(&writer);
    ASSERT_SAYS(ls_npy_write(inside(f, "x"), LS_F32, 1, dims, data), LS_ERR_IO, "full/x",
                "File too large");
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_holds(inside(f, "x"), "old");
    ck_assert_int_eq(scratch_entries(f), 1);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("new_file", 0);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, appears_by_commit_alone);
    tcase_add_test(tcase, giving_up_leaves_the_old_file);
    tcase_add_test(tcase, two_at_once);
    tcase_add_test(tcase, taken_temporary_names);
    tcase_add_test(tcase, link_is_followed_and_mode_kept);
    tcase_add_test(tcase, places_that_are_no_plain_file);
    tcase_add_test(tcase, names_of_any_kind);
    tcase_add_test(tcase, folder_or_file_that_may_not_be_written);
    tcase_add_test(tcase, abandoned_by_a_signal_handler);
    tcase_add_test(tcase, more_than_are_listed);
    tcase_add_test(tcase, full_disk);
    return run_tests();
}
