/* json_text.h - JSON from outside as a tree, and back: jansson with the errors, the memory and the
 * decimal point that this library wants. All JSON that is read goes through here. */
#ifndef LS_BASE_JSON_TEXT_H
#define LS_BASE_JSON_TEXT_H

#include <jansson.h>

#include "base/json_scan.h"
#include "lockstep/base/status.h"

/* The tree of a whole text, which json_decref frees. label: what errors call the text, shown as it
 * is. Errors: LS_ERR_INPUT, "LABEL: not JSON: line 3, column 7: ...": not whole, a byte-order mark,
 * a key twice, a number that does not fit, not UTF-8; LS_ERR_MEMORY. */
ls_status ls_json_parse(const char *label, ls_json_span text, json_t **ret_root) LS_MUST_USE;

/* The tree of a file of at most `most_bytes`; a pipe or a device is read too. Errors: those of
 * ls_read_file and ls_json_parse. */
ls_status ls_json_read(const char *path, size_t most_bytes, json_t **ret_root) LS_MUST_USE;

/* The error of a scan that found a fault in `text`: as ls_json_parse. */
ls_status ls_json_fault(const char *label, ls_json_span text, const ls_json_scan *scan) LS_MUST_USE;

/* The text of a tree, which the caller frees; NULL: no memory. flags: jansson's. */
char *ls_json_write(const json_t *value, size_t flags);

/* The text of a value for messages, shortened; of an array or object, whose text could be long,
 * [...] or {...} when it does not fit. NULL: "nothing". */
const char *ls_json_show(const json_t *value);

#endif
