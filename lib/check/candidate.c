/* candidate.c - a candidate opened: its files, its names, its blocks, put together. */
#include "check/candidate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "base/allocate.h"
#include "check/candidate_files.h"
#include "golden/golden_files.h"

static ls_status take_own(ls_candidate_files *files, const ls_golden *golden,
                          const ls_candidate_file *file, const ls_tensor_info *info,
                          const ls_candidate_meaning *meaning)
{
    ls_status status = LS_OK;
    ls_candidate_piece piece = {.name = info->name,
                                .block = ls_candidate_block_of(file, info, meaning->micro_batch)};
    LS_TRY(ls_candidate_runs(files, golden, file, info, meaning, piece.block.runs));
    LS_TRY(ls_candidate_add(files, golden, meaning->step, meaning->node, &piece));
exit:
    return status;
}

static ls_status take(ls_candidate_files *files, const ls_golden *golden,
                      const ls_candidate_file *file, const ls_tensor_info *info)
{
    ls_status status = LS_OK;
    ls_candidate_meaning meaning;
    LS_TRY(ls_candidate_understand(files, golden, file, info, &meaning));
    if (meaning.ignored) {
        files->ignored++;
        goto exit;
    }
    if (info->dtype == LS_I32 || info->dtype == LS_I64 || info->dtype == LS_U8)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s is %s; must be F32, F64, F16 or BF16",
                ls_show(file->path), ls_show(info->name), ls_dtype_name(info->dtype));
    if (meaning.node >= 0)
        LS_TRY(take_own(files, golden, file, info, &meaning));
    else
        LS_TRY(ls_candidate_take_foreign(files, golden, file, info, &meaning));
exit:
    return status;
}

/* ---- tensors ---- */

static int compare_pieces(const void *left, const void *right)
{
    const ls_candidate_piece *a = left, *b = right;
    const ls_candidate_block *x = &a->block, *y = &b->block;
    if (a->golden != b->golden) return a->golden < b->golden ? -1 : 1;
    if (a->twin != b->twin) return a->twin ? 1 : -1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->micro_batch != y->micro_batch) return x->micro_batch < y->micro_batch ? -1 : 1;
    const int files = strcmp(x->file, y->file);
    return files ? files : strcmp(a->name, b->name);
}

/* A tied head that is next to its embedding must be it, and says nothing more; parts of it that
 * ranks have are not compared. *count: pieces of one golden tensor, twins last; those that stay. */
static ls_status leave_twins(ls_candidate_files *files, const ls_golden *golden,
                             const ls_candidate_piece *pieces, size_t *count)
{
    ls_status status = LS_OK;
    const ls_golden_tensor *of = &golden->tensors[pieces->golden];
    const ls_graph_node *node = &golden->graph->nodes[of->node];
    const ls_candidate_block *first = &pieces[0].block;
    size_t own = 0;
    while (own < *count && !pieces[own].twin) own++;
    if (own == 0 || own == *count) goto exit;
    for (size_t i = own; i < *count; i++) {
        const ls_candidate_block *block = &pieces[i].block;
        if (!ls_candidate_whole(node, block) || !ls_candidate_whole(node, first)) continue;
        if (block->dtype != first->dtype ||
            memcmp(block->values, first->values, of->count * ls_dtype_bytes(first->dtype)) != 0)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: tensor %s is not the same as %s, which it is tied to in this model",
                    ls_show(block->file), ls_show(pieces[i].name), ls_show(pieces[0].name));
    }
    files->ignored += *count - own;
    *count = own;
exit:
    return status;
}

static ls_status put_together(ls_candidate *candidate, const ls_golden *golden)
{
    ls_status status = LS_OK;
    ls_candidate_files *files = candidate->files;
    if (files->n_pieces == 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: none of its %zu tensors is one that the golden directory has; names are "
                "\"stepN/NAME\" as its manifest lists them",
                ls_show(files->path), files->ignored);
    qsort(files->pieces, files->n_pieces, sizeof *files->pieces, compare_pieces);
    LS_NEW(files->blocks, files->n_pieces);
    LS_NEW(candidate->tensors, files->n_pieces);
    for (size_t i = 0; i < files->n_pieces; i++) files->blocks[i] = files->pieces[i].block;
    for (size_t i = 0, end; i < files->n_pieces; i = end) {
        for (end = i;
             end < files->n_pieces && files->pieces[end].golden == files->pieces[i].golden;)
            end++;
        size_t count = end - i;
        LS_TRY(leave_twins(files, golden, &files->pieces[i], &count));
        LS_TRY(ls_candidate_assemble(files, golden, &files->pieces[i], &files->blocks[i], count,
                                     &candidate->tensors[candidate->count]));
        candidate->count++;
    }
exit:
    return status;
}

/* ---- the whole ---- */

static ls_status open_map(ls_candidate_files *files, const ls_golden *golden, const char *map)
{
    ls_status status = LS_OK;
    ls_names names;
    char label[64];
    LS_TRY(ls_names_parse("--map", map, &golden->run.config, &names));
    if (names == LS_NAMES_OWN) goto exit;
    snprintf(label, sizeof label, "--map %s", ls_names_option(names));
    LS_TRY(ls_foreign_map_create(&files->map, golden->table, names, label));
exit:
    return status;
}

ls_status ls_candidate_open(ls_candidate **ret_candidate, const ls_golden *golden, const char *path,
                            const char *map)
{
    ls_status status = LS_OK;
    ls_candidate *candidate = NULL;
    LS_NEW(candidate, 1);
    LS_NEW(candidate->files, 1);
    ls_candidate_files *files = candidate->files;
    if (map) LS_TRY(open_map(files, golden, map));
    LS_TRY(ls_candidate_files_open(files, golden, path));
    candidate->path = files->path;
    for (size_t f = 0; f < files->count; f++)
        for (size_t i = 0; i < ls_safetensors_count(files->files[f].file); i++)
            LS_TRY(
                take(files, golden, &files->files[f], ls_safetensors_at(files->files[f].file, i)));
    LS_TRY(put_together(candidate, golden));
    candidate->has_layout = files->has_layout;
    candidate->layout = files->layout;
    candidate->ignored = files->ignored;
    *ret_candidate = candidate;
    candidate = NULL;
exit:
    ls_candidate_close(&candidate);
    return status;
}

void ls_candidate_close(ls_candidate **candidate)
{
    if (!*candidate) return;
    if ((*candidate)->files) {
        ls_candidate_files_close((*candidate)->files);
        free((*candidate)->files);
    }
    free((*candidate)->tensors);
    free(*candidate);
    *candidate = NULL;
}

const ls_candidate_tensor *ls_candidate_find(const ls_candidate *candidate, uint64_t step, int node)
{
    /* In the golden directory's order: sorted by step, then node. */
    size_t low = 0, high = candidate->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const ls_candidate_tensor *tensor = &candidate->tensors[middle];
        const ls_golden_tensor *golden = tensor->golden;
        if (golden->step == step && golden->node == node) return tensor;
        if (golden->step < step || (golden->step == step && golden->node < node))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
