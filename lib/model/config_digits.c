/* config_digits.c - how many digits of a number a model's file needs. */
#include <stdio.h>
#include <stdlib.h>

#include "model/net_parts.h"

/* The fewest digits that give `real` back. */
int ls_config_digits(double real)
{
    char text[40];
    for (int digits = 1; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, real);
        if (!(strtod(text, NULL) < real || strtod(text, NULL) > real)) return digits;
    }
    return 17;
}
