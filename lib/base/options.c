#include "lockstep/base/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/option_names.h"
#include "base/option_text.h"
#include "base/thread_mode.h"
#include "lockstep/base/show.h"

/* A whole number as written: its size and its sign. */
typedef struct whole {
    bool negative;
    uint64_t magnitude;
} whole;

typedef enum reading { READ_NUMBER = 0, READ_TOO_LARGE, READ_NO_NUMBER } reading;

/* Reads digits from *text on, with an optional minus sign, and moves *text after them. */
static reading read_whole(const char **text, whole *ret_number)
{
    const char *at = *text;
    whole number = {false, 0};
    bool overflow = false;
    if (*at == '-') {
        number.negative = true;
        at++;
    }
    if (*at < '0' || *at > '9') return READ_NO_NUMBER;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (number.magnitude > (UINT64_MAX - digit) / 10) overflow = true;
        number.magnitude = number.magnitude * 10 + digit;
    }
    *text = at;
    *ret_number = number;
    return overflow ? READ_TOO_LARGE : READ_NUMBER;
}

static bool in_range(const ls_option *option, whole number)
{
    if (number.negative && number.magnitude > 0) {
        if (option->min >= 0) return false;
        return number.magnitude <= (uint64_t) - (option->min + 1) + 1;
    }
    if (option->min > 0 && number.magnitude < (uint64_t)option->min) return false;
    return number.magnitude <= option->max;
}

static ls_status refuse(const ls_option *option, const char *value)
{
    char allowed[LS_OPTION_TEXT];
    ls_option_allowed(option, allowed, sizeof allowed);
    ls_status status = LS_OK;
    LS_FAIL(LS_ERR_INPUT, "--%s %s: %s is allowed", option->name,
            *value == '\0' ? "\"\"" : ls_show(value), allowed);
exit:
    return status;
}

static ls_status set_whole(const ls_option *option, const char *value)
{
    const char *at = value;
    whole number = {false, 0};
    if (read_whole(&at, &number) != READ_NUMBER || *at != '\0' || !in_range(option, number))
        return refuse(option, value);
    switch (option->kind) {
    case LS_OPTION_SIZE:
        *(size_t *)option->value = (size_t)number.magnitude;
        break;
    case LS_OPTION_U64:
        *(uint64_t *)option->value = number.magnitude;
        break;
    default:
        *(int *)option->value =
            number.negative ? (int)-(int64_t)number.magnitude : (int)number.magnitude;
        break;
    }
    return LS_OK;
}

static ls_status set_pair(const ls_option *option, const char *value)
{
    const char *at = value;
    whole first = {false, 0}, second = {false, 0};
    bool good = read_whole(&at, &first) == READ_NUMBER && (*at == 'x' || *at == 'X');
    if (good) {
        at++;
        good = read_whole(&at, &second) == READ_NUMBER && *at == '\0' && in_range(option, first) &&
               in_range(option, second);
    }
    if (!good) return refuse(option, value);
    ((size_t *)option->value)[0] = (size_t)first.magnitude;
    ((size_t *)option->value)[1] = (size_t)second.magnitude;
    return LS_OK;
}

static ls_status set_real(const ls_option *option, const char *value)
{
    /* strtod alone would also take spaces, nan, inf and hexadecimal numbers. */
    bool good = *value != '\0' && value[strspn(value, "+-.0123456789eE")] == '\0';
    char *end = NULL;
    double number = 0.0;
    if (good) {
        errno = 0;
        number = strtod(value, &end);
        good = *end == '\0' && errno == 0 && number <= option->high &&
               (option->above_low ? number > option->low : number >= option->low);
    }
    if (!good) return refuse(option, value);
    *(double *)option->value = number;
    return LS_OK;
}

static ls_status set_choice(const ls_option *option, const char *value)
{
    size_t count = 0;
    for (; option->choices[count] != NULL; count++) {
        if (strcmp(option->choices[count], value) == 0) {
            *(int *)option->value = (int)count;
            return LS_OK;
        }
    }
    return refuse(option, value);
}

static ls_status set(const ls_option *option, const char *value)
{
    ls_status status = LS_OK;
    switch (option->kind) {
    case LS_OPTION_HEADING:
    case LS_OPTION_FLAG:
        break;
    case LS_OPTION_INT:
    case LS_OPTION_SIZE:
    case LS_OPTION_U64:
        return set_whole(option, value);
    case LS_OPTION_REAL:
        return set_real(option, value);
    case LS_OPTION_CHOICE:
        return set_choice(option, value);
    case LS_OPTION_PAIR:
        return set_pair(option, value);
    case LS_OPTION_STRING:
        if (*value == '\0')
            LS_FAIL(LS_ERR_INPUT, "--%s: the value is empty, a %s is expected", option->name,
                    option->argument);
        *(const char **)option->value = value;
        break;
    }
exit:
    return status;
}

/* The option that `word` (after its dashes, up to `length`) names; NULL when there is none. */
static ls_option *find(ls_option *options, size_t count, const char *word, size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (options[i].kind != LS_OPTION_HEADING && strlen(options[i].name) == length &&
            memcmp(options[i].name, word, length) == 0)
            return &options[i];
    }
    return NULL;
}

