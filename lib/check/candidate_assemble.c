/* candidate_assemble.c - a whole tensor from the blocks of ranks and micro-batches. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "lockstep/base/widen.h"
#include "base/allocate.h"
#include "check/candidate_files.h"
#include "golden/golden_files.h"

/* One tensor being put together. */
typedef struct assembly {
    const ls_graph_node *node;
    const ls_candidate_block *blocks;
    size_t count, element_bytes;
    unsigned char *values;
    uint64_t *there; /* a bit per element that some block had */
    ls_candidate_tensor *tensor;
} assembly;

/* ---- blocks as rows ---- */

static size_t elements_of(const ls_graph_node *node, const ls_candidate_block *block)
{
    size_t n = 1;
    for (int d = 0; d < node->n_dims; d++) n *= block->runs[d].count;
    return n;
}

bool ls_candidate_whole(const ls_graph_node *node, const ls_candidate_block *block)
{
    for (int d = 0; d < node->n_dims; d++)
        if (block->runs[d].count != block->runs[d].whole) return false;
    return true;
}

/* How many of the last dimensions make one run of memory, and how long it is. */
static int row_dims(const ls_graph_node *node, const ls_candidate_block *block, size_t *ret_length)
{
    int d = node->n_dims;
    size_t length = 1;
    while (d > 0) {
        d--;
        length *= block->runs[d].count;
        if (block->runs[d].count != block->runs[d].whole) break;
    }
    *ret_length = length;
    return d;
}

/* The element at which row `row` of a block begins; outer: dimensions before the row's. */
static size_t row_start(const ls_graph_node *node, const ls_candidate_block *block, int outer,
                        size_t row)
{
    size_t start = 0, stride = 1;
    for (int d = node->n_dims - 1; d >= outer; d--) {
        start += block->runs[d].first * stride;
        stride *= block->runs[d].whole;
    }
    for (int d = outer - 1; d >= 0; d--) {
        start += (block->runs[d].first + row % block->runs[d].count) * stride;
        row /= block->runs[d].count;
        stride *= block->runs[d].whole;
    }
    return start;
}

static bool has_element(const ls_graph_node *node, const ls_candidate_block *block, size_t element)
{
    for (int d = node->n_dims - 1; d >= 0; d--) {
        const size_t at = element % node->dims[d];
        if (at < block->runs[d].first || at - block->runs[d].first >= block->runs[d].count)
            return false;
        element /= node->dims[d];
    }
    return true;
}

/* ---- bits ---- */

/* Bits first .. first + count of a word's 64 that lie in `word`. */
static uint64_t mask_of(size_t word, size_t first, size_t end)
{
    uint64_t mask = UINT64_MAX;
    if (first > word * 64) mask &= UINT64_MAX << (first - word * 64);
    if (end < (word + 1) * 64) mask &= UINT64_MAX >> ((word + 1) * 64 - end);
    return mask;
}

/* Whether all (`set`) or none (not `set`) of a run of elements are there. */
static bool all_alike(const uint64_t *there, size_t first, size_t count, bool set)
{
    const size_t end = first + count;
    for (size_t w = first / 64; w <= (end - 1) / 64; w++) {
        const uint64_t mask = mask_of(w, first, end);
        if ((there[w] & mask) != (set ? mask : 0)) return false;
    }
    return true;
}

static void mark(uint64_t *there, size_t first, size_t count)
{
    const size_t end = first + count;
    for (size_t w = first / 64; w <= (end - 1) / 64; w++) there[w] |= mask_of(w, first, end);
}

static bool is_nan(const unsigned char *value, ls_dtype dtype)
{
    double wide;
    ls_widen(LS_F64, &wide, dtype, value, 1);
    return wide != wide;
}

/* ---- replicas ---- */

/* Remembers that block b has another value of an element than the first that had it. */
static void differ(const assembly *a, size_t b, size_t element, const unsigned char *first_value,
                   const unsigned char *value)
{
    ls_candidate_tensor *tensor = a->tensor;
    size_t owner = 0;
    if (tensor->replicas_differ && tensor->replica_index <= element) return;
    while (!has_element(a->node, &a->blocks[owner], element)) owner++;
    tensor->replicas_differ = true;
    tensor->replicas[0] = a->blocks[owner].rank;
    tensor->replicas[1] = a->blocks[b].rank;
    tensor->replica_index = element;
    ls_widen(LS_F64, &tensor->replica_values[0], tensor->dtype, first_value, 1);
    ls_widen(LS_F64, &tensor->replica_values[1], tensor->dtype, value, 1);
}

/* Elements that are there already; any NaN is any other. */
static void compare(const assembly *a, size_t b, size_t first, size_t count,
                    const unsigned char *values)
{
    const size_t bytes = a->element_bytes;
    const unsigned char *ours = a->values + first * bytes;
    if (memcmp(ours, values, count * bytes) == 0) return;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *x = ours + i * bytes, *y = values + i * bytes;
        if (memcmp(x, y, bytes) == 0) continue;
        if (is_nan(x, a->tensor->dtype) && is_nan(y, a->tensor->dtype)) continue;
        differ(a, b, first + i, x, y);
        return; /* the first of a run is enough */
    }
}

/* ---- blocks ---- */

static void put_row(const assembly *a, size_t b, size_t first, size_t count,
                    const unsigned char *values)
{
    const size_t bytes = a->element_bytes;
    if (all_alike(a->there, first, count, false)) {
        memcpy(a->values + first * bytes, values, count * bytes);
        mark(a->there, first, count);
    } else if (all_alike(a->there, first, count, true)) {
        compare(a, b, first, count, values);
    } else {
        /* Some of each: halves, down to single elements. */
        const size_t half = count / 2;
        put_row(a, b, first, half, values);
        put_row(a, b, first + half, count - half, values + half * bytes);
    }
}

