#include "fault.h"

#include <string.h>

#include "fault_parts.h"

ls_fault ls_fault_chosen = LS_FAULT_NONE;

const char *ls_fault_name(ls_fault fault)
{
    static const char *const names[LS_FAULTS_COUNT] = {
        [LS_FAULT_NONE] = "none",
        [LS_FAULT_BIAS_PER_RANK] = "bias-per-rank",
        [LS_FAULT_BIAS_MISSING] = "bias-missing",
        [LS_FAULT_NOT_REDUCED] = "not-reduced",
        [LS_FAULT_INPUT_GRADIENT_NOT_REDUCED] = "input-gradient-not-reduced",
        [LS_FAULT_REPLICAS_NOT_REDUCED] = "replicas-not-reduced",
        [LS_FAULT_REDUCED_TWICE] = "reduced-twice",
        [LS_FAULT_INPUT_GRADIENT_TWICE] = "input-gradient-twice",
        [LS_FAULT_REPLICAS_TWICE] = "replicas-twice",
        [LS_FAULT_AVERAGED_RANKS] = "averaged-ranks",
        [LS_FAULT_AVERAGED_REPLICAS] = "averaged-replicas",
        [LS_FAULT_AVERAGED_MICRO_BATCHES] = "averaged-micro-batches",
        [LS_FAULT_NORM_NOT_REDUCED] = "norm-not-reduced",
        [LS_FAULT_KV_NOT_REDUCED] = "kv-not-reduced",
        [LS_FAULT_TIED_ONE_SIDE] = "tied-one-side",
        [LS_FAULT_TIED_NOT_ADDED] = "tied-not-added",
        [LS_FAULT_SHARDS_REVERSED] = "shards-reversed",
        [LS_FAULT_TOKENS_ROTATED] = "tokens-rotated",
        [LS_FAULT_TOKENS_JOINED] = "tokens-joined",
        [LS_FAULT_QKV_INTERLEAVED] = "qkv-interleaved",
        [LS_FAULT_GATE_UP_INTERLEAVED] = "gate-up-interleaved",
        [LS_FAULT_GATE_UP_SWAPPED] = "gate-up-swapped",
        [LS_FAULT_TRANSPOSED] = "transposed",
        [LS_FAULT_CAUSAL_AHEAD] = "causal-ahead",
        [LS_FAULT_CAUSAL_BEHIND] = "causal-behind",
        [LS_FAULT_CAUSAL_ABSENT] = "causal-absent",
        [LS_FAULT_TARGET_SHIFT] = "target-shift",
        [LS_FAULT_PADDED_VOCABULARY] = "padded-vocabulary",
        [LS_FAULT_SCORE_SCALE] = "score-scale",
        [LS_FAULT_SCORE_UNSCALED] = "score-unscaled",
        [LS_FAULT_GELU_VARIANT] = "gelu-variant",
        [LS_FAULT_NORM_EPSILON] = "norm-epsilon",
        [LS_FAULT_MEAN_OF_MEANS] = "mean-of-means",
        [LS_FAULT_CLIPPING_PER_RANK] = "clipping-per-rank",
        [LS_FAULT_REPLICAS_COUNTED] = "replicas-counted",
        [LS_FAULT_UPDATE_TWICE] = "update-twice",
        [LS_FAULT_DROPOUT_MASK] = "dropout-mask",
        [LS_FAULT_POSITIONS_RESTART] = "positions-restart",
        [LS_FAULT_EMBEDDING_NOT_REDUCED] = "embedding-not-reduced",
        [LS_FAULT_ROTARY_PAIRS] = "rotary-pairs",
        [LS_FAULT_HALO_OFF_BY_ONE] = "halo-off-by-one",
        [LS_FAULT_HALO_CORNERS] = "halo-corners",
        [LS_FAULT_HALO_MISSING] = "halo-missing",
        [LS_FAULT_DY_HALO_MISSING] = "dy-halo-missing",
        [LS_FAULT_LOCAL_STATISTICS] = "local-statistics",
        [LS_FAULT_AVERAGED_STATISTICS] = "averaged-statistics",
        [LS_FAULT_WEIGHT_NOT_REDUCED] = "weight-not-reduced",
    };
    return (unsigned)fault < LS_FAULTS_COUNT ? names[fault] : "no fault";
}

void ls_fault_shift_targets(const ls_batch *batch, int32_t *targets)
{
    for (size_t b = 0; b < batch->B; b++, targets += batch->S) {
        memmove(targets, targets + 1, (batch->S - 1) * sizeof *targets);
        targets[batch->S - 1] = LS_IGNORE;
    }
}

ls_valid ls_fault_own_valid(const ls_batch *micro_batch, int parts, ls_valid valid)
{
    valid.targets = 0;
    for (size_t t = 0; t < micro_batch->B * micro_batch->S; t++)
        valid.targets += micro_batch->targets[t] == LS_IGNORE ? 0 : parts;
    return valid;
}
