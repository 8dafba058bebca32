/* option_text.h - what an option allows, in words. */
#ifndef LS_BASE_OPTION_TEXT_H
#define LS_BASE_OPTION_TEXT_H

#include <stddef.h>

#include "lockstep/base/options.h"

enum { LS_OPTION_TEXT = 512 };

/* Writes "a whole number from 1 to 64", "portable or openblas", ...; size bytes, always
 * terminated. */
void ls_option_allowed(const ls_option *option, char *buffer, size_t size);

#endif
