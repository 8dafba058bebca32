/* golden.h - a golden directory, opened: a run's tensors, its truth, and everything that is needed
 * to do the run again. The files stay mapped; nothing is read before it is asked for.
 *
 * What is in the directory, file by file and key by key, is written down in GOLDEN.md. */
#ifndef LS_GOLDEN_GOLDEN_H
#define LS_GOLDEN_GOLDEN_H

#include "lockstep/model/batch.h"
#include "step_graph/graph.h"
#include "train/train.h"

/* The version of the directory's format. */
enum { LS_GOLDEN_VERSION = 2 };

/* What a directory is for. */
typedef enum ls_golden_kind {
    LS_GOLDEN_TRAINING = 0, /* steps of a training run                                           */
    LS_GOLDEN_INTEGERS /* linear operations on small integers: any order of any sum gives the same
                          bits, in binary32 and in bf16 */
} ls_golden_kind;

/* One tensor of one step: a node of the graph. */
typedef struct ls_golden_tensor {
    const char *name; /* "step0/layers.0.query" */
    uint64_t step;
    int node;            /* of the graph */
    bool given;          /* an input of the golden run rather than a result of it (integers only) */
    ls_dtype dtype;      /* of the run; loss as the run's, norm F64 */
    size_t count;        /* elements; the dimensions are the node's */
    const void *values;  /* row-major, in the map, aligned for its dtype */
    const double *truth; /* the same in binary64, without the contract; NULL: there is none */
    double truth_error;  /* largest |value - truth|; infinity: unknown */
    double bound;        /* how far another right computation in `dtype` may lie from the truth, see
                            bounds.h; infinity where nothing is known */
    double bound_rms;    /* the same of the root mean square of all elements' distances */
    char sha256[65];
} ls_golden_tensor;

typedef struct ls_golden {
    const char *path;
    ls_golden_kind kind;
    ls_run
        run; /* what was run: config, layout, engine, dtype, seed, optimizer, clip, batch, steps;
                `load` is the directory's weights, `given` its batches: ls_train can do it again */
    ls_param_table *table;
    ls_graph *graph;
    uint64_t first_step;
    size_t steps;
    size_t count; /* in order of execution, step after step */
    ls_golden_tensor *tensors;
    struct ls_golden_files *files; /* for golden*.c */
} ls_golden;

/* Opens a directory: reads manifest.json, maps the tensors' files, holds every name, shape and
 * dtype against the graph of the manifest's model, and the weights, batches and masks (up to 1 GiB
 * each) against their SHA-256. `run` is what ls_run_check passes, and with `load` and `given`
 * ls_train can do it again; a directory of integers has `given` only when it has batches. Errors:
 * LS_ERR_INPUT, naming directory, file and key or tensor: missing, malformed, truncated, of another
 * format version, of another contract (names both), weights or batch of another golden directory;
 * ids beyond the vocabulary; LS_ERR_IO; LS_ERR_MEMORY. */
ls_status ls_golden_open(ls_golden **ret_golden, const char *path) LS_MUST_USE;
void ls_golden_close(ls_golden **golden);

/* Whether the values of every tensor, and the files that the manifest binds, have the SHA-256 of
 * the manifest: reads everything once. advance (may be NULL) is told how many bytes were read since
 * the last time. LS_ERR_INPUT names the first that does not. */
ls_status ls_golden_verify(const ls_golden *golden, void (*advance)(void *, size_t bytes),
                           void *context) LS_MUST_USE;

/* A tensor; NULL when the directory lacks it. */
const ls_golden_tensor *ls_golden_find(const ls_golden *golden, uint64_t step, int node);

/* The global batch of a step; NULL when the directory has none of it. */
const ls_batch *ls_golden_batch(const ls_golden *golden, uint64_t step);

/* A parameter's logical values before step `step`: from weights.safetensors in the first, else what
 * the step before left; aligned for *ret_dtype, which may be narrower than the run's. NULL when the
 * directory lacks them. */
const void *ls_golden_param(const ls_golden *golden, uint64_t step, int param, ls_dtype *ret_dtype);

/* The optimizer's moments before the first step; NULL: all zero. */
const void *ls_golden_moment(const ls_golden *golden, int param, int which, ls_dtype *ret_dtype);

#endif
