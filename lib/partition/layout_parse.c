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

/* What of a layout has been said. */
enum {
    SAID_DP = 1,
    SAID_PP = 2,
    SAID_CP = 4,
    SAID_TP = 8,
    SAID_SP = 16,
    SAID_SCHEDULE = 32,
    SAID_RECOMPUTE = 64,
    SAID_LAYERS = 128,
    SAID_MICRO_BATCHES = 256,
    SAID_VIRTUAL_STAGES = 512,
};

typedef struct reading {
    ls_layout layout;
    unsigned said;
    bool twice; /* something of it a second time */
} reading;

static void say(reading *r, unsigned what)
{
    r->twice = r->twice || (r->said & what) != 0;
    r->said |= what;
}

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

/* One axis of "dp 2 x pp 2 x sp", begun with its name. */
static bool read_axis(word name, const char **text, reading *r)
{
    ls_layout *layout = &r->layout;
    if (is(name, "sp")) {
        layout->sp = true;
        say(r, SAID_SP);
        return true;
    }
    int *degree = is(name, "dp")   ? &layout->dp
                  : is(name, "pp") ? &layout->pp
                  : is(name, "cp") ? &layout->cp
                  : is(name, "tp") ? &layout->tp
                                   : NULL;
    if (degree == NULL) return false;
    say(r, is(name, "dp")   ? SAID_DP
           : is(name, "pp") ? SAID_PP
           : is(name, "cp") ? SAID_CP
                            : SAID_TP);
    *degree = number_of(next_word(text));
    return *degree >= 1;
}

/* "dp 2 x pp 2": the words from `first` on. */
static bool read_axes(word first, const char **text, reading *r)
{
    for (;;) {
        if (!read_axis(first, text, r)) return false;
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
static bool read_part(word first, const char **text, reading *r)
{
    ls_layout *layout = &r->layout;
    if (is(first, "one")) return is(next_word(text), "rank");
    for (int kind = LS_GPIPE; kind <= LS_INTERLEAVED; kind++) {
        if (!is(first, ls_schedule_kind_name((ls_schedule_kind)kind))) continue;
        layout->schedule = (ls_schedule_kind)kind;
        say(r, SAID_SCHEDULE);
        return true;
    }
    if (is(first, "recompute")) {
        word which = next_word(text);
        for (int mode = LS_RECOMPUTE_NONE; mode <= LS_RECOMPUTE_STAGE; mode++) {
            if (!is(which, ls_recompute_name((ls_recompute)mode))) continue;
            layout->recompute = (ls_recompute)mode;
            say(r, SAID_RECOMPUTE);
            return true;
        }
        return false;
    }
    if (is(first, "layers")) {
        say(r, SAID_LAYERS);
        return !r->twice && read_partition(text, layout);
    }
    int number = number_of(first);
    if (number < 1) return read_axes(first, text, r);
    word what = next_word(text);
    if (is(what, "micro-batches") || is(what, "micro-batch")) {
        layout->micro_batches = number;
        say(r, SAID_MICRO_BATCHES);
        return true;
    }
    layout->virtual_stages = number;
    say(r, SAID_VIRTUAL_STAGES);
    word stages = next_word(text);
    return is(what, "virtual") && (is(stages, "stages") || is(stages, "stage"));
}

ls_status ls_layout_parse(const char *option, const char *text, ls_layout *ret_layout)
{
    ls_status status = LS_OK;
    reading r = {.layout = ls_layout_serial()};
    const char *at = text;
    for (;;) {
        const char *part = at + strspn(at, " ");
        bool good = read_part(next_word(&at), &at, &r);
        at += strspn(at, " ");
        if (r.twice)
            LS_FAIL(LS_ERR_INPUT, "%s: %s says something for the second time; say it once", option,
                    ls_show_bytes(part, strcspn(part, ",")));
        if (!good || (*at != ',' && *at != '\0'))
            LS_FAIL(LS_ERR_INPUT, "%s: %s is no part of a layout; one is written %s", option,
                    *part == '\0' ? "\"\"" : ls_show_bytes(part, strcspn(part, ",")), EXAMPLE);
        if (*at == '\0') break;
        at++;
    }
    *ret_layout = r.layout;
exit:
    return status;
}
