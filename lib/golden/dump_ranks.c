/* dump_ranks.c - what every rank held, a file for each.
 *
 * How much a rank will show is known when it is over, and a file's header is before its data:
 * so all ranks write what they show into one nameless file, each at a place of its own, and keep a
 * list of what lies where. Afterwards each rank's list becomes its file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/trace_lane.h"
#include "golden/dump_parts.h"
#include "golden/dump_spool.h"
#include "base/allocate.h"
#include "base/append.h"

/* One view. */
typedef struct piece {
    char name[LS_TENSOR_NAME];
    ls_comm_kind comm;
    size_t lo, hi, leaves, rows, columns; /* of a part of a sum */
    int part;       /* number among those that cross ranks so and have this name */
    size_t events;  /* that the rank's trace had by then */
    size_t skipped; /* calls between those and the one that it belongs to */
    int n_dims;
    ls_view_run dims[LS_VIEW_DIMS];
    ls_dtype dtype;
    uint64_t offset; /* in the spool; row-major without padding */
} piece;

typedef struct rank_list {
    piece *pieces; /* in the order in which they were shown */
    size_t count, room;
} rank_list;

struct dump_ranks {
    dump_spool *spool;
    int ranks;
    rank_list *lists;
};

/* ---- the lists ---- */

ls_status ls_dump_ranks_create(dump *d)
{
    ls_status status = LS_OK;
    const char *path;
    dump_ranks *all = NULL;
    LS_NEW(all, 1);
    d->ranks = all;
    all->ranks = ls_layout_ranks(&d->run.layout);
    LS_NEW(all->lists, (size_t)all->ranks);
    LS_TRY(ls_dump_path(d, "spool", &path));
    LS_TRY(ls_dump_spool_create(&all->spool, path));
exit:
    return status;
}

void ls_dump_ranks_destroy(dump *d)
{
    dump_ranks *all = d->ranks;
    if (!all) return;
    ls_dump_spool_destroy(&all->spool);
    for (int r = 0; all->lists && r < all->ranks; r++) free(all->lists[r].pieces);
    free(all->lists);
    free(all);
    d->ranks = NULL;
}

static size_t rows_of(const piece *p, size_t *ret_length)
{
    size_t rows = 1;
    for (int i = 0; i + 1 < p->n_dims; i++) rows *= p->dims[i].count;
    *ret_length = p->n_dims > 0 ? p->dims[p->n_dims - 1].count : 1;
    return rows;
}

/* ---- what ranks show ---- */

static ls_status new_piece(rank_list *list, piece **ret_piece)
{
    ls_status status = LS_OK;
    LS_GROW(list->pieces, list->count, list->room);
    *ret_piece = &list->pieces[list->count];
    memset(*ret_piece, 0, sizeof **ret_piece);
exit:
    return status;
}

ls_status ls_dump_ranks_take(dump *d, const ls_rank *who, const ls_view *view)
{
    ls_status status = LS_OK;
    const int rank = ls_rank_index(who);
    rank_list *list = &d->ranks->lists[rank]; /* this thread's own */
    ls_view whole = *view;
    piece *p = NULL;
    size_t length;
    for (int i = 0; i < view->n_dims; i++)
        if (view->dims[i].count == 0) goto exit;
    LS_TRY(new_piece(list, &p));
    whole.comm = LS_COMM_NONE; /* what it is a part of */
    ls_dump_name_view(d, rank, &whole, p->name);
    p->n_dims = view->n_dims;
    memcpy(p->dims, view->dims, sizeof p->dims);
    p->dtype = view->dtype;
    p->comm = view->comm;
    p->lo = view->lo;
    p->hi = view->hi;
    p->leaves = view->leaves;
    p->rows = view->rows;
    p->columns = view->columns;
    p->skipped = view->skipped;
    p->events = ls_trace_length(who);
    const size_t rows = rows_of(p, &length), width = ls_dtype_bytes(p->dtype);
    LS_TRY(ls_dump_spool_append(d->ranks->spool, view->values, rows, length * width,
                                view->stride * width, &p->offset));
    list->count++;
exit:
    return status;
}

