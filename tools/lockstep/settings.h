/* settings.h - everything that the command line says, read and checked: the settings of a job, and
 * what only the program has. */
#ifndef LOCKSTEP_SETTINGS_H
#define LOCKSTEP_SETTINGS_H

#include "command.h"

typedef struct settings {
    ls_job_settings job;
    ls_job_option_table table;
    const char *report;    /* folder; NULL: none */
    const char *draw;      /* plan: file of the schedule's picture; NULL: none */
    const char *directory; /* dump: where to */
    char *command_line;
    bool json, help;
} settings;

/* Reads a command's words and checks them: model, layout, text, everything that can be known before
 * a run. *ret_helped: --help was asked for and given, there is nothing more to do. The settings
 * stay where they are (they point into themselves) and end with settings_free. */
ls_status settings_read(settings *s, const command_spec *command, int argc, const char *const *argv,
                        bool *ret_helped) LS_MUST_USE;
void settings_free(settings *s);

/* Says on stderr, in one line, when an engine is slower than it could be. */
void settings_warn(const settings *s);

#endif
