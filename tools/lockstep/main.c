/* main.c - the program: finds the command, runs it, turns its status into words and an exit status.
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

static const command_spec commands[] = {
    {"train", "trains a model in a layout", FOR_TRAIN, train_command},
    {"verify", "runs the same training serially and in a layout and compares every bit", FOR_VERIFY,
     verify_command},
    {"dump",
     "writes every tensor of a training run as a golden directory for other implementations",
     FOR_DUMP, dump_command},
    {"check", "judges another backend's tensors, and names its mistakes", 0, check_command},
    {"replay", "lays a traced run out as if every rank had its own core", 0, replay_command},
    {"plan", "says what a training in a layout will hold and send, without running it", FOR_PLAN,
     plan_command},
    {"images", "draws a set of labelled images and writes it as files", FOR_IMAGES, images_command},
    {"gallery", "makes every known mistake on purpose and shows where and as what it is found", 0,
     gallery_command},
    {"bench", "measures products, convolutions, kernels, collectives and steps of training", 0,
     bench_command},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *file)
{
    fputs("lockstep - a neural network split over many ranks, bit for bit what one thread gives\n\n"
          "usage: lockstep COMMAND [--option value ...]\n\n",
          file);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(file, "  %-10s%s\n", commands[i].name, commands[i].summary);
    fputs("\nlockstep COMMAND --help lists the options of a command; lockstep --version says what "
          "computes.\n"
          "Exit status: 0 done and equal, 1 a difference, 2 bad input, 3 a rank failed, 130 after "
          "Ctrl-C.\n",
          file);
}

static void print_version(void)
{
    static const ls_engine engines[] = {LS_ENGINE_PORTABLE, LS_ENGINE_OPENBLAS};
    printf("lockstep %s\ncontract %s %s\n", LOCKSTEP_VERSION, ls_contract_name(),
           ls_contract_digest());
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        char text[128];
        ls_engine_describe(engines[i], text, sizeof text);
        printf("engine %s\n", text);
        const char *warning = ls_engine_warning(engines[i]);
        if (*warning != '\0') printf("warning: %s\n", warning);
    }
}

static ls_status unknown_command(const char *word)
{
    ls_status status = LS_OK;
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++) names[i] = commands[i].name;
    const char *near = ls_nearest(word, names, COMMANDS);
    if (near != NULL)
        LS_FAIL(LS_ERR_INPUT, "%s: unknown command; is %s meant?", ls_show(word), near);
    LS_FAIL(LS_ERR_INPUT, "%s: unknown command; lockstep --help lists them",
            *word == '\0' ? "\"\"" : ls_show(word));
exit:
    return status;
}

static ls_status run(int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    if (argc < 2) LS_FAIL(LS_ERR_INPUT, "a command is missing; lockstep --help lists them");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        goto exit;
    }
    LS_TRY(ls_isa_check());
    if (strcmp(argv[1], "--version") == 0) {
        print_version();
        goto exit;
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            LS_TRY(commands[i].run(&commands[i], argc - 2, argv + 2));
            goto exit;
        }
    }
    LS_TRY(unknown_command(argv[1]));
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
 * is printed would land in that file. So the numbers are taken, each the wrong way round: whoever
 * uses the stream still gets an error. */
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
