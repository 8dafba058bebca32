/* check_precision.c - in which precision a candidate computed each of its tensors.
 *
 * A file in BF16 or F16 is a fact about that tensor. An F32 tensor whose every value is a number of
 * bf16 was rounded to it, if its numbers can tell: there are many, they have more bits together
 * than bf16 has (rounding noise is multiples of one power of two), the golden tensor is not like
 * that itself (a copy of weights given in bf16), it is not zero on paper, and larger than its own
 * rounding noise. That much is believed of the tensor. What depends on it is judged as coarse only
 * when most tensors of its kind are alike, stored in that format or rounded to it: a program that
 * computes in bf16 shows it in nearly all, and one tensor that was written in fewer bits says
 * nothing of how the others were computed. --computed overrules: nothing is guessed to be coarser
 * than it says.
 *
 * Of binary32 written as binary64 most tensors must show it: what is copied from weights given in
 * binary32 has their numbers in every precision. */
#include <math.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "check/check_parts.h"

/* So many numbers that all fit a coarser format are no accident. Of fewer it is believed when
 * others of the candidate have shown it. */
enum { TELLING = 32 };

bool ls_check_has_products(ls_operation_kind make)
{
    switch (make) {
    case LS_MAKE_LINEAR:
    case LS_MAKE_LINEAR_TURNED:
    case LS_MAKE_PROBABILITIES:
    case LS_MAKE_HEADS:
    case LS_MAKE_LOGITS:
    case LS_MAKE_POOLED:
    case LS_MAKE_CONV:
    case LS_MAKE_GRADIENT:
    case LS_MAKE_PARAM_GRADIENT:
        return true;
    default:
        return false;
    }
}

/* ---- what a tensor's own numbers say ---- */

/* Of candidate tensor i: also one that is not asked for is an operand. */
static ls_status look_at(void *context, size_t i)
{
    const struct ls_check *check = context;
    const ls_candidate_tensor *mine = &check->candidate->tensors[i];
    ls_check_place *place = ls_check_at(check, mine->golden->step, mine->golden->node);
    place->formats = ls_check_inspect(mine->dtype, mine->values, mine->golden->count);
    return LS_OK;
}

static int bits_of(ls_dtype format)
{
    return format == LS_BF16 ? 8 : 11;
}

/* Whether all values are numbers of a narrow format, as far as that goes. */
static bool fits(const ls_check_place *place, ls_dtype format)
{
    const ls_check_formats *of = &place->formats;
    return format == LS_BF16 ? of->bf16 : of->f16 && !of->bf16; /* 8 bits are numbers of both */
}

/* Whether that tells that they were rounded to it. */
static ls_status tells(const struct ls_check *check, const ls_check_place *place, ls_dtype format,
                       bool *ret_tells)
{
    ls_status status = LS_OK;
    const ls_golden_tensor *golden = place->golden;
    const ls_check_formats *mine = &place->formats;
    double *values = NULL;
    *ret_tells = false;
    if (!fits(place, format) || mine->telling < TELLING || mine->bits <= bits_of(format)) goto exit;
    if (ls_graph_zero_on_paper(check->graph, golden->node)) goto exit;
    const ls_check_formats theirs = ls_check_inspect(golden->dtype, golden->values, golden->count);
    if (format == LS_BF16 ? theirs.bf16 : theirs.f16) goto exit;
    LS_TRY(ls_check_widen(&values, golden->dtype, golden->values, golden->count));
    *ret_tells = !(isfinite(golden->bound) && ls_largest(values, golden->count) <= golden->bound);
exit:
    free(values);
    return status;
}

/* ---- the vote of a kind ---- */

/* Tensors that a program computes in one way. */
typedef enum kind { PRODUCTS, OTHERS, GRADIENTS, OF_PARAMS, UPDATE, KINDS } kind;

static kind kind_of(const ls_graph_node *node)
{
    if (node->phase == LS_GRAPH_UPDATE) return UPDATE;
    if (node->make == LS_MAKE_PARAM_GRADIENT) return OF_PARAMS;
    if (node->make == LS_MAKE_GRADIENT) return GRADIENTS;
    return ls_check_has_products(node->make) ? PRODUCTS : OTHERS;
}

static kind kind_at(const struct ls_check *check, const ls_check_place *place)
{
    return kind_of(&check->graph->nodes[place->golden->node]);
}

/* Three of four, and more than one. */
static bool agreed(size_t yes, size_t of)
{
    return yes >= 2 && 4 * yes >= 3 * of;
}

/* Takes every tensor that was rounded to `format` for that. */
static ls_status find_narrow(struct ls_check *check, ls_dtype format)
{
    ls_status status = LS_OK;
    const size_t places = check->steps * check->nodes;
    size_t yes[KINDS] = {0}, of[KINDS] = {0};
    bool shown = false, *telling = NULL;
    LS_NEW(telling, places);
    for (size_t i = 0; i < places; i++) {
        const ls_check_place *place = &check->places[i];
        if (!place->candidate) continue;
        const bool stored = place->candidate->dtype == format;
        if (!stored && place->candidate->dtype > LS_F64) continue;
        if (!stored) LS_TRY(tells(check, place, format, &telling[i]));
        const kind k = kind_at(check, place);
        const bool sizeable = place->golden->count >= TELLING;
        const bool other = !stored && !fits(place, format) && sizeable;
        yes[k] += telling[i] || (stored && sizeable);
        of[k] += telling[i] || (stored && sizeable) || other;
    }
    for (int k = 0; k < KINDS; k++) shown = shown || agreed(yes[k], of[k]);
    for (size_t i = 0; i < places; i++) {
        ls_check_place *place = &check->places[i];
        if (!place->candidate) continue;
        const bool stored = place->candidate->dtype == format;
        if (!stored && (!fits(place, format) || !(telling[i] || shown))) continue;
        const kind k = kind_at(check, place);
        place->format = format;
        if (agreed(yes[k], of[k])) place->passed = place->shared = format;
    }
exit:
    free(telling);
    return status;
}

