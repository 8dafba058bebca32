/* trace_file_values.h - the values of a trace file: numbers in their range and words, refused in
 * one line that names the file, the place, the key and what was found. */
#ifndef LS_TRAIN_TRACE_FILE_VALUES_H
#define LS_TRAIN_TRACE_FILE_VALUES_H

#include <jansson.h>

#include "train/trace_file.h"

enum {
    LS_TRACE_MOST_WORDS = 256, /* different ones: names of tasks, layers and calls */
    LS_TRACE_WORD_BYTES = 63
};

/* Where one is: what texts begin with. */
typedef struct ls_trace_reader {
    const char *path;
    ls_trace_file *file;
    char place[48]; /* "otherData", "traceEvents[17].args" */
} ls_trace_reader;

/* The JSON text of a value, shortened. */
const char *ls_trace_show_value(const json_t *value);

/* A whole number lo .. hi. */
ls_status ls_trace_read_whole(const ls_trace_reader *r, const json_t *object, const char *key,
                              int64_t lo, int64_t hi, int64_t *ret_value) LS_MUST_USE;

ls_status ls_trace_read_int(const ls_trace_reader *r, const json_t *object, const char *key, int lo,
                            int hi, int *ret_value) LS_MUST_USE;

ls_status ls_trace_read_unsigned(const ls_trace_reader *r, const json_t *object, const char *key,
                                 int64_t lo, int64_t hi, uint64_t *ret_value) LS_MUST_USE;

/* A name of at most `most` bytes that is shown as it is. */
ls_status ls_trace_read_name(const ls_trace_reader *r, const json_t *object, const char *key,
                             size_t most, const char **ret_name) LS_MUST_USE;

/* One of `count` words; *ret_choice: which. */
ls_status ls_trace_read_choice(const ls_trace_reader *r, const json_t *object, const char *key,
                               const char *const *words, int count, int *ret_choice) LS_MUST_USE;

/* A word that stays as long as the file. */
ls_status ls_trace_keep_word(ls_trace_reader *r, const char *word,
                             const char **ret_kept) LS_MUST_USE;

#endif
