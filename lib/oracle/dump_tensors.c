/* dump_tensors.c - whole tensors, put together in the mapped files from what every rank shows.
 *
 * All sizes are known from the graph, so the files stand in full before the run begins, and a block
 * goes straight from the rank that shows it to its place. What was put where is kept as a list of
 * blocks per tensor: a block that meets an earlier one, of another rank, must agree with it to the
 * bit, and in the end the blocks must cover the tensor. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/digest.h"
#include "oracle/dump_parts.h"

/* A run of every dimension, first and behind the last. */
typedef struct box {
    size_t lo[LS_VIEW_DIMS], hi[LS_VIEW_DIMS];
} box;

typedef struct block {
    int rank;
    box at;
} block;

typedef struct tensor {
    dump_tensor t;
    char *place; /* what t.values is, to be written */
    block *blocks;
    size_t n_blocks, room;
    size_t covered; /* elements in blocks that are the first at their place ... */
    bool ragged;    /* ... unless one is there in part */
} tensor;

/* Locks are shared out: ranks seldom show tensors of one number at a time. */
enum { LOCKS = 61, WHOLE_FILES = 3 };

static const char *const file_names[WHOLE_FILES] = {
    [LS_GRAPH_FORWARD] = "forward.safetensors",
    [LS_GRAPH_BACKWARD] = "backward.safetensors",
    [LS_GRAPH_UPDATE] = "update.safetensors",
};

struct dump_tensors {
    ls_safetensors_writer *writers[WHOLE_FILES];
    const char *paths[WHOLE_FILES];
    size_t count;
    tensor *tensors; /* step after step, in the order of the graph */
    pthread_mutex_t locks[LOCKS];
    size_t n_locks;
};

const char *ls_dump_file_of(const ls_graph_node *node)
{
    return file_names[node->phase];
}

size_t ls_dump_tensor_count(const dump *d)
{
    return d->tensors ? d->tensors->count : 0;
}

dump_tensor *ls_dump_tensor(const dump *d, size_t i)
{
    return &d->tensors->tensors[i].t;
}

/* ---- files ---- */

static ls_status declare(const dump *d, tensor *t)
{
    char name[LS_TENSOR_NAME];
    uint64_t dims[LS_NODE_DIMS];
    const ls_graph_node *node = t->t.node;
    for (int i = 0; i < node->n_dims; i++) dims[i] = node->dims[i];
    ls_tensor_name_write(name, t->t.step, -1, node->name);
    return ls_safetensors_declare(d->tensors->writers[node->phase], name, t->t.dtype, node->n_dims,
                                  dims);
}

static ls_status declare_all(dump *d)
{
    ls_status status = LS_OK;
    dump_tensors *all = d->tensors;
    size_t in_file[WHOLE_FILES] = {0, 0, 0};
    for (size_t i = 0; i < all->count; i++) {
        tensor *t = &all->tensors[i];
        const size_t node = i % d->graph->count;
        t->t.node = &d->graph->nodes[node];
        t->t.step = d->first_step + i / d->graph->count;
        t->t.count = ls_graph_elements(d->graph, (int)node);
        t->t.dtype = t->t.node->make == LS_MAKE_GRADIENT_NORM ? LS_F64 : d->run.dtype;
        t->t.truth_error = t->t.bound = HUGE_VAL;
        LS_TRY(declare(d, t));
    }
    for (int f = 0; f < WHOLE_FILES; f++) LS_TRY(ls_safetensors_map(all->writers[f]));
    for (size_t i = 0; i < all->count; i++) {
        tensor *t = &all->tensors[i];
        const ls_graph_phase phase = t->t.node->phase;
        t->place = ls_safetensors_place(all->writers[phase], in_file[phase]++);
        t->t.values = t->place;
    }
exit:
    return status;
}

ls_status ls_dump_tensors_create(dump *d)
{
    ls_status status = LS_OK;
    dump_tensors *all = calloc(1, sizeof *all);
    if (!all) LS_FAIL(LS_ERR_MEMORY, "no memory for the list of tensors");
    d->tensors = all;
    all->count = d->steps * d->graph->count;
    all->tensors = calloc(all->count + 1, sizeof *all->tensors);
    if (!all->tensors) LS_FAIL(LS_ERR_MEMORY, "no memory for a list of %zu tensors", all->count);
    for (; all->n_locks < LOCKS; all->n_locks++)
        if (pthread_mutex_init(&all->locks[all->n_locks], NULL) != 0)
            LS_FAIL(LS_ERR_MEMORY, "no locks for the tensors");
    for (int f = 0; f < WHOLE_FILES; f++) {
        LS_TRY(ls_dump_path(d, file_names[f], &all->paths[f]));
        LS_TRY(ls_safetensors_create(&all->writers[f], all->paths[f]));
    }
    LS_TRY(declare_all(d));
exit:
    return status;
}

