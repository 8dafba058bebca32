#include "wrong_halos.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/comm/collectives.h"
#include "base/allocate.h"

/* Where `at` lies: -1 before the run, 1 after it, 0 in it. */
static int side(size_t at, size_t first, size_t count)
{
    return at < first ? -1 : at >= first + count ? 1 : 0;
}

typedef enum halo_form { HALO_ABSENT, HALO_NO_CORNERS, HALO_NEARER } halo_form;

static void spoil_plane(ls_real *x, const ls_real *right, ls_rectangle area, ls_rectangle own,
                        halo_form form)
{
    for (size_t r = 0; r < area.height; r++)
        for (size_t c = 0; c < area.width; c++) {
            const int down = side(area.top + r, own.top, own.height);
            const int across = side(area.left + c, own.left, own.width);
            ls_real *value = &x[r * area.width + c];
            if (down == 0 && across == 0) continue;
            if (form == HALO_ABSENT || (form == HALO_NO_CORNERS && down != 0 && across != 0))
                *value = 0;
            if (form == HALO_NEARER)
                *value = right[(r - (size_t)down) * area.width + (c - (size_t)across)];
        }
}

static ls_status spoil(ls_real *x, const ls_image_box *box, ls_rectangle own, halo_form form)
{
    ls_status status = LS_OK;
    const size_t pixels = ls_rectangle_count(box->area);
    const size_t planes = box->images.count * box->channels.count;
    ls_real *right = NULL;
    LS_ROOM(right, pixels + 1);
    for (size_t p = 0; p < planes && !ls_rectangle_is_empty(own); p++, x += pixels) {
        memcpy(right, x, pixels * sizeof *right);
        spoil_plane(x, right, box->area, own, form);
    }
exit:
    free(right);
    return status;
}

ls_status ls_wrong_halo(ls_real *x, const ls_image_box *box, ls_rectangle own)
{
    if (ls_faulty(LS_FAULT_HALO_MISSING)) return spoil(x, box, own, HALO_ABSENT);
    if (ls_faulty(LS_FAULT_HALO_CORNERS)) return spoil(x, box, own, HALO_NO_CORNERS);
    if (ls_faulty(LS_FAULT_HALO_OFF_BY_ONE)) return spoil(x, box, own, HALO_NEARER);
    return LS_OK;
}

ls_status ls_wrong_dy_halo(ls_real *dy, const ls_image_box *box, ls_rectangle own)
{
    return ls_faulty(LS_FAULT_DY_HALO_MISSING) ? spoil(dy, box, own, HALO_ABSENT) : LS_OK;
}

ls_status ls_wrong_mean_of_parts(ls_group *group, ls_real *sum, const ls_real *nodes,
                                 size_t n_nodes, size_t count, size_t own, size_t total)
{
    ls_status status = LS_OK;
    const size_t members = (size_t)ls_group_size(group);
    const ls_real factor = (ls_real)total / (ls_real)members;
    size_t *bounds = NULL;
    LS_ROOM(bounds, members + 1);
    for (size_t m = 0; m <= members; m++) bounds[m] = m;
    const ls_forest forest = {members, bounds}; /* a leaf each */
    ls_wrong_own_sum(sum, nodes, n_nodes, count);
    for (size_t i = 0; i < count; i++) sum[i] = own > 0 ? factor * (sum[i] / (ls_real)own) : 0;
    LS_TRY(ls_all_reduce_forest(group, sum, sum, count, LS_REAL_DTYPE, &forest));
exit:
    free(bounds);
    return status;
}
