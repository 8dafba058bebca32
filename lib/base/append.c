#include "base/append.h"

#include <stdio.h>

size_t ls_append(char *text, size_t size, size_t used, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    used = ls_append_list(text, size, used, format, arguments);
    va_end(arguments);
    return used;
}

size_t ls_append_list(char *text, size_t size, size_t used, const char *format, va_list arguments)
{
    if (size == 0) return 0;
    if (used >= size) used = size - 1;
    const int more = vsnprintf(text + used, size - used, format, arguments);
    if (more < 0) {
        text[used] = '\0'; /* only an invalid wide string can do this */
        return used;
    }
    return (size_t)more < size - used ? used + (size_t)more : size - 1;
}
