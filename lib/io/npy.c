/* npy.c - NumPy's format of one array: a magic word, a version, the header's length, the header (a
 * Python dictionary as text), the array. */
#include "lockstep/io/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/read_file.h"
#include "io/new_file.h"
#include "io/safetensors_format.h"
#include "lockstep/base/show.h"
#include "base/append.h"

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

/* BF16 is unknown to NumPy. */
static const struct {
    ls_dtype dtype;
    const char *descr;
} names[] = {{LS_F32, "<f4"}, {LS_F64, "<f8"}, {LS_I32, "<i4"},
             {LS_I64, "<i8"}, {LS_U8, "|u1"},  {LS_F16, "<f2"}};

enum { N_NAMES = sizeof names / sizeof names[0], MAX_DIMS = LS_NPY_MAX_DIMS };

/* Bytes of an array; returns 0 when they are more than 2^60. */
static int bytes_of(ls_dtype dtype, int n_dims, const uint64_t *dims, uint64_t *ret_bytes)
{
    uint64_t bytes = ls_dtype_bytes(dtype);
    for (int i = 0; i < n_dims; i++)
        if (dims[i] == 0) bytes = 0;
    for (int i = 0; bytes > 0 && i < n_dims; i++) {
        if (dims[i] > ((uint64_t)1 << 60) / bytes) return 0;
        bytes *= dims[i];
    }
    *ret_bytes = bytes;
    return 1;
}

/* ---- writing ---- */

ls_status ls_npy_write(const char *path, ls_dtype dtype, int n_dims, const uint64_t *dims,
                       const void *data)
{
    ls_status status = LS_OK;
    ls_new_file *file = NULL;
    const char *descr = NULL;
    uint64_t bytes = 0;
    for (int i = 0; i < N_NAMES; i++)
        if (names[i].dtype == dtype) descr = names[i].descr;
    if (!descr) LS_FAIL(LS_ERR_INPUT, "%s: npy has no %s", ls_show(path), ls_dtype_name(dtype));
    if (n_dims < 0 || n_dims > MAX_DIMS)
        LS_FAIL(LS_ERR_INPUT, "%s: %d dimensions; at most %d", ls_show(path), n_dims, MAX_DIMS);
    if (!bytes_of(dtype, n_dims, dims, &bytes) || bytes > SIZE_MAX)
        LS_FAIL(LS_ERR_INPUT, "%s: more bytes than a file can hold", ls_show(path));

    /* 10 bytes, the dictionary, spaces up to a line end that ends a multiple of 64. Eight sizes of
     * 20 digits fit well. */
    char text[320];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "%.6s%c%c%c%c{'descr': '%s', 'fortran_order': False, 'shape': (",
                                   magic, 1, 'v', 'l', 'h', descr);
    for (int i = 0; i < n_dims; i++)
        used = ls_append(text, sizeof text, used,
                         n_dims == 1 ? "%llu,"
                         : i         ? ", %llu"
                                     : "%llu",
                         (unsigned long long)dims[i]);
    used = ls_append(text, sizeof text, used, "), }");
    while ((used + 1) % 64 != 0) text[used++] = ' ';
    text[used++] = '\n';
    text[7] = 0; /* version 1.0 */
    text[8] = (char)((used - 10) & 0xff);
    text[9] = (char)((used - 10) >> 8);

    LS_TRY(ls_new_file_create(&file, path));
    LS_TRY(ls_new_file_write(file, text, used));
    LS_TRY(ls_new_file_write(file, data, (size_t)bytes));
    LS_TRY(ls_new_file_commit(file));
exit:
    ls_new_file_destroy(&file);
    return status;
}

/* ---- reading ---- */

/* The header's text, eaten from the front. */
typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_spaces(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
}

/* Whether the next thing is this word; eats it if so. */
static int eat(cursor *c, const char *word)
{
    skip_spaces(c);
    size_t length = strlen(word);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return 0;
    c->at += length;
    return 1;
}

/* A quoted string without escapes of less than `room` bytes. */
static int eat_string(cursor *c, char *ret_text, size_t room)
{
    skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return 0;
    const char *from = c->at + 1;
    const char *to = memchr(from, *c->at, (size_t)(c->end - from));
    if (!to || (size_t)(to - from) >= room) return 0;
    memcpy(ret_text, from, (size_t)(to - from));
    ret_text[to - from] = '\0';
    c->at = to + 1;
    return 1;
}

static int eat_number(cursor *c, uint64_t *ret_number)
{
    skip_spaces(c);
    uint64_t number = 0;
    const char *from = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (number > ((uint64_t)1 << 60) / 10) return 0;
        number = number * 10 + (uint64_t)(*c->at - '0');
    }
    *ret_number = number;
    return c->at > from;
}

