/* layout_parse.c - a layout from its description, as ls_layout_describe writes it. */
#include <string.h>

#include "lockstep/base/show.h"
#include "lockstep/partition/layout.h"

enum { HIGHEST = 1 << 20 };

#define EXAMPLE                                                                                    \
    "dp 2 x pp 2 x tp 2, sp, 1f1b, 4 micro-batches, or dp 2 x spatial 2x1 x channel 2, overlap"

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
    SAID_SPATIAL = 1024,
    SAID_CHANNEL = 2048,
    SAID_OVERLAP = 4096,
    SAID_DEGREES = SAID_DP | SAID_PP | SAID_CP | SAID_TP | SAID_SPATIAL | SAID_CHANNEL,
};

typedef struct reading {
    ls_layout layout;
    unsigned said;
    bool twice;   /* something of it a second time */
    word degrees; /* the part that says them, "dp 2 x tp 4"; length 0: none so far */
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

/* "2x1": n numbers of at least 1 with an x between, and nothing else. */
static bool read_grid(word w, int n, int *ret_numbers)
{
    for (int i = 0; i < n; i++) {
        const char *end = i + 1 < n ? memchr(w.at, 'x', w.length) : w.at + w.length;
        if (end == NULL) return false;
        ret_numbers[i] = number_of((word){w.at, (size_t)(end - w.at)});
        if (ret_numbers[i] < 1) return false;
        if (i + 1 < n) w = (word){end + 1, w.length - (size_t)(end + 1 - w.at)};
    }
    return true;
}

/* "layer 5 4x1x1x2": after the word. Layers come in ascending order. */
static bool read_strategy(const char **text, ls_layout *layout)
{
    int numbers[4];
    if (layout->n_strategies == LS_MAX_STRATEGIES) return false;
    ls_strategy *s = &layout->strategies[layout->n_strategies];
    s->layer = number_of(next_word(text));
    if (s->layer < 0 || (layout->n_strategies && s->layer <= s[-1].layer)) return false;
    if (!read_grid(next_word(text), 4, numbers)) return false;
    s->grid = (ls_layer_grid){numbers[0], numbers[1], numbers[2], numbers[3]};
    layout->n_strategies++;
    return true;
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
    if (is(name, "spatial")) {
        int numbers[2];
        say(r, SAID_SPATIAL);
        if (!read_grid(next_word(text), 2, numbers)) return false;
        layout->down = numbers[0];
        layout->across = numbers[1];
        return true;
    }
    const struct {
        const char *name;
        int *degree;
        unsigned said;
    } axes[] = {{"dp", &layout->dp, SAID_DP},
                {"pp", &layout->pp, SAID_PP},
                {"cp", &layout->cp, SAID_CP},
                {"tp", &layout->tp, SAID_TP},
                {"channel", &layout->channels, SAID_CHANNEL}};
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        if (!is(name, axes[i].name)) continue;
        say(r, axes[i].said);
        *axes[i].degree = number_of(next_word(text));
        return *axes[i].degree >= 1;
    }
    return false;
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

/* "layers 3,1": after the word. A comma with a number after it goes on with the list. */
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
    if (is(first, "layer")) return read_strategy(text, layout);
    if (is(first, "overlap")) {
        layout->overlap = true;
        say(r, SAID_OVERLAP);
        return true;
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
        const unsigned before = r.said & SAID_DEGREES;
        bool good = read_part(next_word(&at), &at, &r);
        const word said = {part, (size_t)(at - part)};
        const bool degrees = (r.said & SAID_DEGREES) != before;
        at += strspn(at, " ");
        if (r.twice)
            LS_FAIL(LS_ERR_INPUT, "%s: %s says something for the second time; say it once", option,
                    ls_show_bytes(part, strcspn(part, ",")));
        if (good && degrees && before != 0)
            LS_FAIL(
                LS_ERR_INPUT, "%s: %s after a comma; write %s x %s for one layout, %s; %s for two",
                option, ls_show_bytes(said.at, said.length),
                ls_show_bytes(r.degrees.at, r.degrees.length), ls_show_bytes(said.at, said.length),
                ls_show_bytes(r.degrees.at, r.degrees.length), ls_show_bytes(said.at, said.length));
        if (degrees) r.degrees = said;
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
