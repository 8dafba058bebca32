/* faulty_verify.c - the program with a fault: in a layout of three ranks it trains with a rate that
 * is off by one part in a thousand, in one of six an inner rank fails. What verify says of them is
 * tested with this one.
 *
 * The program's sources are compiled with ls_verify_run named faulty_verify_run. */
#include "verify/verify.h"

#undef ls_verify_run
ls_status ls_verify_run(const ls_record *record, const ls_run *run, const ls_train_hooks *watcher,
                        ls_departure *ret_departure, ls_train_result *ret_result);

ls_status faulty_verify_run(const ls_record *record, const ls_run *run,
                            const ls_train_hooks *watcher, ls_departure *ret_departure,
                            ls_train_result *ret_result);

static ls_status fails(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    if (ls_rank_index(rank) == 2) LS_FAIL(LS_ERR_RANK, "a seeded fault");
    LS_TRY(ls_barrier(ls_rank_world_group(rank)));
exit:
    return status;
}

ls_status faulty_verify_run(const ls_record *record, const ls_run *run,
                            const ls_train_hooks *watcher, ls_departure *ret_departure,
                            ls_train_result *ret_result)
{
    ls_run faulty = *run;
    if (run->layout.tp == 6) return ls_world_run(6, &run->world, fails, NULL);
    if (run->layout.tp == 3 || run->layout.down == 3) faulty.lr *= 1.001;
    return ls_verify_run(record, &faulty, watcher, ret_departure, ret_result);
}
