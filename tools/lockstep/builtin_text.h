/* builtin_text.h - something to train on when no text is given. */
#ifndef LOCKSTEP_BUILTIN_TEXT_H
#define LOCKSTEP_BUILTIN_TEXT_H

#include <stddef.h>

extern const char builtin_text[];
extern const size_t builtin_text_bytes;

#endif
