/* builtin_text.h - something to train on when no text is given. */
#ifndef LS_JOB_BUILTIN_TEXT_H
#define LS_JOB_BUILTIN_TEXT_H

#include <stddef.h>

extern const char ls_builtin_text[];
extern const size_t ls_builtin_text_bytes;

#endif