static void put_block(const assembly *a, size_t b)
{
    const ls_candidate_block *block = &a->blocks[b];
    const size_t elements = elements_of(a->node, block);
    size_t length;
    if (elements == 0) return;
    const int outer = row_dims(a->node, block, &length);
    for (size_t row = 0; row < elements / length; row++)
        put_row(a, b, row_start(a->node, block, outer, row), length,
                (const unsigned char *)block->values + row * length * a->element_bytes);
}

static ls_status check_holes(const assembly *a, const ls_candidate_piece *pieces)
{
    ls_status status = LS_OK;
    const size_t count = a->tensor->golden->count;
    char place[LS_GOLDEN_PLACE];
    size_t hole = 0, missing = 0;
    if (all_alike(a->there, 0, count, true)) goto exit;
    for (size_t i = count; i-- > 0;)
        if (!(a->there[i / 64] >> i % 64 & 1)) hole = i, missing++;
    LS_FAIL(LS_ERR_INPUT,
            "%s: tensor %s: element %s of the golden tensor, and %zu more, are in none of its %zu "
            "blocks",
            ls_show(pieces->block.file), ls_show(pieces->name),
            ls_golden_place(a->node, hole, place), missing - 1, a->count);
exit:
    return status;
}

static bool overlap(const ls_graph_node *node, const ls_candidate_block *x,
                    const ls_candidate_block *y)
{
    if (elements_of(node, x) == 0 || elements_of(node, y) == 0) return false;
    for (int d = 0; d < node->n_dims; d++)
        if (x->runs[d].first >= y->runs[d].first + y->runs[d].count ||
            y->runs[d].first >= x->runs[d].first + x->runs[d].count)
            return false;
    return true;
}

/* Ranks may hold the same; one rank, or what is of none, says nothing twice. Blocks are in order
 * of rank, those of none (-1) first. */
static ls_status check_overlaps(const assembly *a, const ls_candidate_piece *pieces)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < a->count; i++)
        for (size_t j = i + 1; j < a->count; j++) {
            const ls_candidate_block *x = &a->blocks[i], *y = &a->blocks[j];
            if (x->rank >= 0 && y->rank != x->rank) break;
            if (!overlap(a->node, x, y)) continue;
            if (strcmp(x->file, y->file) == 0)
                LS_FAIL(LS_ERR_INPUT, "%s: tensors %s and %s hold the same elements",
                        ls_show(x->file), ls_show(pieces[i].name), ls_show(pieces[j].name));
            LS_FAIL(LS_ERR_INPUT, "%s: tensor %s is in %s too%s", ls_show(x->file),
                    ls_show(pieces[i].name), ls_show(y->file),
                    strcmp(pieces[i].name, pieces[j].name) == 0 ? "" : ", under another name");
        }
exit:
    return status;
}

static ls_status check_dtypes(const assembly *a, const ls_candidate_piece *pieces)
{
    ls_status status = LS_OK;
    for (size_t i = 1; i < a->count; i++)
        if (a->blocks[i].dtype != a->blocks[0].dtype)
            LS_FAIL(LS_ERR_INPUT, "%s: tensor %s is %s; in %s it is %s", ls_show(a->blocks[i].file),
                    ls_show(pieces[i].name), ls_dtype_name(a->blocks[i].dtype),
                    ls_show(a->blocks[0].file), ls_dtype_name(a->blocks[0].dtype));
exit:
    return status;
}

static int files_of(const ls_candidate_block *blocks, size_t count)
{
    int files = 0;
    for (size_t i = 0; i < count; i++)
        files += i == 0 || strcmp(blocks[i].file, blocks[i - 1].file) != 0;
    return files;
}

ls_status ls_candidate_assemble(ls_candidate_files *files, const ls_golden *golden,
                                const ls_candidate_piece *pieces, const ls_candidate_block *blocks,
                                size_t count, ls_candidate_tensor *ret_tensor)
{
    ls_status status = LS_OK;
    const ls_golden_tensor *of = &golden->tensors[pieces->golden];
    ls_candidate_tensor tensor = {.name = pieces->name,
                                  .golden = of,
                                  .dtype = blocks->dtype,
                                  .values = blocks->values,
                                  .n_blocks = count,
                                  .blocks = blocks,
                                  .ranks = files_of(blocks, count)};
    assembly a = {&golden->graph->nodes[of->node],
                  blocks,
                  count,
                  ls_dtype_bytes(blocks->dtype),
                  NULL,
                  NULL,
                  &tensor};
    void *memory;
    bool whole = true;
    LS_TRY(check_dtypes(&a, pieces));
    LS_TRY(check_overlaps(&a, pieces));
    for (size_t b = 0; b < count; b++) whole = whole && ls_candidate_whole(a.node, &blocks[b]);
    if (whole) {
        /* Copies of one: nothing is to be moved, and of a single one nothing is read. */
        a.values = (unsigned char *)(uintptr_t)blocks->values;
        for (size_t b = 1; b < count; b++) compare(&a, b, 0, of->count, blocks[b].values);
    } else {
        LS_TRY(ls_candidate_own(files, of->count * a.element_bytes, &memory));
        a.values = memory;
        LS_NEW(a.there, of->count / 64 + 1);
        for (size_t b = 0; b < count; b++) put_block(&a, b);
        LS_TRY(check_holes(&a, pieces));
        tensor.values = memory;
    }
    *ret_tensor = tensor;
exit:
    free(a.there);
    return status;
}
