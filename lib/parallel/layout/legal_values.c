/* legal_values.c - lists the allowed values in an error's line. */
#include "parallel/layout/legal_values.h"
#include "base/append.h"

#include <stdio.h>

const char *ls_legal_values_text(const int *values, size_t n, char buffer[LS_LEGAL_VALUES_TEXT])
{
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < n && i < LS_CHOICES_SHOWN; i++)
        used = ls_append(buffer, LS_LEGAL_VALUES_TEXT, used, "%s%d", ls_or(i, n), values[i]);
    if (n > LS_CHOICES_SHOWN) ls_append(buffer, LS_LEGAL_VALUES_TEXT, used, ", ...");
    return buffer;
}

const char *ls_legal_values_up_to(size_t most, char buffer[48])
{
    snprintf(buffer, 48, most == 2 ? "1 or 2" : most > 2 ? "1 to %zu" : "1", most);
    return buffer;
}
