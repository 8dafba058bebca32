/* record.h - the inside of an ls_record, for those who compare. */
#ifndef LS_VERIFY_RECORD_H
#define LS_VERIFY_RECORD_H

#include "verify/verify.h"

typedef struct ls_recorded_step {
    double loss;
    void **gradient, **value; /* one array per parameter of the table */
} ls_recorded_step;

struct ls_record {
    ls_param_table *table;
    ls_dtype dtype;
    uint64_t first_step, steps;
    ls_recorded_step *step;
    const ls_train_hooks *beside; /* further hooks while it is made; may be NULL */
};

/* Place in the record's table of a parameter of another table of the same model. */
size_t ls_record_place(const ls_record *record, const ls_param *param);

#endif
