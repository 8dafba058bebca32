/* test_new_folder.c - folders that appear whole or not at all, and what killed processes left. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/wait.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "io/new_file.h"
#include "io/new_folder.h"
#include "io/fresh_folder.h"
#include "io/temporary_name.h"
#include "run_tests.h"

/* ---- the system's calls, seen and refused ---- */

static int flushed;
static bool refuse_exchange;

int fsync(int descriptor)
{
    (void)descriptor;
    flushed++;
    return 0;
}

#if defined __linux__ && defined SYS_renameat2
/* A file system that exchanges no names, as some are. */
long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (refuse_exchange && number == SYS_renameat2) {
        errno = EINVAL;
        return -1;
    }
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
#endif

/* ---- folders ---- */

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

/* ---- the exchange ---- */

static int looked_enough;

/* What is in the place is at no moment missing: another thread looks all the time. */
static void *look_for(void *path)
{
    static _Thread_local size_t missed;
    for (struct stat about; !__atomic_load_n(&looked_enough, __ATOMIC_ACQUIRE);)
        missed += stat(path, &about) != 0;
    return (void *)missed;
}

/* Whether this system exchanges two names in this folder. */
static bool exchanges(const char *f)
{
#if defined __linux__ && defined SYS_renameat2
    char names[2][1100];
    for (int i = 0; i < 2; i++) {
        snprintf(names[i], sizeof names[i], "%s/%d", f, i);
        ck_assert_int_eq(mkdir(names[i], 0755), 0);
    }
    const long done = syscall(SYS_renameat2, AT_FDCWD, names[0], AT_FDCWD, names[1], 2L, 0L);
    for (int i = 0; i < 2; i++) rmdir(names[i]);
    return done == 0;
#else
    (void)f;
    return false;
#endif
}

START_TEST(folder_is_never_missing)
{
    char place[1024], within[1100];
    void *missed;
    pthread_t observation;
    const char *f = folder("exchanged");
    const bool at_once = exchanges(f);
    snprintf(place, sizeof place, "%s", inside(f, "x"));
    snprintf(within, sizeof within, "%s/ranks/1", place);
    ls_new_folder *made = half_made(place, "first");
    ASSERT_OK(ls_new_folder_commit(made));
    ls_new_folder_destroy(&made);
    ck_assert_int_eq(pthread_create(&observation, NULL, look_for, within), 0);
    for (int i = 0; i < 200; i++) {
        made = half_made(place, "next");
        ASSERT_OK(ls_new_folder_commit(made));
        ls_new_folder_destroy(&made);
    }
    __atomic_store_n(&looked_enough, 1, __ATOMIC_RELEASE);
    pthread_join(observation, &missed);
    if (at_once) ck_assert_uint_eq((size_t)missed, 0);
    assert_holds(within, "next");
    ck_assert_int_eq(scratch_entries(f), 1);
}
END_TEST

/* Where the system has no exchange the folder is replaced in two steps. */
START_TEST(replaced_without_an_exchange)
{
    const char *f = folder("replaced");
    refuse_exchange = true;
    for (int i = 0; i < 2; i++) {
        ls_new_folder *made = half_made(inside(f, "x"), i ? "second" : "first");
        ASSERT_OK(ls_new_folder_commit(made));
        ls_new_folder_destroy(&made);
        assert_holds(inside(f, "x/ranks/1"), i ? "second" : "first");
        ck_assert_int_eq(scratch_entries(f), 1);
    }
}
END_TEST

/* Also files that were written without ls_new_file, and the folders, are flushed. */
START_TEST(everything_is_flushed)
{
    const char *f = folder("flushed"), *path;
    ls_new_folder *made = NULL;
    ASSERT_OK(ls_new_folder_create(&made, inside(f, "x")));
    ASSERT_OK(ls_new_folder_inner(made, "cats"));
    ASSERT_OK(ls_new_folder_file(made, "cats/0.png", &path));
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ASSERT_OK(ls_new_folder_file(made, "never written", &path));
    flushed = 0;
    ASSERT_OK(ls_new_folder_commit(made));
    ck_assert_int_eq(flushed, 3); /* the file, its folder, the whole */
    ls_new_folder_destroy(&made);
}
END_TEST

/* ---- what was left ---- */

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
    ck_assert_msg(strstr(ls_error_text(), "named/x/none/c: cannot be created in ") != NULL &&
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
                "cannot be created in ", "/none: No such file");
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
    TCase *tcase = test_case("new_folder", 0);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, folder_appears_by_commit_alone);
    tcase_add_test(tcase, folder_abandoned_by_a_signal_handler);
    tcase_add_test(tcase, folder_is_never_missing);
    tcase_add_test(tcase, replaced_without_an_exchange);
    tcase_add_test(tcase, everything_is_flushed);
    tcase_add_test(tcase, left_over_is_removed);
    tcase_add_test(tcase, errors_name_the_place);
    tcase_add_test(tcase, places_that_are_no_folder);
    return run_tests();
}