void ls_dump_tensors_destroy(dump *d)
{
    dump_tensors *all = d->tensors;
    if (!all) return;
    for (int f = 0; f < WHOLE_FILES; f++) ls_safetensors_destroy(&all->writers[f]);
    for (size_t i = 0; all->tensors && i < all->count; i++) free(all->tensors[i].blocks);
    for (size_t i = 0; i < all->n_locks; i++) pthread_mutex_destroy(&all->locks[i]);
    free(all->tensors);
    free(all);
    d->tensors = NULL;
}

ls_status ls_dump_tensors_commit(dump *d)
{
    ls_status status = LS_OK;
    for (int f = 0; f < WHOLE_FILES; f++) {
        LS_TRY(ls_safetensors_commit(d->tensors->writers[f]));
        LS_TRY(ls_dump_note(d, file_names[f], d->tensors->paths[f], false));
    }
exit:
    return status;
}

/* ---- boxes ---- */

static size_t volume(const tensor *t, const box *b)
{
    size_t n = 1;
    for (int i = 0; i < t->t.node->n_dims; i++) n *= b->hi[i] - b->lo[i];
    return n;
}

/* False when they do not meet. */
static bool intersect(const tensor *t, const box *a, const box *b, box *ret_both)
{
    for (int i = 0; i < t->t.node->n_dims; i++) {
        ret_both->lo[i] = a->lo[i] > b->lo[i] ? a->lo[i] : b->lo[i];
        ret_both->hi[i] = a->hi[i] < b->hi[i] ? a->hi[i] : b->hi[i];
        if (ret_both->lo[i] >= ret_both->hi[i]) return false;
    }
    return true;
}

/* Rows of a box: runs of the last dimension. */
static size_t rows_of(const tensor *t, const box *b, size_t *ret_length)
{
    const int n = t->t.node->n_dims;
    size_t rows = 1;
    for (int i = 0; i + 1 < n; i++) rows *= b->hi[i] - b->lo[i];
    *ret_length = n > 0 ? b->hi[n - 1] - b->lo[n - 1] : 1;
    return rows;
}

/* Where row `row` of a box begins: in the tensor, and in the view whose box is `outer`, as numbers
 * of elements. */
static void row_places(const tensor *t, const box *b, size_t row, const box *outer, size_t stride,
                       size_t *ret_whole, size_t *ret_view)
{
    const int n = t->t.node->n_dims;
    size_t whole = 0, view = 0, whole_step = 1, view_step = 1;
    if (n > 0) {
        whole = b->lo[n - 1];
        view = b->lo[n - 1] - (outer ? outer->lo[n - 1] : 0);
        whole_step = t->t.node->dims[n - 1];
        view_step = stride;
    }
    for (int i = n - 1; i-- > 0;) {
        const size_t extent = b->hi[i] - b->lo[i], at = b->lo[i] + row % extent;
        row /= extent;
        whole += at * whole_step;
        whole_step *= t->t.node->dims[i];
        if (!outer) continue;
        view += (at - outer->lo[i]) * view_step;
        view_step *= outer->hi[i] - outer->lo[i];
    }
    *ret_whole = whole;
    *ret_view = view;
}

/* ---- what ranks show ---- */

static double number_at(ls_dtype dtype, const char *values, size_t i)
{
    return dtype == LS_F64 ? ((const double *)(const void *)values)[i]
                           : (double)((const float *)(const void *)values)[i];
}

/* "[3, 0, 17]" */
static void show_index(const tensor *t, size_t place, char text[96])
{
    size_t index[LS_NODE_DIMS];
    int used = snprintf(text, 96, "[");
    for (int i = t->t.node->n_dims; i-- > 0;) {
        index[i] = place % t->t.node->dims[i];
        place /= t->t.node->dims[i];
    }
    for (int i = 0; i < t->t.node->n_dims; i++)
        used += snprintf(text + used, 96 - (size_t)used, "%s%zu", i ? ", " : "", index[i]);
    snprintf(text + used, 96 - (size_t)used, "]");
}

