/* param_shard.h - where a shard lies in its logical tensor. */
#ifndef LS_MODEL_PARAM_SHARD_H
#define LS_MODEL_PARAM_SHARD_H

#include "lockstep/model/param_table.h"

/* A shard as a window on the logical tensor, dims[0] x dims[1]: it begins at (first_row,
 * first_col); of its rows x cols elements the leading real_rows x real_cols are the tensor's, the
 * others padding. Element (r, c) of the window is number r * cols + c of the shard in memory; that
 * holds for a vector too, a window one column wide. */
typedef struct ls_shard_window {
    size_t first_row, first_col;
    size_t rows, cols;
    size_t real_rows, real_cols;
} ls_shard_window;

ls_shard_window ls_param_window(const ls_param *param, ls_shard shard);

#endif
