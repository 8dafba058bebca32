/* candidate_foreign.c - the parameters in another program's tensor. */
#include <stdio.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "check/candidate_files.h"
#include "golden/golden_files.h"

/* One part of a tensor on its way. */
typedef struct taker {
    ls_candidate_files *files;
    const ls_golden *golden;
    const ls_candidate_file *file;
    const ls_tensor_info *info;
    const ls_candidate_meaning *meaning;
    const ls_foreign_part *part;
    const ls_param *param;
} taker;

static ls_status add(const taker *t, ls_candidate_piece *piece)
{
    ls_status status = LS_OK;
    char name[LS_TENSOR_NAME];
    snprintf(name, sizeof name, "%s.%s%s", t->meaning->prefix, t->param->name, t->meaning->use);
    const int node = ls_graph_find(t->golden->graph, name);
    if (node < 0)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s: the golden run's model has no %s",
                ls_show(t->file->path), ls_show(t->info->name), name);
    LS_TRY(ls_candidate_add(t->files, t->golden, t->meaning->step, node, piece));
exit:
    return status;
}

/* ---- whole tensors ---- */

/* Whether the parameter's values are the first of the tensor's, in the same order. */
static bool lies_plainly(const ls_foreign_tensor *tensor)
{
    const ls_foreign_part *part = &tensor->parts[0];
    return tensor->n_parts == 1 && !tensor->transposed && !part->paired && part->base == 0 &&
           part->width == part->stride;
}

static ls_status take_whole(const taker *t)
{
    ls_status status = LS_OK;
    const size_t bytes = ls_dtype_bytes(t->info->dtype);
    ls_candidate_piece piece = {.name = t->info->name,
                                .twin = t->meaning->foreign->twin,
                                .block = ls_candidate_block_of(t->file, t->info, -1)};
    for (int d = 0; d < t->param->n_dims; d++)
        piece.block.runs[d] = (ls_view_run){t->param->dims[d], 0, t->param->dims[d]};
    if (!lies_plainly(t->meaning->foreign)) {
        void *whole;
        LS_TRY(ls_candidate_own(t->files, ls_param_elements(t->param) * bytes, &whole));
        ls_foreign_whole_in(t->files->map, t->part->param, bytes, whole, t->info->data);
        piece.block.values = whole;
    }
    LS_TRY(add(t, &piece));
exit:
    return status;
}

/* ---- a rank's part ---- */

/* Where output o of the parameter is among the tensor's. */
static size_t place_of(const ls_foreign_part *part, size_t o)
{
    const size_t half = part->width / 2;
    size_t i = o % part->width;
    if (part->paired) i = i < half ? 2 * i : 2 * (i - half) + 1;
    return part->base + o / part->width * part->stride + i;
}

/* The outputs of the parameter that are in a run of the tensor's. */
static ls_status outputs_in(const taker *t, const ls_view_run *run, size_t outputs,
                            ls_view_run *ret_outputs)
{
    ls_status status = LS_OK;
    size_t first = outputs, last = 0, count = 0;
    for (size_t o = 0; o < outputs; o++) {
        const size_t place = place_of(t->part, o);
        if (place < run->first || place - run->first >= run->count) continue;
        if (count++ == 0) first = o;
        last = o;
    }
    if (count > 0 && last - first + 1 != count)
        LS_FAIL(LS_ERR_INPUT,
                "%s: tensor %s: its cut %zu:%zu goes through the middle of a head of %s, whose "
                "features stand in pairs",
                ls_show(t->file->path), ls_show(t->info->name), run->first, run->first + run->count,
                t->param->name);
    *ret_outputs = (ls_view_run){outputs, count ? first : 0, count};
exit:
    return status;
}

