/* check_distance.c - whether distances are too large on average, over a tensor or over some of its
 * rows. */
#include <math.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "check/check_parts.h"

void ls_check_count_outside(ls_check_outside *of, size_t i)
{
    if (of->count == 0 || i < of->first) of->first = i;
    of->count++;
}

/* At least one is as far off as the root mean square. */
static void count_those(ls_check_outside *of, const double *far, size_t first, size_t count,
                        double allowed)
{
    for (size_t i = first; i < first + count; i++)
        if (!(far[i] <= allowed)) ls_check_count_outside(of, i);
}

void ls_check_spread(ls_check_outside *of, const double *far, size_t count, double whole,
                     size_t run, const double *rows)
{
    if (!(ls_root_mean_square(far, count) <= whole)) {
        count_those(of, far, 0, count, whole);
        return;
    }
    for (size_t first = 0; rows && first < count; first += run) {
        const size_t n = count - first < run ? count - first : run;
        const double allowed = rows[first / run];
        if (!(ls_root_mean_square(far + first, n) <= allowed))
            count_those(of, far, first, n, allowed);
    }
}

/* How many standard deviations, as they are estimated from above, the root mean square of n
 * elements may be. Those of a row have errors in common, its norm's for one. */
static double factor(double least, size_t n)
{
    return least + (LS_DEVIATIONS - least) / sqrt((double)n);
}

ls_status ls_check_deviations(ls_check_outside *of, const double *far, const double *deviation,
                              size_t count, size_t run, double *ret_whole)
{
    static const double of_all = 1.5, of_rows = 3;
    ls_status status = LS_OK;
    const size_t groups = (count + run - 1) / run;
    double *rows = NULL;
    LS_ROOM(rows, groups + 1);
    for (size_t g = 0; g < groups; g++) {
        const size_t first = g * run, n = count - first < run ? count - first : run;
        rows[g] = factor(of_rows, n) * ls_root_mean_square(deviation + first, n);
    }
    *ret_whole = count > 0 ? factor(of_all, count) * ls_root_mean_square(deviation, count) : 0;
    ls_check_spread(of, far, count, *ret_whole, run, rows);
exit:
    free(rows);
    return status;
}
