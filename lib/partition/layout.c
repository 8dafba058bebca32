#include "lockstep/partition/layout.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/partition/share.h"
#include "base/append.h"

ls_layout ls_layout_serial(void)
{
    ls_layout layout = {.tp = 1,
                        .cp = 1,
                        .dp = 1,
                        .pp = 1,
                        .virtual_stages = 1,
                        .micro_batches = 1,
                        .down = 1,
                        .across = 1,
                        .channels = 1};
    return layout;
}

int ls_layout_ranks(const ls_layout *layout)
{
    long long ranks = 1;
    const int degrees[] = {layout->tp,   layout->cp,     layout->dp,      layout->pp,
                           layout->down, layout->across, layout->channels};
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
        ranks *= degrees[i];
        if (degrees[i] < 1 || ranks > INT_MAX) return -1;
    }
    return (int)ranks;
}

ls_coordinates ls_layout_coordinates(const ls_layout *layout, int rank)
{
    ls_coordinates at;
    at.channel = rank % layout->channels;
    rank /= layout->channels;
    at.column = rank % layout->across;
    rank /= layout->across;
    at.row = rank % layout->down;
    rank /= layout->down;
    at.tp = rank % layout->tp;
    rank /= layout->tp;
    at.cp = rank % layout->cp;
    rank /= layout->cp;
    at.dp = rank % layout->dp;
    at.pp = rank / layout->dp;
    return at;
}

int ls_layout_rank(const ls_layout *layout, ls_coordinates at)
{
    int outer = at.tp + layout->tp * (at.cp + layout->cp * (at.dp + layout->dp * at.pp));
    return at.channel +
           layout->channels * (at.column + layout->across * (at.row + layout->down * outer));
}

int ls_layout_stages(const ls_layout *layout)
{
    return layout->pp * layout->virtual_stages;
}

void ls_layout_stage_bounds(const ls_layout *layout, size_t layers, size_t *ret_bounds)
{
    size_t stages = (size_t)ls_layout_stages(layout);
    ls_share_bounds(layers, stages, ret_bounds);
    for (size_t s = 0; layout->given && s < stages; s++)
        ret_bounds[s + 1] = ret_bounds[s] + (size_t)layout->stage_layers[s];
}

const char *ls_schedule_kind_name(ls_schedule_kind kind)
{
    static const char *const names[] = {"gpipe", "1f1b", "interleaved"};
    return names[kind];
}

const char *ls_recompute_name(ls_recompute recompute)
{
    static const char *const names[] = {"none", "selective", "layer", "stage"};
    return names[recompute];
}

/* A text that grows. */
typedef struct line {
    char text[LS_LAYOUT_TEXT];
    size_t used;
} line;

LS_PRINTF(3, 4) static void add(line *l, const char *separator, const char *format, ...)
{
    char part[96];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(part, sizeof part, format, arguments);
    va_end(arguments);
    l->used = ls_append(l->text, sizeof l->text, l->used, "%s%s", l->used ? separator : "", part);
}

void ls_layout_describe(const ls_layout *layout, char *buffer, size_t size)
{
    /* From the outermost axis to the innermost, as the literature says it: dp x pp x tp. */
    const struct {
        const char *name;
        int degree;
    } axes[] = {{"dp", layout->dp}, {"pp", layout->pp}, {"cp", layout->cp}, {"tp", layout->tp}};
    line l = {.used = 0};
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++)
        if (axes[i].degree != 1) add(&l, " x ", "%s %d", axes[i].name, axes[i].degree);
    if (layout->down != 1 || layout->across != 1)
        add(&l, " x ", "spatial %dx%d", layout->down, layout->across);
    if (layout->channels != 1) add(&l, " x ", "channel %d", layout->channels);
    if (layout->sp) add(&l, ", ", "sp");
    /* With one micro-batch every schedule is the naive one. */
    if (layout->micro_batches > 1 || layout->virtual_stages > 1)
        add(&l, ", ", "%s", ls_schedule_kind_name(layout->schedule));
    if (layout->virtual_stages > 1) add(&l, ", ", "%d virtual stages", layout->virtual_stages);
    if (layout->micro_batches > 1) add(&l, ", ", "%d micro-batches", layout->micro_batches);
    if (layout->recompute != LS_RECOMPUTE_NONE)
        add(&l, ", ", "recompute %s", ls_recompute_name(layout->recompute));
    for (int s = 0; s < layout->given; s++)
        add(&l, s ? "," : ", layers ", "%d", layout->stage_layers[s]);
    if (layout->overlap) add(&l, ", ", "overlap");
    for (int i = 0; i < layout->n_strategies; i++) {
        const ls_strategy *s = &layout->strategies[i];
        add(&l, ", ", "layer %d %dx%dx%dx%d", s->layer, s->grid.samples, s->grid.down,
            s->grid.across, s->grid.channels);
    }
    snprintf(buffer, size, "%s", l.used ? l.text : "one rank");
    /* Cut in the middle of a number it would name another layout. */
    if (l.used >= size && size > 3) snprintf(buffer + size - 4, 4, "...");
}
