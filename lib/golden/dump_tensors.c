/* dump_tensors.c - whole tensors, put together in the mapped files from what every rank shows.
 *
 * All sizes are known from the graph, so the files exist in full size before the run begins, and a
 * block goes straight from the rank that shows it to its place (dump_block.h). In the end the
 * blocks must cover every tensor. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/numerics/digest.h"
#include "golden/dump_block.h"
#include "base/allocate.h"

typedef struct tensor {
    dump_tensor t;
    dump_blocks blocks;
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

const char *ls_dump_file_of(const dump_tensor *t)
{
    return t->given ? "inputs.safetensors" : file_names[t->node->phase];
}

size_t ls_dump_tensor_count(const dump *d)
{
    if (d->list) return d->n_list;
    return d->tensors ? d->tensors->count : 0;
}

dump_tensor *ls_dump_tensor(const dump *d, size_t i)
{
    return d->list ? &d->list[i] : &d->tensors->tensors[i].t;
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
        t->t.truth_error = t->t.bound = t->t.bound_rms = HUGE_VAL;
        LS_TRY(declare(d, t));
    }
    for (int f = 0; f < WHOLE_FILES; f++) LS_TRY(ls_safetensors_map(all->writers[f]));
    for (size_t i = 0; i < all->count; i++) {
        tensor *t = &all->tensors[i];
        const ls_graph_phase phase = t->t.node->phase;
        t->blocks.of = &t->t;
        t->blocks.place = ls_safetensors_place(all->writers[phase], in_file[phase]++);
        t->t.values = t->blocks.place;
    }
exit:
    return status;
}

ls_status ls_dump_tensors_create(dump *d)
{
    ls_status status = LS_OK;
    dump_tensors *all = NULL;
    LS_NEW(all, 1);
    d->tensors = all;
    all->count = d->steps * d->graph->count;
    LS_NEW(all->tensors, all->count + 1);
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
    for (size_t i = 0; all->tensors && i < all->count; i++)
        ls_dump_blocks_free(&all->tensors[i].blocks);
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

/* ---- what ranks show ---- */

ls_status ls_dump_tensors_take(dump *d, int rank, const ls_view *view)
{
    ls_status status = LS_OK;
    dump_tensors *all = d->tensors;
    if (view->comm != LS_COMM_NONE) return LS_OK;
    const int node = ls_graph_find_view(d->graph, view);
    if (node < 0 || view->step < d->first_step || view->step >= d->first_step + d->steps)
        LS_FAIL(LS_ERR_INTERNAL, "a rank shows something that is no tensor of this run");
    const size_t i = (size_t)(view->step - d->first_step) * d->graph->count + (size_t)node;
    pthread_mutex_lock(&all->locks[i % LOCKS]);
    status = ls_dump_blocks_put(&all->tensors[i].blocks, rank, view);
    pthread_mutex_unlock(&all->locks[i % LOCKS]);
exit:
    return status;
}

/* ---- the whole ---- */

/* Without a target there is no backward pass, and every gradient is +0: what the file has. */
static bool has_targets(const dump *d, uint64_t step)
{
    const ls_batch *batch = &d->given[step - d->first_step];
    if (d->run.config.kind == LS_MODEL_NET) return true;
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
        size_t covered;
        LS_TRY(ls_dump_blocks_covered(&t->blocks, &covered));
        if (covered == t->t.count) continue;
        if (t->t.node->make == LS_MAKE_GRADIENT && !has_targets(d, t->t.step)) continue;
        ls_tensor_name_write(name, t->t.step, -1, t->t.node->name);
        LS_FAIL(LS_ERR_INTERNAL, "%s: ranks show %zu of its %zu elements", name, covered,
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
    for (size_t i = 0; i < ls_dump_tensor_count(d); i++) {
        dump_tensor *t = ls_dump_tensor(d, i);
        LS_TRY(ls_dump_advance(d, i, ls_dump_tensor_count(d), "digests"));
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
