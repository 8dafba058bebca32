/* golden_manifest.h - manifest.json of a golden directory, read and checked by itself: types,
 * ranges, what its parts say of each other. Nothing but that file is opened. */
#ifndef LS_GOLDEN_GOLDEN_MANIFEST_H
#define LS_GOLDEN_GOLDEN_MANIFEST_H

#include <jansson.h>

#include "golden/golden.h"

/* An entry of "tensors". Strings belong to the manifest. */
typedef struct ls_manifest_tensor {
    const char *name, *file, *dims, *sha256;
    ls_graph_phase phase;
    uint64_t step;
    ls_dtype dtype;
    int n_dims;
    uint64_t shape[LS_NODE_DIMS];
    bool given;
    double truth_error, bound, bound_rms; /* infinity: unknown */
} ls_manifest_tensor;

/* An entry of "files". */
typedef struct ls_manifest_file {
    const char *name, *sha256;
    uint64_t bytes;
} ls_manifest_file;

typedef struct ls_manifest {
    json_t *root;
    ls_golden_kind kind;
    ls_run run; /* without load and given */
    uint64_t first_step;
    size_t steps;
    size_t n_parts; /* of "micro_batch_sequences": first and end of each */
    size_t (*parts)[2];
    size_t n_files;
    ls_manifest_file *files;
    size_t n_tensors;
    ls_manifest_tensor *tensors; /* their digests make up the manifest's */
} ls_manifest;

/* path: of the file. Errors: LS_ERR_INPUT naming the file and the key, LS_ERR_IO, LS_ERR_MEMORY. */
ls_status ls_manifest_read(ls_manifest *ret_manifest, const char *path) LS_MUST_USE;
void ls_manifest_free(ls_manifest *manifest);

/* Its tree, of which nothing is checked yet but that it is an object; json_decref frees it. Errors:
 * as ls_manifest_read. */
ls_status ls_manifest_load(json_t **ret_root, const char *path) LS_MUST_USE;

/* The key of the digest over everything else that a manifest says, and that digest: the SHA-256 of
 * the object without this key as compact JSON in ASCII, keys sorted, reals with up to 17 digits.
 * Errors: LS_ERR_MEMORY. */
#define LS_MANIFEST_DIGEST "manifest_sha256"
ls_status ls_manifest_digest(const json_t *root, char ret_digest[65]) LS_MUST_USE;

/* The part of it that fills manifest->run, first_step and steps. */
struct ls_json_at;
ls_status ls_manifest_read_run(ls_manifest *manifest, const struct ls_json_at *at) LS_MUST_USE;

/* A file of a golden directory is a plain one: a link could lead anywhere, and the directory could
 * not be copied; a pipe would keep the reader waiting. LS_ERR_INPUT names it. */
ls_status ls_manifest_check_plain(const char *path) LS_MUST_USE;

/* Whether a directory's manifest says that it is a golden one; false for whatever cannot be read.
 * folder: the directory. */
bool ls_manifest_is_golden(const char *folder);

/* Whether a name is that of a file next to the manifest: no way into another directory. */
bool ls_manifest_plain_name(const char *name);

/* "folder/name", for the caller to free. Errors: LS_ERR_MEMORY. */
ls_status ls_manifest_path(char **ret_path, const char *folder, const char *name) LS_MUST_USE;

#endif