/* "()", "(3,)", "(3, 4)" */
static int eat_shape(cursor *c, int *ret_n_dims, uint64_t *ret_dims)
{
    int n = 0, comma = 0;
    if (!eat(c, "(")) return 0;
    while (!eat(c, ")")) {
        if (n == MAX_DIMS || (n > 0 && !comma) || !eat_number(c, &ret_dims[n])) return 0;
        n++;
        comma = eat(c, ",");
    }
    *ret_n_dims = n;
    return n != 1 || comma; /* without the comma it is a number in brackets */
}

typedef struct npy_header {
    char descr[16];
    int fortran;
    int n_dims;
    uint64_t dims[MAX_DIMS];
} npy_header;

/* The dictionary: three keys in any order, each once. */
static int parse_header(cursor c, npy_header *ret_header)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    int seen = 0, comma = 1;
    char key[16];
    if (!eat(&c, "{")) return 0;
    while (!eat(&c, "}")) {
        if (!comma || !eat_string(&c, key, sizeof key) || !eat(&c, ":")) return 0;
        int this = 0;
        if (strcmp(key, "descr") == 0) {
            this = DESCR;
            if (!eat_string(&c, ret_header->descr, sizeof ret_header->descr)) return 0;
        } else if (strcmp(key, "fortran_order") == 0) {
            this = ORDER;
            ret_header->fortran = eat(&c, "True");
            if (!ret_header->fortran && !eat(&c, "False")) return 0;
        } else if (strcmp(key, "shape") == 0) {
            this = SHAPE;
            if (!eat_shape(&c, &ret_header->n_dims, ret_header->dims)) return 0;
        }
        if (this == 0 || (seen & this)) return 0;
        seen |= this;
        comma = eat(&c, ",");
    }
    skip_spaces(&c);
    return seen == (DESCR | ORDER | SHAPE) && c.at == c.end;
}

/* Finds the header's text and the array after it. */
static ls_status find_header(const char *path, const unsigned char *bytes, size_t count,
                             cursor *ret_text)
{
    ls_status status = LS_OK;
    if (count < 10 || memcmp(bytes, magic, sizeof magic) != 0)
        LS_FAIL(LS_ERR_INPUT, "%s: not a npy file: it must begin with \\x93NUMPY and a version",
                ls_show(path));
    if (bytes[6] < 1 || bytes[6] > 3)
        LS_FAIL(LS_ERR_INPUT, "%s: npy version %d.%d; versions 1.0 to 3.0 are read", ls_show(path),
                bytes[6], bytes[7]);
    /* Two bytes of length in version 1, four later; 10 bytes are there, 12 may not be. */
    size_t begin = bytes[6] == 1 ? 10 : 12;
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (count >= 12 && begin == 12) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (begin > count || length > count - begin)
        LS_FAIL(LS_ERR_INPUT, "%s: its header claims %zu bytes, the file has %zu after the length",
                ls_show(path), length, begin > count ? 0 : count - begin);
    ret_text->at = (const char *)bytes + begin;
    ret_text->end = ret_text->at + length;
exit:
    return status;
}

ls_status ls_npy_read(const char *path, ls_dtype *ret_dtype, int *ret_n_dims, uint64_t *ret_dims,
                      void **ret_data)
{
    ls_status status = LS_OK;
    unsigned char *bytes = NULL;
    size_t count = 0;
    uint64_t needed = 0;
    cursor text;
    npy_header header = {.n_dims = 0};
    int found = -1;
    LS_TRY(ls_read_file(path, SIZE_MAX / 4, &bytes, &count));
    LS_TRY(find_header(path, bytes, count, &text));
    if (!parse_header(text, &header))
        LS_FAIL(
            LS_ERR_INPUT,
            "%s: its header must be {'descr': ..., 'fortran_order': ..., 'shape': (...)} with at "
            "most %d sizes; found %s",
            ls_show(path), MAX_DIMS, ls_show_bytes(text.at, (size_t)(text.end - text.at)));
    for (int i = 0; i < N_NAMES; i++)
        if (strcmp(header.descr, names[i].descr) == 0) found = i;
    if (found < 0)
        LS_FAIL(LS_ERR_INPUT, "%s: dtype \"%s\"; <f4, <f8, <f2, <i4, <i8 and |u1 are read",
                ls_show(path), ls_show(header.descr));
    if (header.fortran && header.n_dims > 1)
        LS_FAIL(LS_ERR_INPUT, "%s: is in Fortran order; save it in C order", ls_show(path));
    size_t begin = (size_t)(text.end - (const char *)bytes);
    if (!bytes_of(names[found].dtype, header.n_dims, header.dims, &needed) ||
        needed != count - begin)
        LS_FAIL(LS_ERR_INPUT, "%s: its shape and dtype do not make the %zu bytes of data it has",
                ls_show(path), count - begin);

    /* The array moves to the front of the block, so that the caller can free it. */
    memmove(bytes, bytes + begin, (size_t)needed);
    *ret_dtype = names[found].dtype;
    *ret_n_dims = header.n_dims;
    memcpy(ret_dims, header.dims, sizeof header.dims);
    *ret_data = bytes;
    bytes = NULL;
exit:
    free(bytes);
    return status;
}