/* Elements that another rank showed before must be the same; any NaN is any other's equal. */
static ls_status compare_row(const tensor *t, size_t whole, const char *own, size_t length,
                             int rank, int other)
{
    ls_status status = LS_OK;
    const size_t bytes = ls_dtype_bytes(t->t.dtype);
    const char *there = t->place + whole * bytes;
    char name[LS_TENSOR_NAME], index[96];
    if (memcmp(there, own, length * bytes) == 0) goto exit;
    for (size_t i = 0; i < length; i++) {
        if (memcmp(there + i * bytes, own + i * bytes, bytes) == 0) continue;
        const double a = number_at(t->t.dtype, there, i), b = number_at(t->t.dtype, own, i);
        if (isnan(a) && isnan(b)) continue;
        ls_tensor_name_write(name, t->t.step, -1, t->t.node->name);
        show_index(t, whole + i, index);
        LS_FAIL(LS_DIFFERENT, "%s%s: %a on rank %d, %a on rank %d, which should hold the same",
                name, index, a, other, b, rank);
    }
exit:
    return status;
}

static ls_status compare_box(const tensor *t, const box *both, const box *outer,
                             const ls_view *view, int rank, int other)
{
    ls_status status = LS_OK;
    size_t length, whole, own;
    const size_t rows = rows_of(t, both, &length), bytes = ls_dtype_bytes(t->t.dtype);
    for (size_t r = 0; r < rows; r++) {
        row_places(t, both, r, outer, view->stride, &whole, &own);
        LS_TRY(
            compare_row(t, whole, (const char *)view->values + own * bytes, length, rank, other));
    }
exit:
    return status;
}

static void copy_box(tensor *t, const box *outer, const ls_view *view)
{
    size_t length, whole, own;
    const size_t rows = rows_of(t, outer, &length), bytes = ls_dtype_bytes(t->t.dtype);
    for (size_t r = 0; r < rows; r++) {
        row_places(t, outer, r, outer, view->stride, &whole, &own);
        memcpy(t->place + whole * bytes, (const char *)view->values + own * bytes, length * bytes);
    }
}

static ls_status remember(tensor *t, int rank, const box *at)
{
    ls_status status = LS_OK;
    if (t->n_blocks == t->room) {
        const size_t room = t->room ? 2 * t->room : 4;
        block *blocks = realloc(t->blocks, room * sizeof *blocks);
        if (!blocks) LS_FAIL(LS_ERR_MEMORY, "no memory for a list of %zu blocks", room);
        t->blocks = blocks;
        t->room = room;
    }
    t->blocks[t->n_blocks++] = (block){rank, *at};
exit:
    return status;
}

static ls_status put(tensor *t, int rank, const box *at, const ls_view *view)
{
    ls_status status = LS_OK;
    char name[LS_TENSOR_NAME];
    size_t met = 0; /* elements of this block in earlier ones, several times if in several */
    bool all_there = false;
    for (size_t i = 0; i < t->n_blocks; i++) {
        const block *before = &t->blocks[i];
        box both;
        if (!intersect(t, &before->at, at, &both)) continue;
        if (before->rank == rank) {
            ls_tensor_name_write(name, t->t.step, -1, t->t.node->name);
            LS_FAIL(LS_ERR_INTERNAL, "%s: rank %d shows an element a second time", name, rank);
        }
        LS_TRY(compare_box(t, &both, at, view, rank, before->rank));
        met += volume(t, &both);
        all_there |= volume(t, &both) == volume(t, at);
    }
    if (!all_there) {
        copy_box(t, at, view);
        t->ragged |= met > 0;
        t->covered += volume(t, at);
    }
    LS_TRY(remember(t, rank, at));
exit:
    return status;
}

/* The view must be a block of the tensor. */
static ls_status box_of(const tensor *t, const ls_view *view, box *ret_box)
{
    ls_status status = LS_OK;
    char name[LS_TENSOR_NAME];
    ls_tensor_name_write(name, t->t.step, -1, t->t.node->name);
    if (view->n_dims != t->t.node->n_dims || view->dtype != t->t.dtype)
        LS_FAIL(LS_ERR_INTERNAL, "%s: shown with %d dimensions of %s; it has %d of %s", name,
                view->n_dims, ls_dtype_name(view->dtype), t->t.node->n_dims,
                ls_dtype_name(t->t.dtype));
    for (int i = 0; i < view->n_dims; i++) {
        const ls_view_run *run = &view->dims[i];
        if (run->whole != t->t.node->dims[i] || run->first > run->whole ||
            run->count > run->whole - run->first)
            LS_FAIL(LS_ERR_INTERNAL, "%s: %zu from %zu on of dimension %d, which is %zu (here %zu)",
                    name, run->count, run->first, i, t->t.node->dims[i], run->whole);
        ret_box->lo[i] = run->first;
        ret_box->hi[i] = run->first + run->count;
    }
exit:
    return status;
}

