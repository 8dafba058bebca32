/* json_scan.h - a JSON text looked through without memory: is it whole, and where are its parts.
 *
 * A text from outside is scanned before jansson makes a tree of it. So a damaged text is refused
 * before it takes memory, a large one is read member by member, and when jansson fails on a text
 * that was scanned, the cause is memory or one of the few errors that it names by a code. */
#ifndef LS_BASE_JSON_SCAN_H
#define LS_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

enum { LS_JSON_MOST_DEPTH = 256 }; /* brackets inside brackets */

/* Part of a text: a value, or a key with its quotes. */
typedef struct ls_json_span {
    const char *text;
    size_t bytes;
} ls_json_span;

typedef struct ls_json_scan {
    const char *at, *end;
    const char *fault; /* what is wrong at `at`; NULL: nothing so far */
    char close;        /* of the object or array that is gone through */
    bool begun;
} ls_json_scan;

/* Whether the text is one JSON value (RFC 8259), with white space around it. Strings are not
 * checked for UTF-8, \u0000 is refused, and nesting is limited. false: ret_scan->fault and ->at say
 * what is wrong, and where. */
bool ls_json_is_whole(ls_json_scan *ret_scan, ls_json_span text);

/* Goes through an object ({) or an array ([), member after member:
 *     ls_json_open(&scan, text, '{');
 *     while (ls_json_next(&scan, &key, &value)) ...
 *     if (scan.fault) ...
 * ret_key: NULL or unchanged for an array. The end comes with `false` and no fault. */
void ls_json_open(ls_json_scan *ret_scan, ls_json_span text, char bracket);
bool ls_json_next(ls_json_scan *scan, ls_json_span *ret_key, ls_json_span *ret_value);

/* Whether a key is `name`, which has no escapes. */
bool ls_json_key_is(ls_json_span key, const char *name);

#endif
