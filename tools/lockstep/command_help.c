/* command_help.c - every command, and what the program says of them: --help, man page, completion.
 */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "version.h"

static const command_spec commands[] = {
    {"train", "trains a model in a layout", "lockstep train [--option value ...]",
     "lockstep train --tp 4\n"
     "lockstep train --dp 2 --pp 2 --tp 2 --sp --micro-batches 4 --schedule 1f1b --steps 100\n"
     "lockstep train --tp 3 --text book.txt --steps 200 --save model.safetensors\n"
     "lockstep train --pp 4 --micro-batches 8 --schedule 1f1b --steps 3 --trace t.json\n"
     "lockstep train --model resnet-nano --spatial 2x1 --dp 2 --steps 20\n",
     "03 to 11 and 14 to 16", LS_JOB_TRAIN, train_command},
    {"verify", "runs the same training serially and in a layout and compares every bit",
     "lockstep verify [--option value ...]",
     "lockstep verify --dp 2 --pp 2 --tp 2 --sp --micro-batches 4 --schedule 1f1b\n"
     "lockstep verify --layouts \"tp 4; dp 2 x pp 4, 1f1b, 3 micro-batches\" --gemm both\n"
     "lockstep verify --sweep 8 --report report\n",
     "11, 15", LS_JOB_VERIFY, verify_command},
    {"dump",
     "writes every tensor of a training run as a golden directory for other implementations",
     "lockstep dump DIR [--option value ...]",
     "lockstep dump golden --model llama-nano\n"
     "lockstep dump golden --tp 2 --sp --micro-batches 2 --per-rank --trace\n"
     "lockstep dump golden --load model.safetensors --dropout 0\n",
     "12", LS_JOB_DUMP, dump_command},
    {"check", "judges another backend's tensors, and names its mistakes",
     "lockstep check GOLDEN CANDIDATE [--option value ...]",
     "lockstep check golden mine\n"
     "lockstep check golden mine --complete --only \"layers.3.*\"\n"
     "lockstep check golden mine --show layers.3.attention\n"
     "lockstep check golden model.safetensors --map hf\n",
     "12, 13", 0, check_command},
    {"replay", "lays a traced run out as if every rank had its own core",
     "lockstep replay TRACE [--option value ...]",
     "lockstep replay t.json\n"
     "lockstep replay t.json --link 5us,10GB/s --draw text\n",
     "08", 0, replay_command},
    {"plan", "says what a training in a layout will hold and send, without running it",
     "lockstep plan [--option value ...]",
     "lockstep plan --model gpt2-124m --tp 4 --pp 3 --sp --schedule 1f1b --micro-batches 8 --batch "
     "8\n"
     "lockstep plan --model resnet-nano --spatial 4x4\n",
     "08, 09, 11", LS_JOB_PLAN, plan_command},
    {"images", "draws a set of labelled images and writes it as files",
     "lockstep images DIR [--option value ...]",
     "lockstep images digits\n"
     "lockstep images shapes --model resnet-nano --image-count 100\n",
     "14 to 16", 0, images_command},
    {"gallery", "makes every known mistake on purpose and shows where and as what it is found",
     "lockstep gallery [--option value ...]",
     "lockstep gallery\n"
     "lockstep gallery --only \"*reduced*\" --evidence\n",
     "12, 13", 0, gallery_command},
    {"bench", "measures products, convolutions, kernels, collectives and steps of training",
     "lockstep bench [--option value ...]",
     "lockstep bench --only gemm\n"
     "lockstep bench --only conv2d --images 8\n",
     "02", 0, bench_command},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

const char *program_version(void)
{
    return "lockstep " LOCKSTEP_VERSION ", commit " LOCKSTEP_COMMIT;
}

void print_commands(FILE *file)
{
    fputs("lockstep - a neural network split over many ranks, bit for bit what one thread gives\n\n"
          "usage: lockstep COMMAND [--option value ...]\n\n",
          file);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(file, "  %-10s%s\n", commands[i].name, commands[i].summary);
    fputs("\nlockstep COMMAND --help lists the options of a command, with examples; "
          "lockstep --version says\nwhat computes.\n\n"
          "Examples:\n"
          "  lockstep verify --dp 2 --pp 2 --tp 2 --sp --micro-batches 4 --schedule 1f1b\n"
          "  lockstep dump golden, then lockstep check golden mine: is another backend right?\n\n"
          "The chapters 01 to 16 in apps/ teach what the commands do, a program each: "
          "apps/README.md.\n\n"
          "Exit status: 0 done and equal, 1 a difference, 2 bad input, 3 a rank failed, 130 after "
          "Ctrl-C.\n",
          file);
}

const command_spec *command_named(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

ls_status command_unknown(int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    const char *word = argv[1], *names[COMMANDS];
    for (int i = 2; word[0] == '-' && i < argc; i++)
        if (command_named(argv[i]) != NULL)
            LS_FAIL(LS_ERR_INPUT, "%s: the command comes first: lockstep %s %s ...", ls_show(word),
                    argv[i], ls_show(word));
    for (size_t i = 0; i < COMMANDS; i++) names[i] = commands[i].name;
    const char *near = ls_nearest(word, names, COMMANDS);
    if (near != NULL)
        LS_FAIL(LS_ERR_INPUT, "%s: unknown command; is %s meant?", ls_show(word), near);
    LS_FAIL(LS_ERR_INPUT, "%s: unknown command; lockstep --help lists them",
            *word == '\0' ? "\"\"" : ls_show(word));
exit:
    return status;
}

bool asks_for_help(int argc, const char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

void print_help_head(const command_spec *command)
{
    printf("lockstep %s - %s\n\nusage: %s\n\n", command->name, command->summary, command->usage);
}

void print_help_end(const command_spec *command)
{
    printf("\nExamples:\n");
    for (const char *line = command->examples; *line != '\0'; line += strcspn(line, "\n") + 1)
        printf("  %.*s\n", (int)strcspn(line, "\n"), line);
    printf("\nChapters of apps/ that teach it: %s.\n", command->chapters);
}

void print_command_help(const command_spec *command, const char *intro, const ls_option *options,
                        size_t n_options)
{
    print_help_head(command);
    if (intro != NULL) fputs(intro, stdout);
    ls_options_help(stdout, options, n_options);
    print_help_end(command);
}
