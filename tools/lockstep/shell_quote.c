/* shell_quote.c - words as a POSIX shell reads them back. */
#include "shell_quote.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "base/allocate.h"

/* Bytes that mean themselves wherever they come in a word; a first '=' means something to zsh. */
static bool is_plain(const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "_-+=:,./@%";
    return *word != '\0' && *word != '=' && strspn(word, plain) == strlen(word);
}

/* Bytes of the character at `at` when it may be printed as it is, else 0. */
static size_t printable(const char *at)
{
    const unsigned char lead = (unsigned char)*at;
    const size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead == '\\' || lead == '\n') return 1; /* shown otherwise, but harmless in quotes */
    if (strnlen(at, length) < length) return 0;
    const char *shown = ls_show_bytes(at, length);
    return strlen(shown) == length && memcmp(shown, at, length) == 0 ? length : 0;
}

static void write_quoted(FILE *out, const char *word)
{
    enum { NOTHING, QUOTES, PRINTF } inside = NOTHING;
    static const char *const ends[] = {"", "'", "')\""};
    while (*word != '\0') {
        const size_t length = printable(word);
        if (length == 1 && *word == '\'') {
            fprintf(out, "%s\\'", ends[inside]);
            inside = NOTHING;
        } else if (length > 0) {
            if (inside != QUOTES) fprintf(out, "%s'", ends[inside]);
            inside = QUOTES;
            fwrite(word, 1, length, out);
        } else {
            if (inside != PRINTF) fprintf(out, "%s\"$(printf '", ends[inside]);
            inside = PRINTF;
            fprintf(out, "\\%03o", (unsigned)(unsigned char)*word);
        }
        word += length > 0 ? length : 1;
    }
    fputs(ends[inside], out);
}

ls_status shell_command_line(const char *name, int argc, const char *const *argv, char **ret_line)
{
    ls_status status = LS_OK;
    char *line = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&line, &size);
    if (out == NULL) LS_NO_MEMORY("the command line");
    fprintf(out, "lockstep %s", name);
    for (int i = 0; i < argc; i++) {
        fputc(' ', out);
        if (is_plain(argv[i]))
            fputs(argv[i], out);
        else if (*argv[i] == '\0')
            fputs("''", out);
        else
            write_quoted(out, argv[i]);
    }
    const bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(line);
        LS_NO_MEMORY("the command line");
    }
    *ret_line = line;
exit:
    return status;
}