static void find_binary32(struct ls_check *check)
{
    const size_t places = check->steps * check->nodes;
    size_t f32 = 0, f64 = 0; /* tensors of binary64 that are numbers of binary32, and others */
    for (size_t i = 0; i < places; i++) {
        const ls_check_place *place = &check->places[i];
        if (!place->candidate || place->format != LS_F64) continue;
        if (!place->formats.f32)
            f64++;
        else if (place->formats.telling >= TELLING)
            f32++;
    }
    for (size_t i = 0; i < places && f32 > f64; i++) {
        ls_check_place *place = &check->places[i];
        if (!place->formats.f32) continue;
        if (place->format == LS_F64) place->format = LS_F32;
        if (place->passed == LS_F64) place->passed = place->shared = LS_F32;
    }
}

ls_status ls_check_find_formats(struct ls_check *check)
{
    ls_status status = LS_OK;
    const ls_check_options *options = &check->options;
    for (size_t i = 0; i < check->steps * check->nodes; i++) {
        ls_check_place *place = &check->places[i];
        if (!place->candidate) continue;
        place->format = place->passed = place->shared = place->candidate->dtype;
        if (place->shared > LS_F64) place->shared = check->golden->run.dtype;
    }
    if (check->golden->kind == LS_GOLDEN_INTEGERS) goto exit; /* which are numbers of all formats */
    LS_TRY(ls_check_work(check, look_at, check->candidate->count, "looking at formats"));
    const ls_dtype narrow[] = {LS_F16, LS_BF16};
    for (int f = 0; f < 2; f++)
        if (!options->has_computed || !ls_check_is_coarser(narrow[f], options->computed))
            LS_TRY(find_narrow(check, narrow[f]));
    if (!options->has_computed || options->computed != LS_F64) find_binary32(check);
exit:
    return status;
}

/* ---- precision ---- */

static void coarsen(ls_check_place *place, ls_dtype to, const ls_check_place *source)
{
    if (place->known && !ls_check_is_coarser(to, place->precision)) return;
    place->precision = to;
    place->source = source;
    place->known = true;
}

static void take_precision(ls_check_place *place, const ls_check_place *from)
{
    if (from->known) coarsen(place, from->spread, from->source);
}

/* In order of execution: a tensor is no finer than what it is made of, wherever that was written.
 * The norm is finer than what it adds, and has a bound of its own; what its runs move by is
 * those of its addends. */
void ls_check_spread_precision(struct ls_check *check)
{
    for (size_t i = 0; i < check->steps * check->nodes; i++) {
        ls_check_place *place = &check->places[i];
        const int node = (int)(i % check->nodes);
        size_t count;
        place->known = false;
        const int *list = ls_check_inputs(check, node, &count);
        const size_t first = i - (size_t)node;
        for (size_t k = 0; k < count; k++)
            take_precision(place, &check->places[first + (size_t)list[k]]);
        list = ls_check_reads(check, node, &count);
        for (size_t k = 0; first > 0 && k < count; k++)
            take_precision(place,
                           &check->places[first - check->nodes + (size_t)check->updated[list[k]]]);
        if (place->candidate && check->options.has_computed)
            coarsen(place, check->options.computed, NULL);
        if (place->candidate) coarsen(place, place->shared, place);
        place->spread = place->precision;
        if (place->candidate) coarsen(place, place->format, place);
        if (!place->judged) continue;
        place->judged->precision = place->precision;
        place->judged->source = place->source ? place->source->golden : NULL;
        place->judged->assumed = place->source && place->source->candidate &&
                                 place->precision != place->source->candidate->dtype;
    }
}

/* ---- tensors that are written in a finer format than most ---- */

/* BF16 or F16 if more than half are in it, else F32. Programs that train in bf16 update weights of
 * f32: the update does not count. */
static ls_dtype format_of_most(const struct ls_check *check)
{
    size_t count[LS_CHECK_PRECISIONS] = {0}, all = 0;
    for (size_t i = 0; i < check->steps * check->nodes; i++) {
        const ls_check_place *place = &check->places[i];
        if (!place->candidate || kind_at(check, place) == UPDATE) continue;
        count[place->format]++;
        all++;
    }
    if (2 * count[LS_BF16] > all) return LS_BF16;
    return 2 * count[LS_F16] > all ? LS_F16 : LS_F32;
}

/* Whether an input of a place is missing, or as coarse as most tensors are. */
static bool reads_coarse(const struct ls_check *check, const ls_golden_tensor *golden,
                         ls_dtype mostly)
{
    size_t count;
    const int *list = ls_check_inputs(check, golden->node, &count);
    for (size_t k = 0; k < count; k++) {
        const ls_check_place *input = ls_check_at(check, golden->step, list[k]);
        if (!input->candidate || input->format == mostly) return true;
    }
    return false;
}

void ls_check_find_finer(struct ls_check *check)
{
    ls_judgement *judgement = check->judgement;
    judgement->mostly = LS_F32;
    if (check->options.has_computed || check->golden->kind == LS_GOLDEN_INTEGERS) return;
    judgement->mostly = format_of_most(check);
    for (size_t i = 0; judgement->mostly != LS_F32 && i < judgement->count; i++) {
        ls_judged *judged = &judgement->tensors[i];
        judged->finer = judged->verdict == LS_DIFFERENT_TENSOR &&
                        ls_check_is_coarser(judgement->mostly, judged->precision) &&
                        reads_coarse(check, judged->golden, judgement->mostly);
    }
}
