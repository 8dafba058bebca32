/* text_table.h - tables of a terminal: columns as wide as their widest cell, and numbers as people
 * read them. */
#ifndef LS_REPORT_TEXT_TABLE_H
#define LS_REPORT_TEXT_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lockstep/base/status.h"

typedef struct ls_text_table ls_text_table;

/* A table of `columns` columns; the first is set to the left, the others to the right. */
ls_status ls_text_table_create(ls_text_table **ret_table, size_t columns) LS_MUST_USE;
void ls_text_table_destroy(ls_text_table **table);

/* Adds one cell, row by row from left to right; copies the text. */
ls_status ls_text_table_add(ls_text_table *table, const char *format, ...)
    LS_PRINTF(2, 3) LS_MUST_USE;

/* Prints all complete rows, two spaces between columns. */
void ls_text_table_print(const ls_text_table *table, FILE *file);

enum { LS_NUMBER_TEXT = 40 };

/* Writes "1,234,567". Returns buffer. */
const char *ls_number_text(uint64_t number, char buffer[LS_NUMBER_TEXT]);

/* Writes "1 layout", "2 layouts": the noun with an s unless there is one of it. Returns buffer. */
const char *ls_count_text(uint64_t count, const char *noun, char buffer[LS_NUMBER_TEXT]);

/* Writes "812 B", "1.23 kB", "45.6 MB": powers of 1000, three digits. Returns buffer. */
const char *ls_bytes_text(uint64_t bytes, char buffer[LS_NUMBER_TEXT]);

/* Writes "0.46 s", "12.3 s", "2 min 05 s". Returns buffer. */
const char *ls_duration_text(uint64_t ns, char buffer[LS_NUMBER_TEXT]);

#endif
