/* utf8.h - which texts JSON can hold. */
#ifndef LS_BASE_UTF8_H
#define LS_BASE_UTF8_H

#include <stdbool.h>

/* Whether every byte of the text belongs to a UTF-8 sequence: shortest form, no surrogates, nothing
 * above U+10FFFF. In show.c. */
bool ls_is_utf8(const char *text);

#endif