/* Fails with the option that was probably meant: its name here, or in another program. */
static ls_status unknown(ls_option *options, size_t count, const char *word, size_t length)
{
    ls_status status = LS_OK;
    enum { MAX_NAMES = 256 };
    const char *names[MAX_NAMES];
    const ls_other_name *others[MAX_NAMES];
    size_t n_names = 0;
    for (size_t i = 0; i < count && n_names < MAX_NAMES; i++) {
        if (options[i].kind == LS_OPTION_HEADING) continue;
        others[n_names] = NULL;
        names[n_names++] = options[i].name;
    }
    for (const ls_other_name *o = ls_other_names; o->name != NULL && n_names < MAX_NAMES; o++) {
        if (find(options, count, o->option, strlen(o->option)) == NULL) continue;
        others[n_names] = o;
        names[n_names++] = o->name;
    }
    char name[64];
    size_t kept = length < sizeof name - 1 ? length : sizeof name - 1;
    memcpy(name, word, kept);
    name[kept] = '\0';
    const char *shown = ls_show_bytes(word, length);
    const char *near = kept == length ? ls_nearest(name, names, n_names) : NULL;
    for (size_t i = 0; near != NULL && i < n_names; i++) {
        if (names[i] != near) continue;
        if (others[i] == NULL)
            LS_FAIL(LS_ERR_INPUT, "--%s: unknown option; is --%s meant?", shown, near);
        LS_FAIL(LS_ERR_INPUT, "--%s: unknown option; here it is --%s%s%s", shown, others[i]->option,
                others[i]->note ? ", " : "", others[i]->note ? others[i]->note : "");
    }
    LS_FAIL(LS_ERR_INPUT, "--%s: unknown option; --help lists what there is", shown);
exit:
    return status;
}

/* Takes the option at argv[*i] and its value; *i moves to the last word taken. */
static ls_status take_option(ls_option *options, size_t count, int argc, const char *const *argv,
                             int *i)
{
    ls_status status = LS_OK;
    const char *word = argv[*i] + 2;
    const char *equals = strchr(word, '=');
    size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    ls_option *option = find(options, count, word, length);
    if (option == NULL) LS_TRY(unknown(options, count, word, length));
    if (option->given) LS_FAIL(LS_ERR_INPUT, "--%s: was given before; give it once", option->name);
    if (option->kind == LS_OPTION_FLAG) {
        if (equals != NULL)
            LS_FAIL(LS_ERR_INPUT, "--%s: takes no value, %s was found", option->name,
                    equals[1] == '\0' ? "\"\"" : ls_show(equals + 1));
        *(bool *)option->value = true;
        option->given = true;
        goto exit;
    }
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (equals == NULL && *i + 1 < argc && strncmp(argv[*i + 1], "--", 2) != 0) value = argv[++*i];
    if (value == NULL) {
        char allowed[LS_OPTION_TEXT];
        ls_option_allowed(option, allowed, sizeof allowed);
        LS_FAIL(LS_ERR_INPUT, "--%s: its value is missing, %s is expected", option->name, allowed);
    }
    LS_TRY(set(option, value));
    option->given = true;
exit:
    return status;
}

ls_status ls_options_parse(ls_option *options, size_t count, int argc, const char *const *argv,
                           ls_words *words)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    size_t max_words = words != NULL ? words->max : 0, n_words = 0;
    bool only_words = false;
    ls_thread_mode_set(&mode);
    for (size_t i = 0; i < count; i++) options[i].given = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!only_words && strcmp(word, "--") == 0) {
            only_words = true;
            continue;
        }
        if (!only_words && strncmp(word, "--", 2) == 0) {
            LS_TRY(take_option(options, count, argc, argv, &i));
            continue;
        }
        ls_option *help = strcmp(word, "-h") == 0 ? find(options, count, "help", 4) : NULL;
        if (!only_words && help != NULL && help->kind == LS_OPTION_FLAG) {
            *(bool *)help->value = true;
            help->given = true;
            continue;
        }
        if (!only_words && word[0] == '-' && word[1] != '\0')
            LS_FAIL(LS_ERR_INPUT,
                    "%s: unknown option; options begin with two dashes, --help lists "
                    "them",
                    ls_show(word));
        if (n_words == max_words && only_words && word[0] == '-')
            LS_FAIL(LS_ERR_INPUT,
                    "%s: no such word is expected here; after -- no word is an option: leave the "
                    "-- out",
                    ls_show(word));
        if (n_words == max_words)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: no such word is expected here; options begin with two dashes",
                    *word == '\0' ? "\"\"" : ls_show(word));
        if (*word == '\0')
            LS_FAIL(LS_ERR_INPUT, "%s: the word that was given is empty", words->names[n_words]);
        words->words[n_words++] = word;
    }
    /* --help asks for no words. */
    bool help = ls_options_given(options, count, "help");
    if (n_words < max_words && !help)
        LS_FAIL(LS_ERR_INPUT, "%s is missing%s%s", words->names[n_words],
                words->usage ? "; usage: " : "", words->usage ? words->usage : "");
exit:
    ls_thread_mode_restore(&mode);
    return status;
}

bool ls_options_given(const ls_option *options, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (options[i].kind != LS_OPTION_HEADING && strcmp(options[i].name, name) == 0)
            return options[i].given;
    }
    return false;
}
