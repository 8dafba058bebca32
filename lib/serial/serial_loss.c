/* serial_loss.c - cross-entropy over the vocabulary, averaged over the valid targets of the batch.
 *
 *     loss = (sum over tokens of -log softmax(z)[target]) / valid
 *
 * One mean over the whole batch, never a mean of the sequences' means (rule 15). */
#include "lockstep/kernels/cross_entropy.h"

#include "lockstep/kernels/embedding.h"
#include "lockstep/numerics/tree.h"
#include "serial/serial_parts.h"

/* All granules of the vocabulary. */
static ls_vocab_shard whole_vocabulary(const ls_serial *serial)
{
    ls_vocab_shard shard = {serial->vocab, 0, serial->config->vocab};
    return shard;
}

/* The losses of single tokens; the maximum and the sum of exponentials of each row are kept. */
static ls_status token_losses(const ls_serial *serial, ls_real *losses)
{
    ls_status status = LS_OK;
    const ls_vocab_shard shard = whole_vocabulary(serial);
    const size_t n = ls_axis_extent(serial->tokens), Vp = ls_axis_extent(serial->vocab);
    const size_t granules = serial->vocab.granules, mark = ls_arena_mark(serial->temporary);
    const double smoothing = serial->config->label_smoothing;
    const int32_t *targets = serial->batch.targets;
    ls_real *granule_exp = NULL, *granule_z = NULL, *sum_z = NULL, *target = NULL;
    LS_TRY(ls_arena_alloc(serial->temporary, granules * n, sizeof *granule_exp, &granule_exp));
    LS_TRY(ls_arena_alloc(serial->temporary, n, sizeof *target, &target));
    if (smoothing > 0) {
        LS_TRY(ls_arena_alloc(serial->temporary, granules * n, sizeof *granule_z, &granule_z));
        LS_TRY(ls_arena_alloc(serial->temporary, n, sizeof *sum_z, &sum_z));
    }

    /* Sums along a row: rule 10 inside a granule of the vocabulary, then T over the granules, which
     * are one below the other here, one column per token. */
    ls_cross_entropy_max(serial->largest, serial->z, n, Vp, shard);
    ls_cross_entropy_sums(granule_exp, granule_z, target, serial->z, serial->largest, targets, n,
                          Vp, shard);
    ls_tree_sum_rows(serial->sum_exp, granule_exp, ls_axis_whole(granules), n, n);
    if (sum_z != NULL) ls_tree_sum_rows(sum_z, granule_z, ls_axis_whole(granules), n, n);
    ls_cross_entropy_loss(losses, serial->largest, serial->sum_exp, sum_z, target, targets, n,
                          shard.V, smoothing);
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

ls_status ls_serial_loss_forward(ls_serial *serial, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(serial->temporary);
    ls_real *losses = NULL, total;
    LS_TRY(
        ls_arena_alloc(serial->temporary, ls_axis_extent(serial->tokens), sizeof *losses, &losses));
    LS_TRY(token_losses(serial, losses));

    /* Tokens of a sequence, then sequences (rule 9). Ignored ones count as -0; a sum of nothing
     * else ends as +0 (rule 14). */
    ls_tree_sum_rows(&total, losses, serial->tokens, 1, 1);
    ls_normalize_zero(&total, 1);
    *ret_loss = serial->valid > 0 ? total / (ls_real)serial->valid : (ls_real)0;
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

void ls_serial_loss_backward(ls_serial *serial)
{
    const size_t n = ls_axis_extent(serial->tokens), Vp = ls_axis_extent(serial->vocab);
    /* loss = total / valid: every valid token's loss has this gradient */
    const ls_real factor = (ls_real)1 / (ls_real)serial->valid;
    ls_cross_entropy_backward(serial->z, serial->z, serial->largest, serial->sum_exp,
                              serial->batch.targets, n, Vp, whole_vocabulary(serial),
                              serial->config->label_smoothing, factor);
}
