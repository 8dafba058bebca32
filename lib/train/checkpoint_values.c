/* checkpoint_values.c - the numbers of a checkpoint: those that no run can continue from, and those
 * that are worth a warning. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "lockstep/base/show.h"
#include "lockstep/base/widen.h"
#include "train/checkpoint_file.h"

/* Goes through a tensor of real numbers in pieces: calls visit(context, number, value) until it is
 * false. */
static void each_value(const ls_tensor_info *info,
                       bool (*visit)(void *context, uint64_t number, double value), void *context)
{
    enum { PIECE = 1024 };
    double piece[PIECE];
    const size_t bytes = ls_dtype_bytes(info->dtype);
    for (uint64_t begin = 0; begin < info->elements; begin += PIECE) {
        const uint64_t left = info->elements - begin;
        const size_t count = left < PIECE ? (size_t)left : PIECE;
        ls_widen(LS_F64, piece, info->dtype, (const char *)info->data + begin * bytes, count);
        for (size_t i = 0; i < count; i++)
            if (!visit(context, begin + i, piece[i])) return;
    }
}

/* ---- second moments ---- */

typedef struct place {
    bool found;
    uint64_t number, count;
    double value;
} place;

static bool look_for_negative(void *context, uint64_t number, double value)
{
    place *p = context;
    if (value < 0) *p = (place){.found = true, .number = number, .value = value};
    return !p->found;
}

ls_status ls_checkpoint_check_values(const ls_checkpoint_file *file, const char *path)
{
    ls_status status = LS_OK;
    const int second = LS_CHECKPOINT_ARRAYS - 1;
    for (size_t t = 0; file->arrays > second && t < file->map->count; t++) {
        const ls_tensor_info *info = file->found[second][t];
        place negative = {.found = false};
        if (info) each_value(info, look_for_negative, &negative);
        if (negative.found)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: tensor %s: element %" PRIu64
                    " is %g; a second moment is a mean of squares, from 0 on",
                    ls_show(path), ls_show(info->name), negative.number, negative.value);
    }
exit:
    return status;
}

/* ---- NaN and infinity ---- */

static bool count_not_finite(void *context, uint64_t number, double value)
{
    place *p = context;
    if (isfinite(value)) return true;
    if (!p->found) p->number = number, p->value = value;
    p->found = true;
    p->count++;
    return true;
}

ls_status ls_checkpoint_not_finite(const char *path, char *ret_text, size_t room)
{
    ls_status status = LS_OK;
    ls_tensor_set *set = NULL;
    place all = {.found = false};
    const ls_tensor_info *first = NULL;
    ret_text[0] = '\0';
    LS_TRY(ls_tensor_set_open_most(&set, path, LS_CHECKPOINT_MOST_TENSORS));
    for (size_t i = 0; i < ls_tensor_set_count(set); i++) {
        const ls_tensor_info *info = ls_tensor_set_at(set, i, NULL);
        if (!ls_widens(info->dtype, LS_F64)) continue;
        each_value(info, count_not_finite, &all);
        if (all.found && !first) first = info;
    }
    if (first)
        snprintf(ret_text, room,
                 "%s: %" PRIu64 " of its numbers %s not finite, the first is element %" PRIu64
                 " of %s: %g",
                 ls_show(path), all.count, all.count == 1 ? "is" : "are", all.number,
                 ls_show(first->name), all.value);
exit:
    ls_tensor_set_close(&set);
    return status;
}
