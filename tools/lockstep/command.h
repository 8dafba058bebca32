/* command.h - what the program's commands share. */
#ifndef LOCKSTEP_COMMAND_H
#define LOCKSTEP_COMMAND_H

#include "lockstep/lockstep.h"

/* Which command a table of options is for; an option names all that have it. */
enum {
    FOR_TRAIN = 1,
    FOR_VERIFY = 2,
    FOR_PLAN = 4,
    FOR_DUMP = 8,
    FOR_RUN = FOR_TRAIN | FOR_VERIFY, /* those that run something and report on it */
    FOR_IMAGES = 16,
    FOR_ALL = FOR_RUN | FOR_PLAN | FOR_DUMP,
    /* Which kind of model it is for, when not for both. */
    OF_TRANSFORMERS = 64,
    OF_NETS = 128
};

typedef struct command_spec {
    const char *name;
    const char *summary; /* one line of --help */
    int mark;            /* FOR_... */
    /* argc, argv: what follows the command's name. LS_DIFFERENT: exit status 1. */
    ls_status (*run)(const struct command_spec *command, int argc, const char *const *argv);
} command_spec;

ls_status train_command(const command_spec *command, int argc, const char *const *argv);
ls_status replay_command(const command_spec *command, int argc, const char *const *argv);
ls_status plan_command(const command_spec *command, int argc, const char *const *argv);
ls_status dump_command(const command_spec *command, int argc, const char *const *argv);
ls_status check_command(const command_spec *command, int argc, const char *const *argv);
ls_status gallery_command(const command_spec *command, int argc, const char *const *argv);
ls_status images_command(const command_spec *command, int argc, const char *const *argv);
ls_status bench_command(const command_spec *command, int argc, const char *const *argv);
ls_status verify_command(const command_spec *command, int argc, const char *const *argv);

#endif
