/* dump.h - a training run written down as a golden directory (GOLDEN.md). */
#ifndef LS_GOLDEN_DUMP_H
#define LS_GOLDEN_DUMP_H

#include "golden/golden.h"

/* Where the run's initial values and batches come from. As a training run has them, biases are 0
 * and norm scales 1, and no target is missing: a bias added once too often or a mean of means would
 * not show. */
typedef enum ls_dump_start {
    LS_START_TELLING = 0, /* every parameter drawn so that no term vanishes, unless run->load or
                             run->initial has them; a text's batches changed so that mistakes show
                             (GOLDEN.md), unless run->given has them                             */
    LS_START_TRAINING     /* as `train` would begin and read                                     */
} ls_dump_start;

typedef struct ls_dump_options {
    ls_dump_start start;
    bool integers;         /* in place of the run: linear operations on small integers, whose
                              results are the same in any order and any format; of what follows
                              only the texts and `advance` are read */
    bool whole;            /* forward, backward and update files */
    bool truth;            /* truth and bounds: more runs in binary64 */
    bool per_rank;         /* ranks/rank-NNN.safetensors */
    bool collectives;      /* collectives.jsonl */
    const char *program;   /* "lockstep 0.1.0"; NULL: "lockstep" */
    const char *command;   /* as it was typed, for order.txt; NULL: not said */
    const char *text_name; /* for order.txt; NULL: not said */
    /* Told of what is done, in units of `of`; may be NULL. */
    void (*advance)(void *context, uint64_t done, uint64_t of, const char *what);
    void *context;
} ls_dump_options;

/* What a dump left, for people. */
typedef struct ls_dump_file {
    char name[32]; /* "forward.safetensors"; "ranks" stands for all files of ranks together */
    uint64_t bytes;
    char sha256[65]; /* of weights, batch and masks; else empty */
} ls_dump_file;

enum { LS_DUMP_FILES = 16 };

/* What the start came to: what `start` had no effect on is LS_DUMP_GIVEN. */
typedef enum ls_dump_source { LS_DUMP_TELLING, LS_DUMP_TRAINING, LS_DUMP_GIVEN } ls_dump_source;

typedef struct ls_dump_told {
    ls_dump_source weights, batch; /* images are LS_DUMP_GIVEN: they have nothing to change */
    size_t biases;                 /* how many the model has */
    size_t constant; /* of the given parameters: those that hold one value, as biases and scales
                        before training do                                                       */
    /* Of batches that tell. */
    size_t steps, tokens, targets; /* targets that count, of so many tokens in all steps */
    size_t ends, ends_met;         /* words at ends of vocabulary shards; those met in every step */
} ls_dump_told;

/* "telling", "training", "given". */
const char *ls_dump_source_name(ls_dump_source source);

typedef struct ls_dump_summary {
    uint64_t seed, first_step;
    size_t tensors;
    ls_dump_told start;               /* of integers: nothing */
    ls_dump_file file[LS_DUMP_FILES]; /* in the order in which they were finished */
    size_t files;
    uint64_t bytes;
    char digest[65];    /* SHA-256 of all tensors' digests in order: equal sets have it equal; empty
                           without `whole` */
    double worst_ratio; /* largest truth_error / bound; 0 without truth */
    char worst_tensor[160];
} ls_dump_summary;

/* Runs `run` (in its layout) and writes `path`, a directory that does not exist, is empty, or is a
 * golden directory (which is replaced). It is written next to its place and renamed at the end:
 * nothing is left after a failure. Tensors go from the ranks into the mapped files: memory is that
 * of the run and the largest tensor; the truth is a run of its own, afterwards. Errors: the run's;
 * LS_ERR_INPUT (the place, with the remedy), LS_ERR_IO. */
ls_status ls_dump(const ls_run *run, const char *path, const ls_dump_options *options,
                  ls_dump_summary *ret_summary) LS_MUST_USE;

#endif
