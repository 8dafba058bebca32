/* options.h - the options of a command line: one table says what there is, what is allowed and what
 * --help prints.
 *
 * A program fills an array of ls_option with the functions below, each entry next to the variable
 * that it sets; what the variable holds before is the default that --help shows:
 *
 *     int ranks = 4;
 *     bool help = false;
 *     ls_option options[] = {
 *         ls_option_int("ranks", &ranks, 1, 64, "N", "threads to start"),
 *         ls_option_flag("help", &help, "this text"),
 *     };
 *     LS_TRY(ls_options_parse(options, 2, argc - 1, argv + 1, NULL));
 *
 * Options are written --name value or --name=value. A number is decimal and nothing else: no
 * spaces, no trailing letters, no nan, no inf, nothing out of its range. */
#ifndef LS_BASE_OPTIONS_H
#define LS_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lockstep/base/status.h"

LS_BEGIN_DECLS

typedef enum ls_option_kind {
    LS_OPTION_HEADING = 0, /* a line of --help                       */
    LS_OPTION_FLAG,        /* bool: there or not                     */
    LS_OPTION_INT,         /* int                                    */
    LS_OPTION_SIZE,        /* size_t                                 */
    LS_OPTION_U64,         /* uint64_t                               */
    LS_OPTION_REAL,        /* double                                 */
    LS_OPTION_CHOICE,      /* int: place in a list of words          */
    LS_OPTION_STRING,      /* const char *: points into argv         */
    LS_OPTION_PAIR         /* size_t[2]: written 2x3                 */
} ls_option_kind;

typedef struct ls_option {
    ls_option_kind kind;
    const char *name;     /* without the dashes; of a heading: its text */
    void *value;          /* the variable */
    const char *argument; /* what --help calls the value: "N", "FILE" */
    const char *help;
    int64_t min; /* whole numbers and pairs: min <= value <= max */
    uint64_t max;
    double low, high;           /* reals: low <= value <= high */
    bool above_low;             /* ... but not low itself */
    const char *const *choices; /* ends with NULL */
    bool given;                 /* set by ls_options_parse */
} ls_option;

/* The words of a command line that are no options. */
typedef struct ls_words {
    const char *const *names; /* in: what they are, for texts: {"GOLDEN", "CANDIDATE"} */
    size_t max;               /* in: how many there may be, each of them required */
    const char **words;       /* out: room for max */
    const char *usage;        /* in: "lockstep dump DIR", for texts; NULL: not said */
} ls_words;

static inline ls_option ls_option_of(ls_option_kind kind, const char *name, void *value,
                                     const char *argument, const char *help)
{
    ls_option option = {kind, name, value, argument, help, 0, 0, 0.0, 0.0, false, NULL, false};
    return option;
}

static inline ls_option ls_option_heading(const char *text)
{
    return ls_option_of(LS_OPTION_HEADING, text, NULL, NULL, NULL);
}

static inline ls_option ls_option_flag(const char *name, bool *value, const char *help)
{
    return ls_option_of(LS_OPTION_FLAG, name, value, NULL, help);
}

static inline ls_option ls_option_int(const char *name, int *value, int min, int max,
                                      const char *argument, const char *help)
{
    ls_option option = ls_option_of(LS_OPTION_INT, name, value, argument, help);
    option.min = min;
    option.max = max < 0 ? 0 : (uint64_t)max;
    return option;
}

static inline ls_option ls_option_size(const char *name, size_t *value, size_t min, size_t max,
                                       const char *argument, const char *help)
{
    ls_option option = ls_option_of(LS_OPTION_SIZE, name, value, argument, help);
    option.min = (int64_t)min;
    option.max = max;
    return option;
}

static inline ls_option ls_option_u64(const char *name, uint64_t *value, int64_t min, uint64_t max,
                                      const char *argument, const char *help)
{
    ls_option option = ls_option_of(LS_OPTION_U64, name, value, argument, help);
    option.min = min;
    option.max = max;
    return option;
}

/* low <= value <= high; with above_low, low itself is not allowed. */
static inline ls_option ls_option_real(const char *name, double *value, double low, bool above_low,
                                       double high, const char *argument, const char *help)
{
    ls_option option = ls_option_of(LS_OPTION_REAL, name, value, argument, help);
    option.low = low;
    option.above_low = above_low;
    option.high = high;
    return option;
}

/* value: the place of the word in `choices`, which ends with NULL. */
static inline ls_option ls_option_choice(const char *name, int *value, const char *const *choices,
                                         const char *help)
{
    ls_option option = ls_option_of(LS_OPTION_CHOICE, name, value, NULL, help);
    option.choices = choices;
    return option;
}

static inline ls_option ls_option_string(const char *name, const char **value, const char *argument,
                                         const char *help)
{
    return ls_option_of(LS_OPTION_STRING, name, value, argument, help);
}

/* value: two numbers, each from min to max. */
static inline ls_option ls_option_pair(const char *name, size_t value[2], size_t min, size_t max,
                                       const char *argument, const char *help)
{
    ls_option option = ls_option_of(LS_OPTION_PAIR, name, value, argument, help);
    option.min = (int64_t)min;
    option.max = max;
    return option;
}

/* Reads argc words of argv (without the program's name) into the variables of `count` options; an
 * option is given once; -h is --help where there is one; after "--" no word is an option. words
 * NULL: none is allowed. An unknown option is answered with the nearest, also where it is another
 * program's name for one of these.
 * LS_ERR_INPUT names the option, what was found and what is allowed; the variables of options
 * before the faulty one are then set already. */
LS_API ls_status ls_options_parse(ls_option *options, size_t count, int argc,
                                  const char *const *argv, ls_words *words) LS_MUST_USE;

/* Whether --name was among the words that were parsed. */
LS_API bool ls_options_given(const ls_option *options, size_t count, const char *name);

/* Prints one paragraph per option, with what is allowed and the variable's present value as the
 * default, in lines of at most 100 columns. To be called before parsing. */
LS_API void ls_options_help(FILE *file, const ls_option *options, size_t count);

LS_END_DECLS

#endif
