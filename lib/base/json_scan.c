#include "base/json_scan.h"

#include <string.h>

static bool fail(ls_json_scan *s, const char *fault)
{
    if (!s->fault) s->fault = fault;
    return false;
}

static void skip_space(ls_json_scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

static bool is_digit(const ls_json_scan *s)
{
    return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

/* The four digits after \u; -1: something else. */
static int read_escape(const ls_json_scan *s, const char *at)
{
    int code = 0;
    if (s->end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const char c = at[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        code = 16 * code + digit;
    }
    return code;
}

/* After the backslash. Halves of a surrogate pair come together or not at all. */
static bool skip_escape(ls_json_scan *s)
{
    if (s->at < s->end && *s->at != '\0' && strchr("\"\\/bfnrt", *s->at)) {
        s->at++;
        return true;
    }
    const int code = s->at < s->end && *s->at == 'u' ? read_escape(s, s->at + 1) : -1;
    if (code <= 0) return fail(s, code == 0 ? "\\u0000 in a string" : "an unknown escape");
    if (code >= 0xdc00 && code <= 0xdfff) return fail(s, "half of a surrogate pair");
    s->at += 5;
    if (code < 0xd800 || code > 0xdbff) return true;
    const bool pair = s->end - s->at >= 2 && s->at[0] == '\\' && s->at[1] == 'u';
    const int low = pair ? read_escape(s, s->at + 2) : -1;
    if (low < 0xdc00 || low > 0xdfff) return fail(s, "half of a surrogate pair");
    s->at += 6;
    return true;
}

static bool skip_string(ls_json_scan *s)
{
    if (s->at == s->end) return fail(s, "the text ends where a string is expected");
    if (*s->at != '"') return fail(s, "a string is expected");
    for (s->at++; s->at < s->end; s->at++) {
        if (*s->at == '"') {
            s->at++;
            return true;
        }
        if ((unsigned char)*s->at < 0x20) return fail(s, "a control character in a string");
        if (*s->at != '\\') continue;
        s->at++;
        if (!skip_escape(s)) return false;
        s->at--;
    }
    return fail(s, "the text ends inside a string");
}

static bool skip_digits(ls_json_scan *s)
{
    if (!is_digit(s)) return fail(s, "a digit is expected");
    while (is_digit(s)) s->at++;
    return true;
}

static bool skip_number(ls_json_scan *s)
{
    if (*s->at == '-') s->at++;
    const char *first = s->at;
    if (!skip_digits(s)) return false;
    if (*first == '0' && s->at - first > 1) return fail(s, "a digit after a leading 0");
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        if (!skip_digits(s)) return false;
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->at++;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-')) s->at++;
        if (!skip_digits(s)) return false;
    }
    return true;
}

static bool skip_scalar(ls_json_scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    if (*s->at == '"') return skip_string(s);
    if (*s->at == '-' || is_digit(s)) return skip_number(s);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i]);
        if ((size_t)(s->end - s->at) < length || memcmp(s->at, words[i], length) != 0) continue;
        s->at += length;
        return true;
    }
    return fail(s, "a value is expected");
}

/* A key and its colon. */
static bool skip_key(ls_json_scan *s)
{
    skip_space(s);
    if (!skip_string(s)) return false;
    skip_space(s);
    if (s->at == s->end) return fail(s, "the text ends after a key");
    if (*s->at != ':') return fail(s, ": is expected");
    s->at++;
    return true;
}

/* What follows a value inside brackets: true at a comma, or at the closing one, which *ret_closed
 * says. */
static bool skip_separator(ls_json_scan *s, char close, bool *ret_closed)
{
    skip_space(s);
    if (s->at == s->end)
        return fail(s, close == '}' ? "the text ends inside an object"
                                    : "the text ends inside an array");
    *ret_closed = *s->at == close;
    if (*s->at != ',' && !*ret_closed)
        return fail(s, close == '}' ? ", or } is expected" : ", or ] is expected");
    s->at++;
    return true;
}

static bool skip_value(ls_json_scan *s)
{
    char close[LS_JSON_MOST_DEPTH];
    size_t depth = 0;
    for (;;) {
        skip_space(s);
        if (s->at == s->end) return fail(s, "the text ends where a value is expected");
        if (*s->at == '{' || *s->at == '[') {
            if (depth == LS_JSON_MOST_DEPTH) return fail(s, "brackets to a depth above 256");
            close[depth++] = *s->at == '{' ? '}' : ']';
            s->at++;
            skip_space(s);
            if (s->at == s->end || *s->at != close[depth - 1]) {
                if (close[depth - 1] == '}' && !skip_key(s)) return false;
                continue;
            }
            s->at++;
            depth--;
        } else if (!skip_scalar(s)) {
            return false;
        }
        for (bool closed = true; closed && depth > 0; depth -= closed)
            if (!skip_separator(s, close[depth - 1], &closed)) return false;
        if (depth == 0) return true;
        if (close[depth - 1] == '}' && !skip_key(s)) return false;
    }
}

/* Nothing but white space may follow. */
static bool check_end(ls_json_scan *s)
{
    skip_space(s);
    return s->at == s->end || fail(s, "more text after the end of the value");
}

bool ls_json_is_whole(ls_json_scan *ret_scan, ls_json_span text)
{
    *ret_scan = (ls_json_scan){.at = text.text, .end = text.text + text.bytes};
    return skip_value(ret_scan) && check_end(ret_scan);
}

void ls_json_open(ls_json_scan *ret_scan, ls_json_span text, char bracket)
{
    ls_json_scan *s = ret_scan;
    *s = (ls_json_scan){.at = text.text, .end = text.text + text.bytes};
    s->close = bracket == '{' ? '}' : ']';
    skip_space(s);
    if (s->at < s->end && *s->at == bracket)
        s->at++;
    else
        (void)fail(s,
                   bracket == '{' ? "an object {...} is expected" : "an array [...] is expected");
}

bool ls_json_next(ls_json_scan *scan, ls_json_span *ret_key, ls_json_span *ret_value)
{
    ls_json_scan *s = scan;
    bool closed = false;
    if (s->fault) return false;
    skip_space(s);
    if (!s->begun && s->at < s->end && *s->at == s->close) {
        s->at++;
        closed = true;
    } else if (s->begun && !skip_separator(s, s->close, &closed)) {
        return false;
    }
    s->begun = true;
    if (closed) {
        (void)check_end(s);
        return false;
    }
    if (s->close == '}') {
        skip_space(s);
        const char *key = s->at;
        if (!skip_string(s)) return false;
        if (ret_key) *ret_key = (ls_json_span){key, (size_t)(s->at - key)};
        s->at = key;
        if (!skip_key(s)) return false;
    }
    skip_space(s);
    const char *value = s->at;
    if (!skip_value(s)) return false;
    *ret_value = (ls_json_span){value, (size_t)(s->at - value)};
    return true;
}

bool ls_json_key_is(ls_json_span key, const char *name)
{
    return key.bytes == strlen(name) + 2 && memcmp(key.text + 1, name, key.bytes - 2) == 0;
}
