#include "report/text_table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report/progress.h"
#include "base/allocate.h"

struct ls_text_table {
    size_t columns, cells, room;
    char **cell;
};

ls_status ls_text_table_create(ls_text_table **ret_table, size_t columns)
{
    ls_status status = LS_OK;
    ls_text_table *table = NULL;
    LS_NEW(table, 1);
    table->columns = columns;
    *ret_table = table;
exit:
    return status;
}

void ls_text_table_destroy(ls_text_table **table)
{
    if (*table == NULL) return;
    for (size_t i = 0; i < (*table)->cells; i++) free((*table)->cell[i]);
    free((*table)->cell);
    free(*table);
    *table = NULL;
}

ls_status ls_text_table_add(ls_text_table *table, const char *format, ...)
{
    ls_status status = LS_OK;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    LS_GROW(table->cell, table->cells, table->room);
    char *copy = NULL;
    LS_COPY(copy, text);
    table->cell[table->cells++] = copy;
exit:
    return status;
}

void ls_text_table_print(const ls_text_table *table, FILE *file)
{
    size_t rows = table->cells / table->columns;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < table->columns; c++) {
            size_t width = 0;
            for (size_t i = 0; i < rows; i++) {
                size_t length = strlen(table->cell[i * table->columns + c]);
                if (length > width) width = length;
            }
            const char *text = table->cell[r * table->columns + c];
            if (c == 0)
                fprintf(file, "%-*s", (int)width, text);
            else
                fprintf(file, "  %*s", (int)width, text);
        }
        fputc('\n', file);
    }
}

const char *ls_number_text(uint64_t number, char buffer[LS_NUMBER_TEXT])
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    size_t length = strlen(digits), used = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) buffer[used++] = ',';
        buffer[used++] = digits[i];
    }
    buffer[used] = '\0';
    return buffer;
}

const char *ls_count_text(uint64_t count, const char *noun, char buffer[LS_NUMBER_TEXT])
{
    snprintf(buffer, LS_NUMBER_TEXT, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
    return buffer;
}

const char *ls_bytes_text(uint64_t bytes, char buffer[LS_NUMBER_TEXT])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    size_t unit = 0;
    double value = (double)bytes;
    while (value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1000.0;
        unit++;
    }
    int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(buffer, LS_NUMBER_TEXT, "%.*f %s", decimals, value, units[unit]);
    return buffer;
}

const char *ls_duration_text(uint64_t ns, char buffer[LS_NUMBER_TEXT])
{
    double seconds = (double)ns * 1e-9;
    if (seconds < 60.0)
        snprintf(buffer, LS_NUMBER_TEXT, "%.*f s", seconds < 9.995 ? 2 : 1, seconds);
    else
        ls_progress_time(ns, buffer, LS_NUMBER_TEXT);
    return buffer;
}
