/* command.h - what the program's commands share. */
#ifndef LOCKSTEP_COMMAND_H
#define LOCKSTEP_COMMAND_H

#include <stdio.h>

#include "job/job_settings.h"
#include "lockstep/parts.h"

typedef struct command_spec {
    const char *name;
    const char *summary;  /* one line of --help */
    const char *usage;    /* "lockstep check GOLDEN CANDIDATE [--option value ...]" */
    const char *examples; /* a line each */
    const char *chapters; /* of apps/ that show what it is about */
    int mark;             /* LS_JOB_...; 0: its words are its own */
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

/* ---- command_help.c: every command, and what they say of themselves ---- */

/* NULL: none has this name. */
const command_spec *command_named(const char *name);
/* LS_ERR_INPUT: with the nearest, or how the words are to be ordered. argv: all of them. */
ls_status command_unknown(int argc, const char *const *argv) LS_MUST_USE;
/* "lockstep 0.1.0, commit 0123456789ab" */
const char *program_version(void);
/* Of the whole program. */
void print_commands(FILE *file);
/* Whether --help or -h is among the words, before any "--". */
bool asks_for_help(int argc, const char *const *argv);
/* Before a command's options, and after them. */
void print_help_head(const command_spec *command);
void print_help_end(const command_spec *command);
/* Both, with the options between them. intro: text before the options, NULL for none. */
void print_command_help(const command_spec *command, const char *intro, const ls_option *options,
                        size_t n_options);

#endif
