/* utf8.h - whether bytes are text. */
#ifndef LS_BASE_UTF8_H
#define LS_BASE_UTF8_H

#include <stdbool.h>

/* Whether a string is UTF-8: shortest forms only, no surrogates. */
bool ls_is_utf8(const char *text);

#endif
