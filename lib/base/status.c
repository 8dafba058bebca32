#include "lockstep/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error_record.h"
#include "base/thread_mode.h"
#include "lockstep/base/show.h"
#include "base/append.h"

static _Thread_local ls_error record;

int ls_exit_code(ls_status status)
{
    switch (status) {
    case LS_OK:
        return 0;
    case LS_DIFFERENT:
        return 1;
    case LS_ERR_INPUT:
    case LS_ERR_MEMORY:
    case LS_ERR_IO:
        return 2;
    case LS_ERR_RANK:
    case LS_ERR_ABORTED:
    case LS_ERR_INTERNAL:
        return 3;
    case LS_ERR_INTERRUPTED:
        return 130;
    }
    return 3;
}

const char *ls_error_text(void)
{
    return record.text;
}

const char *ls_error_place(void)
{
    return record.place;
}

void ls_error_clear(void)
{
    record.status = LS_OK;
    record.place[0] = '\0';
    record.text[0] = '\0';
}

const ls_error *ls_error_current(void)
{
    return &record;
}

/* A text is one line whatever the names in it hold: a file name may well contain a line end, or
 * bytes that a terminal obeys. Bytes from 0x80 on stay, they are letters of some alphabet. */
static void make_one_line(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
    }
}

/* Formats into the record and shows by three dots where a text was too long for it. The arguments
 * may be of the record itself. */
static void write_text(const char *prefix, const char *format, va_list arguments)
{
    char text[sizeof record.text];
    size_t used = strlen(prefix);
    if (used >= sizeof text) used = sizeof text - 1;
    memcpy(text, prefix, used);
    size_t room = sizeof text - used;
    int length = vsnprintf(text + used, room, format, arguments);
    if (length < 0) text[used] = '\0'; /* only an invalid wide string can do this */
    if (length > 0 && (size_t)length >= room) memcpy(text + sizeof text - 4, "...", 4);
    make_one_line(text);
    memcpy(record.text, text, strlen(text) + 1);
}

ls_status ls_error_record(ls_status status, const char *file, int line, const char *format, ...)
{
    if (status == LS_OK) return status;
    ls_thread_mode mode;
    ls_thread_mode_set(&mode); /* 0.5 is written with a point */
    const char *slash = strrchr(file, '/');
    record.status = status;
    snprintf(record.place, sizeof record.place, "%.80s:%d", slash ? slash + 1 : file, line);
    va_list arguments;
    va_start(arguments, format);
    write_text("", format, arguments);
    va_end(arguments);
    ls_thread_mode_restore(&mode);
    return status;
}

LS_PRINTF(2, 3) static void write_after(const char *prefix, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_text(prefix, format, arguments);
    va_end(arguments);
}

ls_status ls_error_adopt(const ls_error *error, const char *prefix)
{
    if (error->status == LS_OK) return LS_OK;
    record.status = error->status;
    memmove(record.place, error->place, sizeof record.place);
    write_after(prefix, "%s", error->text);
    return error->status;
}

void ls_error_rename(const char *from, const char *to)
{
    char text[sizeof record.text + 1], name[512], *at = record.text, *next;
    snprintf(name, sizeof name, "%s", ls_show(from));
    const size_t length = strlen(name);
    size_t used = 0;
    to = ls_show(to);
    if (record.status == LS_OK || length == 0) return;
    for (; (next = strstr(at, name)) != NULL; at = next + length)
        used = ls_append(text, sizeof text, used, "%.*s%s", (int)(next - at), at, to);
    used = ls_append(text, sizeof text, used, "%s", at);
    if (used >= sizeof record.text) memcpy(text + sizeof record.text - 4, "...", 4);
    memcpy(record.text, text, sizeof record.text);
}
