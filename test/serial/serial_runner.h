/* serial_runner.h - one forward and backward pass in either precision, with everything that goes in
 * and comes out in binary64, so that one test can hold the two precisions beside each other. */
#ifndef LS_TEST_SERIAL_RUNNER_H
#define LS_TEST_SERIAL_RUNNER_H

#include "lockstep/base/real.h"
#include "lockstep/model/batch.h"
#include "lockstep/model/param_table.h"
#include "lockstep/numerics/gemm.h"

/* values, ret_gradients: whole logical tensors in table order; ret_logits: B S x V. */
ls_status serial_run_f32(const ls_param_table *table, ls_engine engine, const ls_batch *batch,
                         const double *values, double *ret_loss, double *ret_logits,
                         double *ret_gradients) LS_MUST_USE;
ls_status serial_run_f64(const ls_param_table *table, ls_engine engine, const ls_batch *batch,
                         const double *values, double *ret_loss, double *ret_logits,
                         double *ret_gradients) LS_MUST_USE;

#endif
