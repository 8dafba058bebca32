/* conv2d_job.h - y and dx of a convolution as one job.
 *
 * Fill a rectangle of target pixels with products of a matrix and what each target meets in the
 * source image. */
#ifndef LS_KERNELS_CONV2D_JOB_H
#define LS_KERNELS_CONV2D_JOB_H

#include "kernels/im2col.h"
#include "lockstep/kernels/conv2d.h"
#include "numerics/gemm_leaves.h"

#define ls_conv2d_job LS_TYPED(ls_conv2d_job)
typedef struct ls_conv2d_job {
    ls_engine engine;
    bool backward; /* targets are inputs, of one class (im2col.h) */
    size_t row_class, column_class;
    const ls_window *window;
    ls_pixel_grid grid;
    size_t groups;
    ls_axis m;                  /* target channels of a group                           */
    ls_axis k;                  /* source channels of a group, times places of a kernel */
    const ls_leaf_step *leaves; /* of the terms that are there; NULL: of k, all are     */
    size_t n_leaves;
    size_t source_channels; /* of a group                  */
    const ls_real *a;       /* op(A): m x k                */
    ls_trans ta;
    size_t lda, group_a; /* elements from group to group   */
    ls_real *target;
    const ls_real *source, *bias;
    ls_image_layout target_layout, source_layout;
    ls_real *columns, *product; /* scratch */
} ls_conv2d_job;

/* LS_ERR_INTERNAL: targets outside the image or what is held of it, or sources that are not held.
 */
#define ls_conv2d_job_check LS_TYPED(ls_conv2d_job_check)
ls_status ls_conv2d_job_check(const ls_conv2d_job *job, ls_rectangle targets) LS_MUST_USE;

/* targets: not empty. images: at least 1. Errors: those of ls_gemm; LS_ERR_INTERNAL: with openblas,
 * a part of a granule. */
#define ls_conv2d_job_run LS_TYPED(ls_conv2d_job_run)
ls_status ls_conv2d_job_run(const ls_conv2d_job *job, size_t images,
                            ls_rectangle targets) LS_MUST_USE;

#endif