/* ---- a rank's file ---- */

/* Pieces of one tensor: heads of the probabilities come one by one. The whole of them is a box. */
typedef struct held {
    const piece *first;
    size_t lo[LS_VIEW_DIMS], hi[LS_VIEW_DIMS];
    size_t elements; /* in its pieces */
    char name[LS_DUMP_COMM_NAME];
    char *place;
} held;

typedef struct rank_file {
    const rank_list *list;
    held *tensors;
    size_t count;
    size_t *of; /* [pieces]: the tensor that each belongs to */
} rank_file;

static size_t piece_elements(const piece *p)
{
    size_t length;
    return rows_of(p, &length) * length;
}

static bool same_tensor(const piece *a, const piece *b)
{
    return a->part == b->part && a->comm == b->comm && strcmp(a->name, b->name) == 0;
}

/* By name, then in the order shown. */
static int by_name(const void *a, const void *b)
{
    const piece *x = *(const piece *const *)a, *y = *(const piece *const *)b;
    const int by = strcmp(x->name, y->name);
    if (by != 0) return by;
    if (x->comm != y->comm) return x->comm < y->comm ? -1 : 1;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* "step0/mb1/layers.0.attention.0.partial" */
static void whole_name(const piece *p, char name[LS_DUMP_COMM_NAME])
{
    if (p->comm == LS_COMM_NONE)
        snprintf(name, LS_DUMP_COMM_NAME, "%s", p->name);
    else
        snprintf(name, LS_DUMP_COMM_NAME, "%s.%d.%s", p->name, p->part, ls_comm_kind_name(p->comm));
}

/* Numbers what crosses ranks under one name in one way. */
static ls_status number_parts(const rank_list *list)
{
    ls_status status = LS_OK;
    piece **sorted = NULL;
    LS_ROOM(sorted, list->count + 1);
    for (size_t i = 0; i < list->count; i++) sorted[i] = &list->pieces[i];
    qsort(sorted, list->count, sizeof *sorted, by_name);
    for (size_t i = 1; i < list->count; i++) {
        const piece *before = sorted[i - 1];
        if (sorted[i]->comm != LS_COMM_NONE && sorted[i]->comm == before->comm &&
            strcmp(sorted[i]->name, before->name) == 0)
            sorted[i]->part = before->part + 1;
    }
exit:
    free(sorted);
    return status;
}

ls_status ls_dump_ranks_number(dump *d)
{
    ls_status status = LS_OK;
    for (int r = 0; d->ranks && r < d->ranks->ranks; r++) LS_TRY(number_parts(&d->ranks->lists[r]));
exit:
    return status;
}

/* ---- which call a piece belongs to ---- */

static bool is_call(const ls_event *e)
{
    return e->kind != LS_EVENT_COMPUTE && e->kind != LS_EVENT_SEND_END;
}

static bool goes_in(ls_comm_kind comm)
{
    return comm == LS_COMM_PARTIAL || comm == LS_COMM_SHARE || comm == LS_COMM_SENT;
}

/* The first call after a piece that goes in; the last one before a piece that came out; or the
 * first and last but `skipped`. Of a message each way at once the one that came is the last that is
 * no sending. */
static const ls_event *call_of(const piece *p, const ls_event *events, size_t n)
{
    size_t skipped = p->skipped;
    if (goes_in(p->comm)) {
        for (size_t i = p->events; i < n; i++)
            if (is_call(&events[i]) && skipped-- == 0) return &events[i];
    } else {
        for (size_t i = p->events; i-- > 0;)
            if (is_call(&events[i]) && skipped-- == 0) return &events[i];
    }
    return NULL;
}

void ls_dump_ranks_of_call(const dump *d, int rank, const ls_event *call, const ls_event *events,
                           size_t n_events, size_t *at, dump_crossing *say, void *context)
{
    const rank_list *list = &d->ranks->lists[rank];
    char name[LS_DUMP_COMM_NAME];
    for (; *at < list->count; (*at)++) {
        const piece *p = &list->pieces[*at];
        const ls_event *of = p->comm == LS_COMM_NONE ? NULL : call_of(p, events, n_events);
        if (of && of > call) return;
        if (of != call) continue;
        whole_name(p, name);
        say(context, goes_in(p->comm), name);
    }
}

static void take_in(held *tensor, const piece *p)
{
    for (int i = 0; i < p->n_dims; i++) {
        const size_t lo = p->dims[i].first, hi = lo + p->dims[i].count;
        if (tensor->elements == 0 || lo < tensor->lo[i]) tensor->lo[i] = lo;
        if (tensor->elements == 0 || hi > tensor->hi[i]) tensor->hi[i] = hi;
    }
    tensor->elements += piece_elements(p);
}

static ls_status check_box(const held *tensor)
{
    ls_status status = LS_OK;
    size_t n = 1;
    for (int i = 0; i < tensor->first->n_dims; i++) n *= tensor->hi[i] - tensor->lo[i];
    if (n != tensor->elements)
        LS_FAIL(LS_ERR_INTERNAL, "%s: a rank shows %zu elements of a block of %zu", tensor->name,
                tensor->elements, n);
exit:
    return status;
}

/* Sorts the pieces by tensor, and the tensors by when their first pieces were shown. */
static ls_status gather(rank_file *file)
{
    ls_status status = LS_OK;
    const rank_list *list = file->list;
    const piece **sorted = NULL;
    const piece **leader = NULL; /* [pieces] */
    LS_NEW(file->tensors, list->count + 1);
    LS_NEW(file->of, list->count + 1);
    LS_ROOM(sorted, list->count + 1);
    LS_ROOM(leader, list->count + 1);
    for (size_t i = 0; i < list->count; i++) sorted[i] = &list->pieces[i];
    qsort(sorted, list->count, sizeof *sorted, by_name);
    for (size_t i = 0; i < list->count; i++) {
        const size_t own = (size_t)(sorted[i] - list->pieces);
        const bool more = i > 0 && same_tensor(sorted[i - 1], sorted[i]);
        leader[own] = more ? leader[sorted[i - 1] - list->pieces] : sorted[i];
    }
    for (size_t i = 0; i < list->count; i++) {
        const piece *p = &list->pieces[i];
        if (leader[i] == p) {
            held *tensor = &file->tensors[file->count];
            file->of[i] = file->count++;
            tensor->first = p;
            whole_name(p, tensor->name);
        } else {
            file->of[i] = file->of[leader[i] - list->pieces];
        }
        take_in(&file->tensors[file->of[i]], p);
    }
    for (size_t t = 0; t < file->count; t++) LS_TRY(check_box(&file->tensors[t]));
exit:
    free(sorted);
    free(leader);
    return status;
}

/* "0:8 0:24 24:48" */
static ls_status declare(const held *tensor, ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    const piece *p = tensor->first;
    char key[sizeof tensor->name + 8], text[LS_VIEW_DIMS * 48];
    uint64_t dims[LS_VIEW_DIMS];
    size_t used = 0;
    for (int i = 0; i < p->n_dims; i++) {
        dims[i] = tensor->hi[i] - tensor->lo[i];
        used = ls_append(text, sizeof text, used, "%s%zu:%zu", i ? " " : "", tensor->lo[i],
                         tensor->hi[i]);
    }
    LS_TRY(ls_safetensors_declare(writer, tensor->name, p->dtype, p->n_dims, dims));
    if (p->n_dims > 0) {
        snprintf(key, sizeof key, "cut:%s", tensor->name);
        LS_TRY(ls_safetensors_add_metadata(writer, key, text));
    }
    if (p->comm == LS_COMM_PARTIAL) {
        snprintf(key, sizeof key, "node:%s", tensor->name);
        used = ls_append(text, sizeof text, 0, "%zu %zu %zu", p->lo, p->hi, p->leaves);
        if (p->rows > 0) ls_append(text, sizeof text, used, " %zu %zu", p->rows, p->columns);
        LS_TRY(ls_safetensors_add_metadata(writer, key, text));
    }
exit:
    return status;
}

static ls_status describe(const dump *d, int rank, ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    char text[LS_LAYOUT_TEXT];
    snprintf(text, sizeof text, "%d", rank);
    LS_TRY(ls_safetensors_add_metadata(writer, "rank", text));
    snprintf(text, sizeof text, "%d", d->ranks->ranks);
    LS_TRY(ls_safetensors_add_metadata(writer, "ranks", text));
    ls_layout_describe(&d->run.layout, text, sizeof text);
    LS_TRY(ls_safetensors_add_metadata(writer, "layout", text));
exit:
    return status;
}

/* A piece into its tensor: rows of a box in a box, each as long as it lies in one run in both. */
static ls_status fill(const dump_ranks *all, const held *tensor, const piece *p)
{
    ls_status status = LS_OK;
    const size_t width = ls_dtype_bytes(p->dtype);
    size_t stride[LS_VIEW_DIMS], rows = 1, length = 1;
    int row = p->n_dims > 0 ? p->n_dims - 1 : 0; /* the first dimension that is inside a row */
    for (int i = p->n_dims, step = 1; i-- > 0; step = 0)
        stride[i] = step ? 1 : stride[i + 1] * (tensor->hi[i + 1] - tensor->lo[i + 1]);
    while (row > 0 && p->dims[row].count == tensor->hi[row] - tensor->lo[row]) row--;
    for (int i = 0; i < p->n_dims; i++) *(i < row ? &rows : &length) *= p->dims[i].count;
    for (size_t r = 0; r < rows; r++) {
        size_t rest = r,
               at = p->n_dims > 0 ? (p->dims[row].first - tensor->lo[row]) * stride[row] : 0;
        for (int i = row; i-- > 0;) {
            at += (p->dims[i].first + rest % p->dims[i].count - tensor->lo[i]) * stride[i];
            rest /= p->dims[i].count;
        }
        LS_TRY(ls_dump_spool_read(all->spool, tensor->place + at * width, length * width,
                                  p->offset + r * length * width));
    }
exit:
    return status;
}

static ls_status write_rank(dump *d, int rank)
{
    ls_status status = LS_OK;
    ls_safetensors_writer *writer = NULL;
    rank_file file = {.list = &d->ranks->lists[rank]};
    char name[64];
    const char *path;
    snprintf(name, sizeof name, "ranks/rank-%03d.safetensors", rank);
    LS_TRY(gather(&file));
    LS_TRY(ls_dump_path(d, name, &path));
    LS_TRY(ls_safetensors_create(&writer, path));
    LS_TRY(describe(d, rank, writer));
    for (size_t t = 0; t < file.count; t++) LS_TRY(declare(&file.tensors[t], writer));
    LS_TRY(ls_safetensors_map(writer));
    for (size_t t = 0; t < file.count; t++) file.tensors[t].place = ls_safetensors_place(writer, t);
    for (size_t i = 0; i < file.list->count; i++)
        LS_TRY(fill(d->ranks, &file.tensors[file.of[i]], &file.list->pieces[i]));
    LS_TRY(ls_safetensors_commit(writer));
    LS_TRY(ls_dump_note(d, "ranks", path, false));
exit:
    ls_safetensors_destroy(&writer);
    free(file.tensors);
    free(file.of);
    return status;
}

ls_status ls_dump_ranks_write(dump *d)
{
    ls_status status = LS_OK;
    LS_TRY(ls_new_folder_inner(d->folder, "ranks"));
    for (int r = 0; r < d->ranks->ranks; r++) {
        LS_TRY(ls_dump_advance(d, (uint64_t)r, (uint64_t)d->ranks->ranks, "files of ranks"));
        LS_TRY(write_rank(d, r));
    }
exit:
    return status;
}
