/* main.c - the program: runs the command, turns its status into words and an exit status.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "command.h"
#include "early.h"
#include "interrupt.h"

static const size_t STACK_BYTES = (size_t)8 << 20; /* as the ranks have */

static void print_version(void)
{
    static const ls_engine engines[] = {LS_ENGINE_PORTABLE, LS_ENGINE_OPENBLAS};
    printf("%s\ncontract %s %s\n", program_version(), ls_contract_name(), ls_contract_digest());
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        char text[128];
        ls_engine_describe(engines[i], text, sizeof text);
        printf("engine %s\n", text);
        const char *warning = ls_engine_warning(engines[i]);
        if (*warning != '\0') printf("warning: %s\n", warning);
    }
}

static bool is_one_of(const char *word, const char *one, const char *two, const char *three)
{
    return strcmp(word, one) == 0 || strcmp(word, two) == 0 || strcmp(word, three) == 0;
}

static ls_status run(int argc, const char *const *argv)
{
    static const char *const help[] = {"--help"};
    ls_status status = LS_OK;
    if (argc < 2) {
        print_commands(stderr);
        LS_FAIL(LS_ERR_INPUT, "a command is missing");
    }
    const bool helps = is_one_of(argv[1], "--help", "-h", "help");
    const command_spec *command = command_named(argv[helps && argc > 2 ? 2 : 1]);
    if (helps && argc == 2) {
        print_commands(stdout);
        goto exit;
    }
    LS_TRY(ls_isa_check());
    if (is_one_of(argv[1], "--version", "-v", "-V")) {
        print_version();
        goto exit;
    }
    if (command == NULL) LS_TRY(command_unknown(argc - helps, argv + helps));
    /* `help train` is `train --help`. */
    if (helps)
        LS_TRY(command->run(command, 1, help));
    else
        LS_TRY(command->run(command, argc - 2, argv + 2));
exit:
    return status;
}

/* LS_ERR_IO when something that was printed did not arrive. */
static ls_status finish_output(void)
{
    ls_status status = LS_OK;
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout) != 0)
        LS_FAIL(LS_ERR_IO, "standard output: what was printed did not arrive: %s",
                ls_show_errno(errno));
exit:
    return status;
}

/* A stream that the caller has closed leaves its number to the next file that is opened, and what
 * is printed would land in that file. So each number is taken, opened the wrong way round: a
 * program that uses the stream still gets an error. */
static void occupy_closed_streams(void)
{
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++)
        if (fcntl(number, F_GETFD) == -1 && errno == EBADF &&
            open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY) != number)
            return;
}

static bool memory_is_limited(void)
{
    struct rlimit space, data;
    return (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) ||
           (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY);
}

/* OpenBLAS has a thread of its own, which asks for its memory until it gets it, and exit() waits
 * for that thread: where memory is short the program would end with its work done and never return.
 */
static int leave(int code, ls_status status)
{
    if (status != LS_ERR_MEMORY && !memory_is_limited()) return code;
    fflush(NULL);
    _exit(code);
}

typedef struct whole_run {
    int argc;
    const char *const *argv;
    int code;
} whole_run;

static void *run_all(void *argument)
{
    whole_run *all = argument;
    ls_status status = run(all->argc, all->argv);
    if (status == LS_OK || status == LS_DIFFERENT) {
        ls_status printed = finish_output();
        if (printed != LS_OK) status = printed;
    }
    if (interrupt_signal() != 0 && status != LS_OK && status != LS_DIFFERENT) {
        fflush(NULL);
        leave_interrupted();
    }
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "lockstep: %s\n", ls_error_text());
    all->code = leave(ls_exit_code(status), status);
    return NULL;
}

/* The first thread's stack is what `ulimit -s` or the C library says, 128 KiB with musl; a model's
 * description and its copies take several times 40 KiB. So a thread with a stack of known size does
 * all the work; where the system has no thread to give, the first one tries. */
int main(int argc, char **argv)
{
    whole_run all = {argc, (const char *const *)argv, 0};
    pthread_attr_t attributes;
    pthread_t thread;
    early_end();
    occupy_closed_streams();
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (pthread_create(&thread, &attributes, run_all, &all) == 0)
        pthread_join(thread, NULL);
    else
        run_all(&all);
    pthread_attr_destroy(&attributes);
    return all.code;
}
