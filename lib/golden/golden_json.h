/* golden_json.h - values of a JSON object, of the types that are wanted or not at all.
 *
 * Every function reads one key. LS_ERR_INPUT names the file, the way to the key from the root, what
 * was found and what is allowed. */
#ifndef LS_GOLDEN_GOLDEN_JSON_H
#define LS_GOLDEN_GOLDEN_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lockstep/base/status.h"

/* An object and where it is. */
typedef struct ls_json_at {
    const char *file;
    const char *path; /* "optimizer.", "tensors[3]."; "" at the root */
    const json_t *object;
} ls_json_at;

ls_status ls_json_string(const ls_json_at *at, const char *key, const char **ret) LS_MUST_USE;
/* A whole number, least <= number <= most. */
ls_status ls_json_count(const ls_json_at *at, const char *key, uint64_t least, uint64_t most,
                        uint64_t *ret) LS_MUST_USE;
ls_status ls_json_int(const ls_json_at *at, const char *key, int least, int most,
                      int *ret) LS_MUST_USE;
/* A finite number, not below 0. */
ls_status ls_json_real(const ls_json_at *at, const char *key, double *ret) LS_MUST_USE;
/* The same or null, which gives `absent`. */
ls_status ls_json_real_or_null(const ls_json_at *at, const char *key, double absent,
                               double *ret) LS_MUST_USE;
ls_status ls_json_flag(const ls_json_at *at, const char *key, bool *ret) LS_MUST_USE;
/* *ret: place in `words`. */
ls_status ls_json_choice(const ls_json_at *at, const char *key, const char *const *words,
                         int n_words, int *ret) LS_MUST_USE;
ls_status ls_json_object(const ls_json_at *at, const char *key, const json_t **ret) LS_MUST_USE;
ls_status ls_json_array(const ls_json_at *at, const char *key, const json_t **ret) LS_MUST_USE;
/* 64 lower-case hexadecimal digits. */
ls_status ls_json_sha256(const ls_json_at *at, const char *key, const char **ret) LS_MUST_USE;

/* LS_ERR_INPUT: "FILE: PATHKEY VALUE: must be ALLOWED", or that it is missing. */
ls_status ls_json_refuse(const ls_json_at *at, const char *key, const char *allowed) LS_MUST_USE;

#endif
