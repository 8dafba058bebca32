/* serial_dropout.c - dropout of the residual stream, whose masks are functions of place (rule 4).
 */
#include "lockstep/kernels/elementwise.h"
#include "serial/serial_parts.h"

double ls_serial_dropout_probability(const ls_serial *serial)
{
    return serial->batch.training ? serial->config->dropout : 0;
}

ls_stream ls_serial_dropout_stream(const ls_serial *serial, ls_purpose purpose, size_t layer)
{
    ls_stream stream = {serial->batch.seed, (uint32_t)purpose, (uint32_t)layer, serial->batch.step};
    return stream;
}

void ls_serial_dropout(const ls_serial *serial, ls_real *y, const ls_real *x, ls_purpose purpose,
                       size_t layer)
{
    /* Element (b, s, c) has the number (b S + s) D + c: its place in memory, since the serial model
     * holds the whole batch. */
    ls_dropout(y, x, ls_axis_extent(serial->tokens) * serial->config->d_model,
               ls_serial_dropout_probability(serial),
               ls_serial_dropout_stream(serial, purpose, layer), 0);
}
