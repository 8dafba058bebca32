/* serial_linear.c - y = x W + b, forward and backward.
 *
 * Three products, one of them forward:
 *
 *              rows     columns  summed over
 *     y  = x W    tokens   out      in
 *     dW = x^T dy in       out      tokens
 *     dx = dy W^T tokens   in       out
 *
 * `in` and `out` are axes with granules (rule 7). Where tensor parallelism cuts the columns of W
 * (query, key, value, up), `out` has granules and the one sum that crosses ranks is dx; where it
 * cuts the rows (attention's output, down), `in` has granules and that sum is y. */
#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "serial/serial_parts.h"

ls_serial_linear ls_serial_linear_of(const ls_serial *serial, ls_role weight, ls_role bias,
                                     size_t layer, ls_axis in, ls_axis out)
{
    ls_serial_linear linear = {
        .weight = ls_store_slot(serial->store, weight, layer),
        .bias = ls_store_slot(serial->store, bias, layer),
        .in = in,
        .out = out,
    };
    return linear;
}

ls_status ls_serial_linear_forward(const ls_serial *serial, ls_serial_linear linear, ls_real *y,
                                   const ls_real *x)
{
    ls_status status = LS_OK;
    const size_t n_in = ls_axis_extent(linear.in), n_out = ls_axis_extent(linear.out);
    LS_TRY(ls_gemm(serial->engine, LS_NO_TRANS, LS_NO_TRANS, serial->tokens, linear.out, linear.in,
                   x, n_in, linear.weight->value, n_out, y, n_out, false));
    /* After the whole sum, so that the bias counts once however many ranks share the sum. */
    if (linear.bias)
        ls_add_bias(y, linear.bias->value, ls_axis_extent(serial->tokens), n_out, n_out);
exit:
    return status;
}

ls_status ls_serial_linear_backward_parameters(const ls_serial *serial, ls_serial_linear linear,
                                               const ls_real *x, const ls_real *dy)
{
    ls_status status = LS_OK;
    const size_t n_in = ls_axis_extent(linear.in), n_out = ls_axis_extent(linear.out);
    /* y = x W: dW = x^T dy, leaves of up to 256 tokens of one sequence (rule 9) */
    LS_TRY(ls_gemm(serial->engine, LS_TRANS, LS_NO_TRANS, linear.in, linear.out, serial->tokens, x,
                   n_in, dy, n_out, linear.weight->grad[0], n_out, false));
    /* y += b: db = sum of dy, a leaf per token (rule 9) */
    if (linear.bias) ls_tree_sum_rows(linear.bias->grad[0], dy, serial->tokens, n_out, n_out);
exit:
    return status;
}

ls_status ls_serial_linear_backward_input(const ls_serial *serial, ls_serial_linear linear,
                                          ls_real *dx, const ls_real *dy)
{
    const size_t n_in = ls_axis_extent(linear.in), n_out = ls_axis_extent(linear.out);
    /* y = x W: dx = dy W^T */
    return ls_gemm(serial->engine, LS_NO_TRANS, LS_TRANS, serial->tokens, linear.in, linear.out, dy,
                   n_out, linear.weight->value, n_out, dx, n_in, false);
}