ls_status ls_dump_tensors_take(dump *d, int rank, const ls_view *view)
{
    ls_status status = LS_OK;
    dump_tensors *all = d->tensors;
    box at = {{0}, {0}};
    if (view->partial) return LS_OK;
    const int node = ls_graph_find_view(d->graph, view);
    if (node < 0 || view->step < d->first_step || view->step >= d->first_step + d->steps)
        LS_FAIL(LS_ERR_INTERNAL, "a rank shows something that is no tensor of this run");
    const size_t i = (size_t)(view->step - d->first_step) * d->graph->count + (size_t)node;
    tensor *t = &all->tensors[i];
    LS_TRY(box_of(t, view, &at));
    if (volume(t, &at) == 0) goto exit;
    pthread_mutex_lock(&all->locks[i % LOCKS]);
    status = put(t, rank, &at, view);
    pthread_mutex_unlock(&all->locks[i % LOCKS]);
exit:
    return status;
}

/* ---- the whole ---- */

/* Where blocks overlap in part: element by element. */
static ls_status count_covered(tensor *t)
{
    ls_status status = LS_OK;
    unsigned char *seen = calloc(t->t.count, 1);
    if (!seen) LS_FAIL(LS_ERR_MEMORY, "no memory to look over %zu elements", t->t.count);
    for (size_t i = 0; i < t->n_blocks; i++) {
        size_t length, whole, own;
        const box *at = &t->blocks[i].at;
        const size_t rows = rows_of(t, at, &length);
        for (size_t r = 0; r < rows; r++) {
            row_places(t, at, r, NULL, 0, &whole, &own);
            memset(seen + whole, 1, length);
        }
    }
    t->covered = 0;
    for (size_t i = 0; i < t->t.count; i++) t->covered += seen[i];
exit:
    free(seen);
    return status;
}

/* Without a target there is no backward pass, and every gradient is +0: what the file has. */
static bool has_targets(const dump *d, uint64_t step)
{
    const ls_batch *batch = &d->given[step - d->first_step];
    for (size_t i = 0; i < batch->B * batch->S; i++)
        if (batch->targets[i] != LS_IGNORE) return true;
    for (size_t b = 0; d->run.config.sentence_order && batch->order && b < batch->B; b++)
        if (batch->order[b] != LS_IGNORE) return true;
    return false;
}

ls_status ls_dump_tensors_check(dump *d)
{
    ls_status status = LS_OK;
    char name[LS_TENSOR_NAME];
    for (size_t i = 0; i < d->tensors->count; i++) {
        tensor *t = &d->tensors->tensors[i];
        if (t->ragged) LS_TRY(count_covered(t));
        if (t->covered == t->t.count) continue;
        if (t->t.node->make == LS_MAKE_GRADIENT && !has_targets(d, t->t.step)) continue;
        ls_tensor_name_write(name, t->t.step, -1, t->t.node->name);
        LS_FAIL(LS_ERR_INTERNAL, "%s: ranks show %zu of its %zu elements", name, t->covered,
                t->t.count);
    }
exit:
    return status;
}

ls_status ls_dump_tensors_digest(dump *d, char ret_digest[65])
{
    ls_status status = LS_OK;
    ls_digest *all = NULL, *one = NULL;
    LS_TRY(ls_digest_create(&all));
    for (size_t i = 0; i < d->tensors->count; i++) {
        dump_tensor *t = &d->tensors->tensors[i].t;
        LS_TRY(ls_dump_advance(d, i, d->tensors->count, "digests"));
        LS_TRY(ls_digest_create(&one));
        LS_TRY(ls_digest_add(one, t->dtype, t->values, t->count));
        LS_TRY(ls_digest_finish(one, t->sha256));
        ls_digest_destroy(&one);
        LS_TRY(ls_digest_add(all, LS_U8, t->sha256, 64));
    }
    LS_TRY(ls_digest_finish(all, ret_digest));
exit:
    ls_digest_destroy(&one);
    ls_digest_destroy(&all);
    return status;
}
