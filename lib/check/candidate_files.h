/* candidate_files.h - the files that a candidate lies in, and what is found in them; for
 * candidate*.c. */
#ifndef LS_CHECK_CANDIDATE_FILES_H
#define LS_CHECK_CANDIDATE_FILES_H

#include "lockstep/io/safetensors.h"
#include "check/candidate.h"
#include "step_graph/tensor_name.h"

typedef struct ls_candidate_file {
    char *path;
    int rank; /* -1: not of a rank */
    ls_safetensors *file;
} ls_candidate_file;

/* One tensor of a file, or one parameter in it: a block of a golden tensor. */
typedef struct ls_candidate_piece {
    size_t golden;    /* place in golden->tensors */
    const char *name; /* in the file */
    bool twin; /* one that may be next to another of the same parameter, with the same values */
    ls_candidate_block block;
} ls_candidate_piece;

typedef struct ls_candidate_files {
    char *path;
    size_t count, room;
    ls_candidate_file *files;
    int ranks; /* 0: not one file per rank */
    bool has_layout;
    ls_layout layout;
    char *layout_from;   /* path of the file that says it; belongs to that file */
    ls_foreign_map *map; /* NULL: the golden directory's own names */
    size_t ignored;
    size_t n_pieces, pieces_room;
    ls_candidate_piece *pieces; /* sorted: golden tensor, rank, micro-batch */
    ls_candidate_block *blocks; /* theirs, in that order */
    size_t n_owned, owned_room;
    void **owned; /* values that lie in no file as they are wanted */
} ls_candidate_files;

/* Finds and opens the files at `path`, and puts ranks and layout in order. */
ls_status ls_candidate_files_open(ls_candidate_files *files, const ls_golden *golden,
                                  const char *path) LS_MUST_USE;
void ls_candidate_files_close(ls_candidate_files *files);

/* Whether the safetensors file `name` of a golden directory holds nothing that is judged. */
bool ls_candidate_passed_over(const char *name);

/* What a tensor's name means. */
typedef struct ls_candidate_meaning {
    bool ignored; /* nothing that is judged */
    uint64_t step;
    int micro_batch; /* -1 */
    int node;        /* -1: a foreign tensor's: */
    const ls_foreign_tensor *foreign;
    const char *prefix, *use; /* "grad", "clipped" or "param"; "", ".as_head" or ".as_input" */
} ls_candidate_meaning;
ls_status ls_candidate_understand(const ls_candidate_files *files, const ls_golden *golden,
                                  const ls_candidate_file *file, const ls_tensor_info *info,
                                  ls_candidate_meaning *ret_meaning) LS_MUST_USE;

/* Which run of each of the node's dimensions a file's tensor holds: as cut: says, or the layout, or
 * the micro-batch; else all. */
ls_status ls_candidate_runs(const ls_candidate_files *files, const ls_golden *golden,
                            const ls_candidate_file *file, const ls_tensor_info *info,
                            const ls_candidate_meaning *meaning,
                            ls_view_run ret_runs[LS_VIEW_DIMS]) LS_MUST_USE;

/* What the file says of a tensor's cut; NULL: nothing. */
ls_status ls_candidate_cut_text(const ls_candidate_file *file, const char *name,
                                const char **ret_text) LS_MUST_USE;
/* Reads it: first and count of runs, whose `whole` bounds them. */
ls_status ls_candidate_cut(const ls_candidate_file *file, const ls_tensor_info *info,
                           const char *text, int n_dims, ls_view_run *runs) LS_MUST_USE;

/* A block as it is in the file, its runs not yet known. */
ls_candidate_block ls_candidate_block_of(const ls_candidate_file *file, const ls_tensor_info *info,
                                         int micro_batch);

/* Adds one; its golden tensor is step and node. LS_ERR_INPUT: the golden directory lacks that. */
ls_status ls_candidate_add(ls_candidate_files *files, const ls_golden *golden, uint64_t step,
                           int node, ls_candidate_piece *piece) LS_MUST_USE;

/* The parameters in another program's tensor, whole or a rank's part of it, as pieces. */
ls_status ls_candidate_take_foreign(ls_candidate_files *files, const ls_golden *golden,
                                    const ls_candidate_file *file, const ls_tensor_info *info,
                                    const ls_candidate_meaning *meaning) LS_MUST_USE;

/* Whether a block is all of a node's tensor. */
bool ls_candidate_whole(const ls_graph_node *node, const ls_candidate_block *block);

/* Puts `count` pieces of one golden tensor together. */
ls_status ls_candidate_assemble(ls_candidate_files *files, const ls_golden *golden,
                                const ls_candidate_piece *pieces, const ls_candidate_block *blocks,
                                size_t count, ls_candidate_tensor *ret_tensor) LS_MUST_USE;

/* Memory that goes with the candidate. Errors: LS_ERR_MEMORY. */
ls_status ls_candidate_own(ls_candidate_files *files, size_t bytes, void **ret_memory) LS_MUST_USE;

#endif
