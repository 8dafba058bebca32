/* forest_finish.h - the members' forests put together. */
#ifndef LS_COMM_FOREST_FINISH_H
#define LS_COMM_FOREST_FINISH_H

#include "comm/world_state.h"

/* y[i - lo] = T(leaves) at elements lo <= i < hi, from the partials of all members; each holds its
 * own one after another, `stride` elements apart. scratch: as ls_forest_prepare gives it. Between
 * entry and the next barrier. */
void ls_forest_finish_f32(const ls_team *team, void *scratch, float *y, size_t stride, size_t lo,
                          size_t hi);
void ls_forest_finish_f64(const ls_team *team, void *scratch, double *y, size_t stride, size_t lo,
                          size_t hi);

#endif
