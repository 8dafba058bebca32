/* legal_values.h - legal values as the end of an error's line: "1, 2, 3 or 6", "1 to 8". */
#ifndef LS_PARALLEL_LAYOUT_LEGAL_VALUES_H
#define LS_PARALLEL_LAYOUT_LEGAL_VALUES_H

#include <stddef.h>

enum { LS_CHOICES_SHOWN = 32, LS_LEGAL_VALUES_TEXT = LS_CHOICES_SHOWN * 12 + 8 };

/* n values, of which `values` has at least the first LS_CHOICES_SHOWN; what comes after these is
 * "...". Returns buffer. */
const char *ls_legal_values_text(const int *values, size_t n, char buffer[LS_LEGAL_VALUES_TEXT]);

/* All from 1 to `most`. Returns buffer. */
const char *ls_legal_values_up_to(size_t most, char buffer[48]);

#endif
