/* layout_parse.c - a layout from its description, as ls_layout_describe writes it. */
#include <string.h>

#include "lockstep/base/show.h"
#include "lockstep/partition/layout.h"

enum { HIGHEST = 1 << 20 };

#define EXAMPLE "dp 2 x pp 2 x tp 2, sp, 1f1b, 4 micro-batches"

/* A word of the text: from `at`, `length` long. */
typedef struct word {
    const char *at;
    size_t length;
} word;

/* The next word behind *text: up to a space or one of the signs that end a part. */
static word next_word(const char **text)
{
    word w;
    *text += strspn(*text, " ");
    w.at = *text;
    w.length = strcspn(*text, " ,");
    *text += w.length;
    return w;
}

static bool is(word w, const char *text)
{
    return strlen(text) == w.length && memcmp(w.at, text, w.length) == 0;
}

/* A whole number from 0 to HIGHEST; -1 when the word is none. */
static int number_of(word w)
{
    int number = 0;
    if (w.length == 0) return -1;
    for (size_t i = 0; i < w.length; i++) {
        if (w.at[i] < '0' || w.at[i] > '9') return -1;
        number = number * 10 + (w.at[i] - '0');
        if (number > HIGHEST) return -1;
    }
    return number;
}

/* "dp 2 x pp 2": the words from `first` on. */
static bool read_axes(word first, const char **text, ls_layout *layout)
{
    for (;;) {
        int *degree = is(first, "dp")   ? &layout->dp
                      : is(first, "pp") ? &layout->pp
                      : is(first, "cp") ? &layout->cp
                      : is(first, "tp") ? &layout->tp
                                        : NULL;
        if (degree == NULL) return false;
        *degree = number_of(next_word(text));
        if (*degree < 1) return false;
        const char *behind = *text;
        if (!is(next_word(&behind), "x")) return true;
        *text = behind;
        first = next_word(text);
    }
}

/* "layers 3,1": behind the word. A comma with a number behind it goes on with the list. */
static bool read_partition(const char **text, ls_layout *layout)
{
    for (;;) {
        int layers = number_of(next_word(text));
        if (layers < 0 || layout->given == LS_MAX_STAGES) return false;
        layout->stage_layers[layout->given++] = layers;
        if (**text != ',' || (*text)[1] < '0' || (*text)[1] > '9') return true;
        (*text)++;
    }
}

/* One part between commas, begun with the word `first`. */
static bool read_part(word first, const char **text, ls_layout *layout)
{
    if (is(first, "one")) return is(next_word(text), "rank");
    if (is(first, "sp")) {
        layout->sp = true;
        return true;
    }
    for (int kind = LS_GPIPE; kind <= LS_INTERLEAVED; kind++) {
        if (!is(first, ls_schedule_kind_name((ls_schedule_kind)kind))) continue;
        layout->schedule = (ls_schedule_kind)kind;
        return true;
    }
    if (is(first, "recompute")) {
        word which = next_word(text);
        for (int mode = LS_RECOMPUTE_NONE; mode <= LS_RECOMPUTE_STAGE; mode++) {
            if (!is(which, ls_recompute_name((ls_recompute)mode))) continue;
            layout->recompute = (ls_recompute)mode;
            return true;
        }
        return false;
    }
    if (is(first, "layers")) return layout->given == 0 && read_partition(text, layout);
    int number = number_of(first);
    if (number < 1) return read_axes(first, text, layout);
    word what = next_word(text);
    if (is(what, "micro-batches") || is(what, "micro-batch")) {
        layout->micro_batches = number;
        return true;
    }
    layout->virtual_stages = number;
    word stages = next_word(text);
    return is(what, "virtual") && (is(stages, "stages") || is(stages, "stage"));
}

ls_status ls_layout_parse(const char *option, const char *text, ls_layout *ret_layout)
{
    ls_status status = LS_OK;
    ls_layout layout = ls_layout_serial();
    const char *at = text;
    for (;;) {
        const char *part = at + strspn(at, " ");
        bool good = read_part(next_word(&at), &at, &layout);
        at += strspn(at, " ");
        if (!good || (*at != ',' && *at != '\0'))
            LS_FAIL(LS_ERR_INPUT, "%s: %s is no part of a layout; one is written %s", option,
                    *part == '\0' ? "\"\"" : ls_show_bytes(part, strcspn(part, ",")), EXAMPLE);
        if (*at == '\0') break;
        at++;
    }
    *ret_layout = layout;
exit:
    return status;
}
