/* verify.h - the same run twice, serial and in a layout, compared with each other bit for bit. */
#ifndef LS_VERIFY_VERIFY_H
#define LS_VERIFY_VERIFY_H

#include "train/train.h"
#include "lockstep/numerics/compare.h"

typedef struct ls_record ls_record; /* a run's losses, gradients and parameters, step by step */

/* Runs and keeps everything. Memory: 2 * parameters * steps * element size. watcher: may look on,
 * may be NULL. ret_result may be NULL. Errors: the run's; LS_ERR_INPUT when it has no step to do.
 */
ls_status ls_record_run(ls_record **ret_record, const ls_run *run, const ls_train_hooks *watcher,
                        ls_train_result *ret_result) LS_MUST_USE;
void ls_record_destroy(ls_record **record);
double ls_record_loss(const ls_record *record, uint64_t step);

/* Where a run stops being numbers: the first step, in order of execution, whose loss, a gradient or
 * a parameter holds a NaN. Any NaN equals any other, so from there on equal says nothing. */
typedef struct ls_undefined {
    bool found;
    uint64_t step;
    const char *phase; /* "loss", "gradient", "update" */
    char tensor[96];   /* "loss" for the loss */
} ls_undefined;

void ls_record_undefined(const ls_record *record, ls_undefined *ret_undefined);

enum { LS_UNDEFINED_TEXT = 256 }; /* room for it in words */

/* "nothing is compared from step 3 on: the loss is not a number". */
void ls_undefined_describe(const ls_undefined *undefined, char *buffer, size_t size);

/* A number for people: a NaN without its sign, which is that of no number. */
double ls_shown(double value);

/* The first place, in order of execution, where a layout's run departs from the record. */
typedef struct ls_departure {
    uint64_t step;
    const char *phase; /* "loss", "gradient", "update" */
    char tensor[96];   /* "loss" for the loss */
    int n_index;       /* 4 of a convolution's weight (made, read, row, column), else 2 */
    size_t index[4];   /* logical */
    ls_difference difference;
    size_t tensors; /* how many tensors differ in all, over all steps */
} ls_departure;

/* Runs `run` and compares with the record: LS_OK equal everywhere (a NaN equals any NaN: ask
 * ls_record_undefined whether everything was compared), LS_DIFFERENT with *ret_departure
 * filled, or the run's failure. watcher: may look on, may be NULL. ret_result, ret_departure may be
 * NULL. */
ls_status ls_verify_run(const ls_record *record, const ls_run *run, const ls_train_hooks *watcher,
                        ls_departure *ret_departure, ls_train_result *ret_result) LS_MUST_USE;

/* Distance of a record from the truth: the record of the same run, serial, binary64,
 * LS_ENGINE_PLAIN. */
typedef struct ls_record_truth {
    double loss;     /* largest |loss - truth| / |truth| over the steps; NaN: one is not a number */
    double gradient; /* largest error of any gradient in the first step: max |x - t| over max |t|,
                        the latter at least a thousandth of its largest over all tensors; infinity:
                        a NaN where the truth has a number; NaN: both have none */
    char gradient_tensor[96];
    double parameter; /* the same over the parameters after the last step */
    char parameter_tensor[96];
} ls_record_truth;

ls_status ls_record_against_truth(const ls_record *record, const ls_record *truth,
                                  ls_record_truth *ret_truth) LS_MUST_USE;

/* One line for people: step, phase, tensor, index, both values as hexadecimal floats, ULPs, count.
 */
void ls_departure_describe(const ls_departure *departure, ls_dtype dtype, char *buffer,
                           size_t size);

#endif
