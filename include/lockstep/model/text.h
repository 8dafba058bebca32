/* text.h - batches of bytes from a text.
 *
 * A batch is a function of (seed, step) only, so that the data position of a checkpoint is its
 * step. */
#ifndef LS_MODEL_TEXT_H
#define LS_MODEL_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/status.h"
#include "lockstep/model/config.h"

LS_BEGIN_DECLS

typedef struct ls_text {
    unsigned char *bytes;
    size_t count;
} ls_text;

/* Reads a whole file of any bytes. LS_ERR_INPUT: missing, a folder, empty; LS_ERR_IO. The name may
 * be any bytes; texts show it escaped. */
LS_API ls_status ls_text_read(const char *path, ls_text *ret_text) LS_MUST_USE;
LS_API void ls_text_free(ls_text *text);

/* Whether the text can feed the model: at least S + 1 bytes, none at or above vocab. LS_ERR_INPUT
 * names the file, what was found and what is needed. */
LS_API ls_status ls_text_check(const ls_text *text, const char *path, size_t S,
                               size_t vocab) LS_MUST_USE;

/* The same for what a configuration needs of its data: ls_text_check, or ls_masked_text_check for a
 * masked-token model. */
LS_API ls_status ls_text_check_model(const ls_text *text, const char *path,
                                     const ls_config *config) LS_MUST_USE;

/* Sequence b of step `step` begins at byte floor(uniform(stream DATA of that step, element b) *
 * (count - S)): tokens[s] and targets[s] are the bytes at start + s and start + s + 1. Writes
 * sequences first .. first + sequences of the global batch: sequences x S each. */
LS_API void ls_text_batch(const ls_text *text, uint64_t seed, uint32_t step, size_t first,
                          size_t sequences, size_t S, int32_t *ret_tokens, int32_t *ret_targets);

LS_END_DECLS

#endif
