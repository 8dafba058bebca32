#include "train/trace_file_values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "lockstep/base/show.h"
#include "base/allocate.h"
#include "base/append.h"

const char *ls_trace_show_value(const json_t *value)
{
    return value == NULL ? "is missing" : ls_json_show(value);
}

ls_status ls_trace_read_whole(const ls_trace_reader *r, const json_t *object, const char *key,
                              int64_t lo, int64_t hi, int64_t *ret_value)
{
    ls_status status = LS_OK;
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < lo || json_integer_value(value) > hi)
        LS_FAIL(LS_ERR_INPUT, "%s: %s.%s %s: must be a whole number from %" PRId64 " to %" PRId64,
                ls_show(r->path), r->place, key, ls_trace_show_value(value), lo, hi);
    *ret_value = json_integer_value(value);
exit:
    return status;
}

ls_status ls_trace_read_int(const ls_trace_reader *r, const json_t *object, const char *key, int lo,
                            int hi, int *ret_value)
{
    ls_status status = LS_OK;
    int64_t value = 0;
    LS_TRY(ls_trace_read_whole(r, object, key, lo, hi, &value));
    *ret_value = (int)value;
exit:
    return status;
}

ls_status ls_trace_read_unsigned(const ls_trace_reader *r, const json_t *object, const char *key,
                                 int64_t lo, int64_t hi, uint64_t *ret_value)
{
    ls_status status = LS_OK;
    int64_t value = 0;
    LS_TRY(ls_trace_read_whole(r, object, key, lo, hi, &value));
    *ret_value = (uint64_t)value;
exit:
    return status;
}

ls_status ls_trace_read_name(const ls_trace_reader *r, const json_t *object, const char *key,
                             size_t most, const char **ret_name)
{
    ls_status status = LS_OK;
    const json_t *value = json_object_get(object, key);
    const char *name = json_string_value(value);
    if (name == NULL || *name == '\0' || strlen(name) > most || strcmp(ls_show(name), name) != 0)
        LS_FAIL(LS_ERR_INPUT, "%s: %s.%s %s: must be 1 to %zu printable bytes", ls_show(r->path),
                r->place, key, ls_trace_show_value(value), most);
    *ret_name = name;
exit:
    return status;
}

ls_status ls_trace_read_choice(const ls_trace_reader *r, const json_t *object, const char *key,
                               const char *const *words, int count, int *ret_choice)
{
    ls_status status = LS_OK;
    const json_t *value = json_object_get(object, key);
    const char *word = json_string_value(value);
    for (int i = 0; word != NULL && i < count; i++)
        if (strcmp(word, words[i]) == 0) {
            *ret_choice = i;
            return LS_OK;
        }
    char list[200] = "";
    size_t used = 0;
    for (int i = 0; i < count; i++)
        used = ls_append(list, sizeof list, used, "%s%s", i ? ", " : "", words[i]);
    LS_FAIL(LS_ERR_INPUT, "%s: %s.%s %s: must be one of %s", ls_show(r->path), r->place, key,
            ls_trace_show_value(value), list);
exit:
    return status;
}

ls_status ls_trace_keep_word(ls_trace_reader *r, const char *word, const char **ret_kept)
{
    ls_status status = LS_OK;
    ls_trace_file *file = r->file;
    for (size_t i = 0; i < file->n_words; i++)
        if (strcmp(file->words[i], word) == 0) {
            *ret_kept = file->words[i];
            return LS_OK;
        }
    if (file->n_words == LS_TRACE_MOST_WORDS)
        LS_FAIL(LS_ERR_INPUT, "%s: %s: more than %d different names of tasks and calls",
                ls_show(r->path), r->place, LS_TRACE_MOST_WORDS);
    char *copy = NULL;
    LS_COPY(copy, word);
    file->words[file->n_words++] = copy;
    *ret_kept = copy;
exit:
    return status;
}
