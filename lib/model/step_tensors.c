/* Names of the tensors of a step. */
#include "lockstep/model/step_tensors.h"

const char *ls_point_name(ls_point point)
{
    static const char *const names[LS_POINTS] = {
        [LS_POINT_EMBEDDING_SUM] = "embedding_sum",
        [LS_POINT_EMBEDDING] = "embedding",
        [LS_POINT_EMBEDDED] = "embedded",
        [LS_POINT_NORM1] = "norm1",
        [LS_POINT_QUERY] = "query",
        [LS_POINT_KEY] = "key",
        [LS_POINT_VALUE] = "value",
        [LS_POINT_PROBABILITIES] = "probabilities",
        [LS_POINT_HEADS] = "heads",
        [LS_POINT_ATTENTION] = "attention",
        [LS_POINT_AFTER_ATTENTION] = "after_attention",
        [LS_POINT_NORM2] = "norm2",
        [LS_POINT_GATE] = "gate",
        [LS_POINT_UP] = "up",
        [LS_POINT_ACTIVATION] = "activation",
        [LS_POINT_MLP] = "mlp",
        [LS_POINT_AFTER_MLP] = "after_mlp",
        [LS_POINT_LAYER] = "layer",
        [LS_POINT_FINAL_NORM] = "final_norm",
        [LS_POINT_MASKED_DENSE] = "masked_dense",
        [LS_POINT_MASKED_ACTIVATION] = "masked_activation",
        [LS_POINT_FEATURES] = "features",
        [LS_POINT_LOGITS] = "logits",
        [LS_POINT_TOKEN_LOSS] = "token_loss",
        [LS_POINT_POOLED] = "pooled",
        [LS_POINT_ORDER_LOGITS] = "order_logits",
        [LS_POINT_ORDER_LOSS] = "order_loss",
        [LS_POINT_LARGEST_LOGIT] = "largest_logit",
        [LS_POINT_SUM_EXP] = "sum_exp",
        [LS_POINT_TARGET_LOGIT] = "target_logit",
        [LS_POINT_SUM_LOGITS] = "sum_logits",
        [LS_POINT_FIRST_TOKEN] = "first_token",
        [LS_POINT_OUTPUT] = "output",
        [LS_POINT_BATCH_MEAN] = "batch_mean",
        [LS_POINT_BATCH_RSTD] = "batch_rstd",
        [LS_POINT_IMAGE_LOSS] = "image_loss",
        [LS_POINT_PLACES] = "places",
        [LS_POINT_NORM_SUM] = "norm_sum",
        [LS_POINT_BATCH_SUM] = "batch_sum",
        [LS_POINT_BATCH_SQUARES] = "batch_squares",
        [LS_POINT_PIXEL_SUM] = "pixel_sum",
    };
    return (unsigned)point < LS_POINTS ? names[point] : "no point";
}

const char *ls_comm_kind_name(ls_comm_kind comm)
{
    static const char *const names[LS_COMM_KINDS] = {
        [LS_COMM_NONE] = "none",         [LS_COMM_PARTIAL] = "partial",   [LS_COMM_TOTAL] = "total",
        [LS_COMM_SHARE] = "share",       [LS_COMM_GATHERED] = "gathered", [LS_COMM_SENT] = "sent",
        [LS_COMM_RECEIVED] = "received",
    };
    return (unsigned)comm < LS_COMM_KINDS ? names[comm] : "no crossing";
}
