/* golden_files.h - the files of a golden directory, mapped, and how places and shapes are
 * written; for golden*.c, candidate*.c and dump*.c. */
#ifndef LS_GOLDEN_GOLDEN_FILES_H
#define LS_GOLDEN_GOLDEN_FILES_H

#include "lockstep/io/safetensors.h"
#include "golden/golden_manifest.h"
#include "train/checkpoint_file.h"

enum { LS_GOLDEN_FILES = 16 };

typedef struct ls_golden_file {
    char *name, *path;
    ls_safetensors *file;
    size_t listed; /* of its tensors, by the manifest */
} ls_golden_file;

typedef struct ls_golden_files {
    ls_manifest manifest;
    char *path;         /* of the directory  */
    char *weights_path; /* run.load          */
    /* By array (value, moments) and parameter, aligned; NULL: not there. */
    const void **params[LS_CHECKPOINT_ARRAYS];
    ls_dtype *dtypes[LS_CHECKPOINT_ARRAYS];
    size_t count;
    ls_golden_file files[LS_GOLDEN_FILES];
    size_t n_copies, room;
    void **copies;     /* of what lies unaligned in its file */
    ls_batch *batches; /* run.given */
} ls_golden_files;

/* The file `name` of the directory, opened when it is asked for first. */
ls_status ls_golden_file_of(ls_golden_files *files, const char *name,
                            ls_golden_file **ret_file) LS_MUST_USE;

/* A tensor's values, copied when they are not aligned for their dtype. */
ls_status ls_golden_aligned(ls_golden_files *files, const ls_tensor_info *info,
                            const void **ret_values) LS_MUST_USE;

/* The manifest's entry of a file that it binds by SHA-256; NULL. The second: LS_ERR_INPUT. */
const ls_manifest_file *ls_golden_listed(const ls_golden_files *files, const char *name);
ls_status ls_golden_check_listed(const ls_golden_files *files, const char *name) LS_MUST_USE;

/* Whether the files that the manifest names have its bytes and SHA-256; those above `most` bytes
 * are compared with their size only. LS_ERR_INPUT names the file. */
ls_status ls_golden_check_files(const ls_golden_files *files, uint64_t most,
                                void (*advance)(void *, size_t), void *context) LS_MUST_USE;

/* batch.safetensors, checked, as run.given; nothing when the directory has none and may. */
ls_status ls_golden_read_batches(ls_golden *golden) LS_MUST_USE;

/* "[3, 0, 5]": where an element of a node's tensor is; "" of a single number. Written to
 * buffer, which is returned. */
enum { LS_GOLDEN_PLACE = 96 };
const char *ls_golden_place(const ls_graph_node *node, size_t element,
                            char buffer[LS_GOLDEN_PLACE]);

/* "2 x 3", "5", "()": a shape for texts. Written to buffer, which is returned. */
enum { LS_GOLDEN_SHAPE = 192 };
const char *ls_golden_shape(int n_dims, const uint64_t *dims, char buffer[LS_GOLDEN_SHAPE]);

#endif
