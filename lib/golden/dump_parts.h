/* dump_parts.h - what the files that write a golden directory share. */
#ifndef LS_GOLDEN_DUMP_PARTS_H
#define LS_GOLDEN_DUMP_PARTS_H

#include "io/new_folder.h"
#include "lockstep/comm/trace.h"
#include "lockstep/io/safetensors.h"
#include "golden/dump.h"
#include "step_graph/tensor_name.h"
#include "train/training.h"

typedef struct dump_tensors dump_tensors;
typedef struct dump_ranks dump_ranks;

/* One tensor of the run: node `node` of a step. */
typedef struct dump_tensor {
    const ls_graph_node *node;
    uint64_t step;
    size_t count;
    ls_dtype dtype;
    bool given;         /* an input: integers only */
    const void *values; /* in the map */
    char sha256[65];
    double truth_error, bound, bound_rms; /* infinity: unknown */
} dump_tensor;

/* A dump under way. */
typedef struct dump {
    const ls_dump_options *options;
    ls_run run; /* as it is run: from weights.safetensors, on the batches below */
    ls_param_table *table;
    ls_graph *graph; /* of one step */
    uint64_t first_step;
    size_t steps;
    ls_new_folder *folder;
    ls_step_batch *batches; /* [steps], NULL when they were given */
    ls_batch *given;        /* [steps] */
    ls_observer observer;
    dump_tensors *tensors; /* NULL: not written */
    dump_ranks *ranks;     /* the same */
    dump_tensor *list;     /* integers: in place of `tensors` */
    size_t n_list;
    ls_dump_summary summary; /* so far */
} dump;

/* dump_place.c. LS_ERR_INPUT unless nothing is there, or what may be replaced. */
ls_status ls_dump_check_place(const char *path) LS_MUST_USE;

/* dump_start.c. What `start` asks for. */
ls_dump_source ls_dump_source_of(const dump *d);
/* The seed and the first step that the run will have, and weights.safetensors, which
 * it then begins with. */
ls_status ls_dump_write_start(dump *d) LS_MUST_USE;

/* dump_batch.c. The batches of all steps; batch.safetensors; masks.safetensors, if the model drops
 * anything. */
ls_status ls_dump_make_batches(dump *d) LS_MUST_USE;
ls_status ls_dump_write_batches(dump *d) LS_MUST_USE;
ls_status ls_dump_write_masks(dump *d) LS_MUST_USE;

/* dump_tensors.c. The files of all whole tensors, mapped; what a rank shows, put into its place;
 * once the run is over: whether everything was shown, and the digests; the end. */
ls_status ls_dump_tensors_create(dump *d) LS_MUST_USE;
void ls_dump_tensors_destroy(dump *d);
ls_status ls_dump_tensors_take(dump *d, int rank, const ls_view *view) LS_MUST_USE;
ls_status ls_dump_tensors_check(dump *d) LS_MUST_USE;
ls_status ls_dump_tensors_digest(dump *d, char ret_digest[65]) LS_MUST_USE;
ls_status ls_dump_tensors_commit(dump *d) LS_MUST_USE;
/* In order of execution. */
size_t ls_dump_tensor_count(const dump *d);
dump_tensor *ls_dump_tensor(const dump *d, size_t i);
/* The file that a tensor is in. */
const char *ls_dump_file_of(const dump_tensor *t);

/* dump_truth.c. truth.safetensors, and every tensor's distance and bound. */
ls_status ls_dump_write_truth(dump *d) LS_MUST_USE;

/* dump_ranks.c. What every rank held, in the order in which it had it: spooled during the run, then
 * put into a file for each. */
ls_status ls_dump_ranks_create(dump *d) LS_MUST_USE;
void ls_dump_ranks_destroy(dump *d);
ls_status ls_dump_ranks_take(dump *d, const ls_rank *who, const ls_view *view) LS_MUST_USE;
/* Once the run is over, before both of what follows: what crosses ranks gets its numbers. */
ls_status ls_dump_ranks_number(dump *d) LS_MUST_USE;
/* Says the names of what a rank handed into a call of its trace (`in`), and of what it got. The
 * calls in order; *at: 0 for the first, then as it was left. */
enum { LS_DUMP_COMM_NAME = LS_TENSOR_NAME + 24 };
typedef void dump_crossing(void *context, bool in, const char *name);
void ls_dump_ranks_of_call(const dump *d, int rank, const ls_event *call, const ls_event *events,
                           size_t n_events, size_t *at, dump_crossing *say, void *context);
ls_status ls_dump_ranks_write(dump *d) LS_MUST_USE;

/* dump_view_name.c. "step0/mb1/d.layers.0.attention": the name of what a rank shows, or of what its
 * view is a part of, without an ending. */
void ls_dump_name_view(const dump *d, int rank, const ls_view *view, char name[LS_TENSOR_NAME]);

/* dump_integers.c. The whole directory of linear operations on integers, but for its name. */
ls_status ls_dump_write_integers(dump *d) LS_MUST_USE;

/* dump_calls.c. collectives.jsonl. */
ls_status ls_dump_write_calls(dump *d, const ls_trace *trace) LS_MUST_USE;

/* dump_manifest.c. manifest.json and order.txt; digest: of all tensors. */
ls_status ls_dump_write_manifest(dump *d, const char *digest) LS_MUST_USE;
ls_status ls_dump_write_order(dump *d, const char *digest) LS_MUST_USE;

/* dump.c. Where to write a file of the directory meanwhile. */
ls_status ls_dump_path(dump *d, const char *name, const char **ret_path) LS_MUST_USE;
/* A file is written: notes its size, and with `digested` its SHA-256. Files of one name are added
 * up. */
ls_status ls_dump_note(dump *d, const char *name, const char *path, bool digested) LS_MUST_USE;
/* Tells how far it is; LS_ERR_INTERRUPTED when it is to end. */
ls_status ls_dump_advance(const dump *d, uint64_t done, uint64_t of, const char *what) LS_MUST_USE;

#endif
