/* candidate.h - another implementation's tensors, found in its files and put into the golden run's
 * shapes.
 *
 * A candidate is a directory or a safetensors file with any subset of the golden directory's names
 * (lib/golden/GOLDEN.md), whole tensors or one file per rank with the runs that each holds;
 * micro-batches and other programs' parameter names too. Nothing is converted: values stay in the
 * candidate's dtype, and where they are whole in a file, in its map. */
#ifndef LS_CHECK_CANDIDATE_H
#define LS_CHECK_CANDIDATE_H

#include "lockstep/model/foreign.h"
#include "golden/golden.h"

/* A rank's block of a tensor, as its file has it. */
typedef struct ls_candidate_block {
    int rank, micro_batch; /* -1: not said */
    const char *file;
    ls_dtype dtype;
    ls_view_run runs[LS_VIEW_DIMS]; /* of the node's dimensions */
    const void *values;             /* row-major, in the map, perhaps unaligned */
} ls_candidate_block;

typedef struct ls_candidate_tensor {
    const char *name; /* as the file has it (of the first block) */
    const ls_golden_tensor *golden;
    ls_dtype dtype;
    const void *values; /* golden->count elements, row-major; perhaps unaligned */
    size_t n_blocks;
    const ls_candidate_block *blocks;
    int ranks; /* how many files gave it: 1 for a whole one */
    /* Ranks that should hold the same and do not: */
    bool replicas_differ;
    int replicas[2];      /* two of them */
    size_t replica_index; /* first logical element in which they differ; `values` has the first's */
    double replica_values[2];
} ls_candidate_tensor;

typedef struct ls_candidate {
    const char *path;
    size_t count; /* in the golden directory's order */
    ls_candidate_tensor *tensors;
    bool has_layout; /* the files say in which layout they were made */
    ls_layout layout;
    size_t ignored; /* tensors that are not judged: weights, batch, masks, parts of sums */
    struct ls_candidate_files *files; /* for candidate*.c */
} ls_candidate;

/* Opens what is at `path` for comparison with `golden`, which must outlive it. map: whose parameter
 * names it has ("hf", "megatron", ..., see ls_names_parse); NULL: the golden directory's. With
 * blocks of several ranks or micro-batches memory is that of the tensors put together. Errors:
 * LS_ERR_INPUT, naming file and tensor: none of its names are known; a name that the model or the
 * golden directory lacks (suggests the nearest, or the map); another shape, a dtype that is no
 * floating-point one, blocks of different ones; the same elements twice, but by different ranks;
 * runs that lie outside, leave holes or do not fit the shape; a rank twice, ranks missing; a golden
 * directory that began with other weights or another batch; what ls_safetensors_open refuses.
 * LS_ERR_IO, LS_ERR_MEMORY. */
ls_status ls_candidate_open(ls_candidate **ret_candidate, const ls_golden *golden, const char *path,
                            const char *map) LS_MUST_USE;
void ls_candidate_close(ls_candidate **candidate);

const ls_candidate_tensor *ls_candidate_find(const ls_candidate *candidate, uint64_t step,
                                             int node);

#endif
