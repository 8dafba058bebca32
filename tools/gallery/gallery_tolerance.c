/* gallery_tolerance.c - what a comparison with one tolerance for all would have said. */
#include <math.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "gallery.h"

const double ls_gallery_tolerances[LS_GALLERY_TOLERANCES] = {1e-2, 1e-3, 1e-5};

static double value(ls_dtype dtype, const void *values, size_t i)
{
    double wide;
    ls_widen(LS_F64, &wide, dtype, (const char *)values + i * ls_dtype_bytes(dtype), 1);
    return wide;
}

/* |a - b| <= atol + rtol |b|; infinities are close to themselves only, NaN to nothing. */
static bool close(double a, double b, double tolerance)
{
    if (!isfinite(a) || !isfinite(b)) return a == b;
    return fabs(a - b) <= tolerance + tolerance * fabs(b);
}

static void compare_tensor(const ls_candidate_tensor *tensor, bool *all_close)
{
    const ls_golden_tensor *golden = tensor->golden;
    for (size_t i = 0; i < golden->count; i++) {
        const double a = value(tensor->dtype, tensor->values, i);
        const double b = value(golden->dtype, golden->values, i);
        for (int t = 0; t < LS_GALLERY_TOLERANCES; t++)
            all_close[t] &= close(a, b, ls_gallery_tolerances[t]);
    }
}

void ls_gallery_compare(const ls_candidate *candidate, ls_gallery_row *row)
{
    for (int t = 0; t < LS_GALLERY_TOLERANCES; t++)
        row->losses_close[t] = row->gradients_close[t] = true;
    for (size_t i = 0; i < candidate->count; i++) {
        const ls_candidate_tensor *tensor = &candidate->tensors[i];
        const char *name = ls_tensor_name_parse(tensor->golden->name).rest;
        if (strcmp(name, "loss") == 0) compare_tensor(tensor, row->losses_close);
        if (strncmp(name, "grad.", 5) == 0) compare_tensor(tensor, row->gradients_close);
    }
}
