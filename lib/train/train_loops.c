/* train_loops.c - the loop that a run asks for: serial or ranks, binary32 or binary64. */
#include "train/training.h"

ls_status ls_train_serial_f32(const ls_run *run, const ls_param_table *table,
                              const ls_train_hooks *watcher, ls_train_result *ret_result);
ls_status ls_train_serial_f64(const ls_run *run, const ls_param_table *table,
                              const ls_train_hooks *watcher, ls_train_result *ret_result);
ls_status ls_train_layout_f32(const ls_run *run, const ls_param_table *table,
                              const ls_train_hooks *watcher, ls_train_result *ret_result);
ls_status ls_train_layout_f64(const ls_run *run, const ls_param_table *table,
                              const ls_train_hooks *watcher, ls_train_result *ret_result);

ls_status ls_train_either(const ls_run *run, const ls_param_table *table,
                          const ls_train_hooks *watcher, ls_train_result *ret_result)
{
    bool f64 = run->dtype == LS_F64;
    if (run->serial)
        return (f64 ? ls_train_serial_f64 : ls_train_serial_f32)(run, table, watcher, ret_result);
    return (f64 ? ls_train_layout_f64 : ls_train_layout_f32)(run, table, watcher, ret_result);
}