/* cut: the runs of the tensor's own dimensions that it holds. */
static ls_status take_block(const taker *t, const ls_view_run cut[2])
{
    ls_status status = LS_OK;
    const bool vector = t->param->n_dims == 1, turned = t->meaning->foreign->transposed;
    const size_t bytes = ls_dtype_bytes(t->info->dtype);
    const ls_view_run *by_output = vector || turned ? &cut[0] : &cut[1];
    ls_view_run in = vector ? (ls_view_run){1, 0, 1} : turned ? cut[1] : cut[0], out;
    ls_candidate_piece piece = {.name = t->info->name,
                                .twin = t->meaning->foreign->twin,
                                .block = ls_candidate_block_of(t->file, t->info, -1)};
    void *memory;
    LS_TRY(outputs_in(t, by_output, t->param->dims[vector ? 0 : 1], &out));
    /* Rows after the vocabulary are padding. */
    if (!vector) in.whole = t->param->dims[0];
    const size_t end = in.first + in.count < in.whole ? in.first + in.count : in.whole;
    if (out.count == 0 || in.first >= end) goto exit;
    in.count = end - in.first;
    LS_TRY(ls_candidate_own(t->files, in.count * out.count * bytes, &memory));
    for (size_t i = 0; i < in.count; i++)
        for (size_t o = 0; o < out.count; o++) {
            const size_t place = place_of(t->part, out.first + o) - by_output->first;
            const size_t from = vector   ? place
                                : turned ? place * cut[1].count + i
                                         : i * cut[1].count + place;
            memcpy((char *)memory + (i * out.count + o) * bytes,
                   (const char *)t->info->data + from * bytes, bytes);
        }
    piece.block.values = memory;
    piece.block.runs[0] = vector ? out : in;
    if (!vector) piece.block.runs[1] = out;
    LS_TRY(add(t, &piece));
exit:
    return status;
}

/* ---- the whole ---- */

/* The runs that the file says, against the tensor's shape. */
static ls_status read_cut(const ls_candidate_file *file, const ls_tensor_info *info,
                          const ls_foreign_tensor *tensor, const char *text, ls_view_run cut[2])
{
    ls_status status = LS_OK;
    char shape[LS_GOLDEN_SHAPE];
    for (int d = 0; d < tensor->n_dims; d++)
        cut[d] = (ls_view_run){d == 0 && tensor->more_rows ? SIZE_MAX : tensor->dims[d], 0, 0};
    LS_TRY(ls_candidate_cut(file, info, text, tensor->n_dims, cut));
    bool fits = info->n_dims == tensor->n_dims;
    for (int d = 0; fits && d < tensor->n_dims; d++) fits = info->dims[d] == cut[d].count;
    if (!fits)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s has the shape %s; its cut \"%s\" makes it another",
                ls_show(file->path), ls_show(info->name),
                ls_golden_shape(info->n_dims, info->dims, shape), ls_show(text));
exit:
    return status;
}

ls_status ls_candidate_take_foreign(ls_candidate_files *files, const ls_golden *golden,
                                    const ls_candidate_file *file, const ls_tensor_info *info,
                                    const ls_candidate_meaning *meaning)
{
    ls_status status = LS_OK;
    const ls_foreign_tensor *tensor = meaning->foreign;
    ls_view_run cut[2] = {{0, 0, 0}, {1, 0, 1}};
    const char *text;
    if (meaning->micro_batch >= 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: tensor %s: belongs to the whole step; no micro-batch has a part of it",
                ls_show(file->path), ls_show(info->name));
    LS_TRY(ls_candidate_cut_text(file, info->name, &text));
    if (text)
        LS_TRY(read_cut(file, info, tensor, text, cut));
    else
        LS_TRY(ls_foreign_check_shape(tensor, file->path, info->name, info->n_dims, info->dims));
    for (int p = 0; p < tensor->n_parts; p++) {
        const ls_foreign_part *part = &tensor->parts[p];
        const taker t = {
            files, golden, file, info, meaning, part, &golden->table->params[part->param]};
        LS_TRY(text ? take_block(&t, cut) : take_whole(&t));
    }
exit:
    return status;
}
