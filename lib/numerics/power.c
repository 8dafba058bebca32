/* power.c - integer powers. */
#include "lockstep/numerics/functions.h"

double ls_power(double x, uint64_t n)
{
    double r = 1.0;
    for (; n != 0; n >>= 1) {
        if (n & 1) r = r * x;
        x = x * x;
    }
    return r;
}
