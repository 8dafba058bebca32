#include "base/option_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/append.h"
#include "base/thread_mode.h"
#include "lockstep/base/show.h"

/* Appends to a text of `size` bytes; what does not fit is left out. */
LS_PRINTF(3, 4) static void append(char *buffer, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    ls_append_list(buffer, size, strlen(buffer), format, arguments);
    va_end(arguments);
}

static void append_whole_range(const ls_option *option, char *buffer, size_t size)
{
    if (option->max == UINT64_MAX && option->min == 0)
        append(buffer, size, "a whole number from 0 to 2^64 - 1");
    else
        append(buffer, size, "a whole number from %" PRId64 " to %" PRIu64, option->min,
               option->max);
}

void ls_option_allowed(const ls_option *option, char *buffer, size_t size)
{
    buffer[0] = '\0';
    switch (option->kind) {
    case LS_OPTION_HEADING:
    case LS_OPTION_FLAG:
        append(buffer, size, "no value");
        break;
    case LS_OPTION_INT:
    case LS_OPTION_SIZE:
    case LS_OPTION_U64:
        append_whole_range(option, buffer, size);
        break;
    case LS_OPTION_REAL:
        append(buffer, size, "a number %s %g %s %g", option->above_low ? "above" : "from",
               option->low, option->above_low ? "up to" : "to", option->high);
        break;
    case LS_OPTION_CHOICE:
        for (size_t i = 0; option->choices[i] != NULL; i++) {
            bool last = option->choices[i + 1] == NULL;
            append(buffer, size, "%s%s", i == 0 ? "" : last ? " or " : ", ", option->choices[i]);
        }
        break;
    case LS_OPTION_STRING:
        append(buffer, size, "a %s", option->argument);
        break;
    case LS_OPTION_PAIR:
        append(buffer, size, "two whole numbers from %" PRId64 " to %" PRIu64 ", as 2x3,",
               option->min, option->max);
        break;
    }
}

/* "--steps N" or "--gemm portable|openblas". */
static void write_left(const ls_option *option, char *buffer, size_t size)
{
    buffer[0] = '\0';
    append(buffer, size, "--%s", option->name);
    if (option->argument != NULL) append(buffer, size, " %s", option->argument);
    if (option->kind == LS_OPTION_CHOICE) {
        for (size_t i = 0; option->choices[i] != NULL; i++)
            append(buffer, size, "%s%s", i == 0 ? " " : "|", option->choices[i]);
    }
}

/* What the option's variable holds now; empty when there is nothing worth saying. */
static void write_default(const ls_option *option, char *buffer, size_t size)
{
    buffer[0] = '\0';
    switch (option->kind) {
    case LS_OPTION_INT:
        if (*(const int *)option->value >= option->min)
            append(buffer, size, "%d", *(const int *)option->value);
        break;
    case LS_OPTION_SIZE:
        if (*(const size_t *)option->value >= (size_t)option->min)
            append(buffer, size, "%zu", *(const size_t *)option->value);
        break;
    case LS_OPTION_U64:
        append(buffer, size, "%" PRIu64, *(const uint64_t *)option->value);
        break;
    case LS_OPTION_REAL:
        append(buffer, size, "%g", *(const double *)option->value);
        break;
    case LS_OPTION_CHOICE:
        append(buffer, size, "%s", option->choices[*(const int *)option->value]);
        break;
    case LS_OPTION_STRING:
        if (*(const char *const *)option->value != NULL)
            append(buffer, size, "%s", ls_show(*(const char *const *)option->value));
        break;
    case LS_OPTION_HEADING:
    case LS_OPTION_FLAG:
    case LS_OPTION_PAIR:
        break;
    }
}

/* Prints `text` from column `indent` on, broken at spaces before column 100. */
static void print_folded(FILE *file, const char *text, int indent)
{
    enum { WIDTH = 100 };
    int column = indent;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + (int)word > WIDTH) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', file);
            column++;
        }
        fwrite(text, 1, word, file);
        column += (int)word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', file);
}

void ls_options_help(FILE *file, const ls_option *options, size_t count)
{
    enum { INDENT = 30 };
    ls_thread_mode mode;
    ls_thread_mode_set(&mode);
    for (size_t i = 0; i < count; i++) {
        const ls_option *option = &options[i];
        if (option->kind == LS_OPTION_HEADING) {
            fprintf(file, "%s%s:\n", i == 0 ? "" : "\n", option->name);
            continue;
        }
        char left[LS_OPTION_TEXT], right[2 * LS_OPTION_TEXT], extra[LS_OPTION_TEXT];
        write_left(option, left, sizeof left);
        if (strlen(left) + 4 > INDENT)
            fprintf(file, "  %s\n%*s", left, INDENT, "");
        else
            fprintf(file, "  %-*s", INDENT - 2, left);
        right[0] = '\0';
        append(right, sizeof right, "%s", option->help);
        if (option->kind == LS_OPTION_REAL) {
            ls_option_allowed(option, extra, sizeof extra);
            append(right, sizeof right, "; %s", extra);
        }
        write_default(option, extra, sizeof extra);
        if (extra[0] != '\0') append(right, sizeof right, " (default %s)", extra);
        print_folded(file, right, INDENT);
    }
    ls_thread_mode_restore(&mode);
}
