#include "lockstep/base/show.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/append.h"
#include "base/utf8.h"

enum { SLOTS = 8, ROOM = 512, LONGEST = 400 };

static char *next_slot(void)
{
    static _Thread_local char slots[SLOTS][ROOM];
    static _Thread_local unsigned turn;
    return slots[turn++ % SLOTS];
}

/* Length of the UTF-8 sequence at bytes[0 .. count), 0 when there is none: shortest form only, no
 * surrogates, nothing above U+10FFFF. */
static size_t decode(const unsigned char *bytes, size_t count, uint32_t *ret_code)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t length = 1; length <= 4; length++) {
        if ((bytes[0] & forms[length - 1].mask) != forms[length - 1].lead) continue;
        if (length > count) return 0;
        uint32_t code = bytes[0] & (unsigned char)~forms[length - 1].mask;
        for (size_t i = 1; i < length; i++) {
            if ((bytes[i] & 0xc0) != 0x80) return 0;
            code = code << 6 | (bytes[i] & 0x3f);
        }
        if (code < forms[length - 1].least || code > 0x10ffff) return 0;
        if (code >= 0xd800 && code <= 0xdfff) return 0;
        *ret_code = code;
        return length;
    }
    return 0;
}

bool ls_is_utf8(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t left = strlen(text), length;
    for (uint32_t code; left > 0; bytes += length, left -= length) {
        length = decode(bytes, left, &code);
        if (length == 0) return false;
    }
    return true;
}

/* Whether a terminal or a log may be given this character as it is. */
static int is_harmless(uint32_t code)
{
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return 0; /* control characters          */
    if (code >= 0x200b && code <= 0x200f) return 0;             /* no width; direction marks   */
    if (code >= 0x2028 && code <= 0x202e) return 0;             /* separators; direction turns */
    if (code >= 0x2060 && code <= 0x206f) return 0;             /* more of both                */
    return code != 0xfeff && code != 0x061c;
}

const char *ls_show_bytes(const void *data, size_t count)
{
    const unsigned char *bytes = data;
    char *out = next_slot();
    size_t used = 0, i = 0;
    while (i < count) {
        uint32_t code = 0;
        size_t length = decode(bytes + i, count - i, &code);
        int as_is = length > 0 && is_harmless(code) && code != '\\';
        size_t taken = length > 0 ? length : 1;
        if (used + 4 * taken > LONGEST) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (as_is) {
            memcpy(out + used, bytes + i, length);
            used += length;
        } else if (bytes[i] == '\\') {
            memcpy(out + used, "\\\\", 2);
            used += 2;
        } else {
            for (size_t j = 0; j < taken; j++)
                used = ls_append(out, ROOM, used, "\\x%02x", (unsigned)bytes[i + j]);
        }
        i += taken;
    }
    out[used] = '\0';
    return out;
}

const char *ls_show(const char *text)
{
    return text ? ls_show_bytes(text, strlen(text)) : "(null)";
}

/* strerror_r returns a pointer in glibc and a number elsewhere. */
static const char *from_number(int result, const char *buffer)
{
    return result == 0 ? buffer : "unknown error";
}

static const char *from_pointer(const char *result, const char *buffer)
{
    (void)buffer;
    return result;
}

const char *ls_show_errno(int error)
{
    char buffer[256] = "";
    return ls_show(_Generic(strerror_r(error, buffer, sizeof buffer),
        int: from_number,
        char *: from_pointer)(strerror_r(error, buffer, sizeof buffer), buffer));
}

/* ---- the nearest word ---- */

enum { WORD_MAX = 64 };

static char plain_letter(char letter)
{
    if (letter >= 'A' && letter <= 'Z') return (char)(letter - 'A' + 'a');
    return letter == '-' ? '_' : letter;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edits between two words of at most WORD_MAX letters, row by row of the usual table; the row
 * before the last is kept for swaps of neighbours. */
static size_t edits_between(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++) last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            char x = plain_letter(a[i - 1]), y = plain_letter(b[j - 1]);
            row[j] = smaller(smaller(last[j] + 1, row[j - 1] + 1), last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == plain_letter(b[j - 2]) && y == plain_letter(a[i - 2]))
                row[j] = smaller(row[j], before[j - 2] + 1);
        }
        size_t *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[m];
}

const char *ls_nearest(const char *word, const char *const *known, size_t count)
{
    size_t length = strlen(word);
    if (length == 0 || length > WORD_MAX) return NULL;
    const char *best = NULL;
    size_t fewest = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t longer = strlen(known[i]) > length ? strlen(known[i]) : length;
        if (longer > WORD_MAX) continue;
        /* One letter in four may be off: "nope" is not "norm". Of two or three letters one may,
         * but not the first of two: "ep" is not "tp". */
        size_t allowed = longer < 4 ? longer > 2 || word[0] == known[i][0] : longer / 4;
        size_t edits = edits_between(word, known[i]);
        if (edits <= allowed && edits < fewest) {
            fewest = edits;
            best = known[i];
        }
    }
    return best;
}
