#include "base/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/read_file.h"
#include "base/thread_mode.h"
#include "lockstep/base/show.h"

/* ---- errors ---- */

/* Line and column, both from 1, in bytes. */
static void place_of(ls_json_span text, const char *at, size_t *ret_line, size_t *ret_column)
{
    const char *begin = text.text;
    *ret_line = 1;
    for (const char *c = text.text; c < at; c++)
        if (*c == '\n') {
            ++*ret_line;
            begin = c + 1;
        }
    *ret_column = (size_t)(at - begin) + 1;
}

ls_status ls_json_fault(const char *label, ls_json_span text, const ls_json_scan *scan)
{
    ls_status status = LS_OK;
    size_t line, column, length = 0;
    const size_t left = (size_t)(scan->end - scan->at);
    place_of(text, scan->at, &line, &column);
    /* What is found there: a word, or one character. */
    while (length < left && length < 20 && !strchr(" \t\r\n,:{}[]", scan->at[length])) length++;
    if (length == 0 && left > 0) length = 1;
    LS_FAIL(LS_ERR_INPUT, "%s: not JSON: line %zu, column %zu: %s%s%s", label, line, column,
            scan->fault, length ? ", found " : "", length ? ls_show_bytes(scan->at, length) : "");
exit:
    return status;
}

/* The mark that a text of another encoding, or of this one, may begin with; NULL: none. */
static const char *byte_order_mark(ls_json_span text)
{
    static const struct {
        const char *bytes, *words;
    } marks[] = {
        {"\xef\xbb\xbf", "EF BB BF"}, {"\xff\xfe", "FF FE, UTF-16"}, {"\xfe\xff", "FE FF, UTF-16"}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (text.bytes >= strlen(marks[i].bytes) &&
            memcmp(text.text, marks[i].bytes, strlen(marks[i].bytes)) == 0)
            return marks[i].words;
    return NULL;
}

/* Why jansson refuses a text that was scanned: an error of its own, or memory. It sets no error
 * where memory is short, or calls a string that it cannot store an invalid token. */
static ls_status refused(const char *label, const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_invalid_utf8:
    case json_error_duplicate_key:
    case json_error_numeric_overflow:
        return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__,
                               "%s: not JSON: line %d, column %d: %s", label, error->line,
                               error->column, ls_show(error->text));
    default:
        return ls_error_record(LS_ERR_MEMORY, __FILE__, __LINE__,
                               "%s: no memory for the JSON in it", label);
    }
}

/* ---- texts ---- */

ls_status ls_json_parse(const char *label, ls_json_span text, json_t **ret_root)
{
    ls_status status = LS_OK;
    ls_json_scan scan;
    json_error_t error;
    memset(&error, 0, sizeof error); /* jansson leaves the code as it was */
    const char *mark = byte_order_mark(text);
    if (mark)
        LS_FAIL(LS_ERR_INPUT,
                "%s: not JSON: begins with a byte-order mark (%s); save it as UTF-8 without one",
                label, mark);
    if (text.bytes == 0) LS_FAIL(LS_ERR_INPUT, "%s: not JSON: line 1: it is empty", label);
    if (!ls_json_is_whole(&scan, text)) LS_TRY(ls_json_fault(label, text, &scan));
    /* jansson loses bytes of a string whose buffer cannot grow. So there must be room to spare: a
     * tree takes several times its text. */
    void *volatile room = malloc(8 * text.bytes + 4096);
    if (!room) LS_FAIL(LS_ERR_MEMORY, "%s: no memory for the JSON in it", label);
    free(room);
    /* jansson reads and writes numbers in the caller's locale and rounding mode, and mends a
     * decimal point of one byte only. */
    ls_thread_mode mode;
    ls_thread_mode_set(&mode);
    json_t *root =
        json_loadb(text.text, text.bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    ls_thread_mode_restore(&mode);
    if (!root) LS_TRY(refused(label, &error));
    *ret_root = root;
exit:
    return status;
}

ls_status ls_json_read(const char *path, size_t most_bytes, json_t **ret_root)
{
    ls_status status = LS_OK;
    unsigned char *bytes = NULL;
    size_t count = 0;
    LS_TRY(ls_read_file(path, most_bytes, &bytes, &count));
    LS_TRY(ls_json_parse(ls_show(path), (ls_json_span){(const char *)bytes, count}, ret_root));
exit:
    free(bytes);
    return status;
}

char *ls_json_write(const json_t *value, size_t flags)
{
    json_free_t json_free = NULL;
    ls_thread_mode mode;
    ls_thread_mode_set(&mode);
    char *theirs = json_dumps(value, flags), *text = theirs ? ls_text_copy(theirs) : NULL;
    ls_thread_mode_restore(&mode);
    /* The caller's program may have given jansson other functions than malloc and free. */
    json_get_alloc_funcs(NULL, &json_free);
    if (theirs) json_free(theirs);
    return text;
}

const char *ls_json_show(const json_t *value)
{
    enum { LONGEST = 60 };
    /* A large one is not written out to be cut off. */
    if (json_array_size(value) > 8) return "[...]";
    if (json_object_size(value) > 8) return "{...}";
    char *text = value ? ls_json_write(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    const size_t length = text ? strlen(text) : 0;
    char shortened[LONGEST + 4];
    snprintf(shortened, sizeof shortened, "%.*s%s", LONGEST, text ? text : "nothing",
             length > LONGEST ? "..." : "");
    free(text);
    return ls_show(shortened);
}
