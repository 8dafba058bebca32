/* decimal_point.h - a locale with another decimal point, made where the machine has the means: for
 * tests that no number in a text depends on it. */
#ifndef TEST_BASE_DECIMAL_POINT_H
#define TEST_BASE_DECIMAL_POINT_H

#include <locale.h>
#include <stdbool.h>

#include "io/scratch.h"

/* Makes it in the scratch folder and sets it as LC_NUMERIC. point: "<U002C>", a comma; "<U066B>",
 * an Arabic one of two bytes. false: there is no localedef. Asserts nothing: main may call it. */
static inline bool set_decimal_point(const char *point)
{
    char command[1000];
    FILE *source = fopen(scratch_path("source"), "w");
    if (source == NULL) return false;
    fprintf(source,
            "LC_NUMERIC\ndecimal_point \"%s\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n",
            point);
    fclose(source);
    snprintf(command, sizeof command,
             "localedef -c -i '%.400s/source' -f UTF-8 '%.400s/comma.UTF-8' >/dev/null 2>&1",
             scratch_folder, scratch_folder);
    if (system(command) < 0) return false;
    setenv("LOCPATH", scratch_folder, 1);
    return setlocale(LC_NUMERIC, "comma.UTF-8") && strcmp(localeconv()->decimal_point, ".") != 0;
}

#endif
