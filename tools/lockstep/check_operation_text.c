/* check_operation_text.c - what makes a tensor, in words. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check_facts.h"
#include "base/append.h"

typedef struct words {
    char *text;
    size_t used;
} words;

static void LS_PRINTF(2, 3) say(words *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    w->used = ls_append_list(w->text, OPERATION_TEXT, w->used, format, arguments);
    va_end(arguments);
}

static void say_formula(words *w, const ls_graph *graph, const ls_graph_node *node)
{
    static const char *const formulas[LS_OPERATION_KINDS] = {
        [LS_MAKE_EMBEDDING] = "the rows of its tokens (and positions, types), added",
        [LS_MAKE_DROPOUT] = "dropout(x)",
        [LS_MAKE_NORM] = "norm(x)",
        [LS_MAKE_LINEAR] = "x W + b",
        [LS_MAKE_LINEAR_TURNED] = "x W + b, turned by position",
        [LS_MAKE_PROBABILITIES] = "softmax(q k^T / sqrt(width of a head), masked)",
        [LS_MAKE_HEADS] = "dropout(softmax(q k^T / sqrt(width of a head), masked)) v",
        [LS_MAKE_RESIDUAL] = "dropout(x) + y",
        [LS_MAKE_ACTIVATION] = "the activation of x",
        [LS_MAKE_GELU] = "exact GELU of x",
        [LS_MAKE_LOGITS] = "x W^T",
        [LS_MAKE_TOKEN_LOSS] = "cross-entropy of the logits per token",
        [LS_MAKE_POOLED] = "tanh(first token of x W + b)",
        [LS_MAKE_ORDER_LOSS] = "cross-entropy per sequence",
        [LS_MAKE_MEAN] = "mean of the losses over the valid targets",
        [LS_MAKE_PARAM_GRADIENT] = "gradient of the loss by the parameter",
        [LS_MAKE_GRADIENT_NORM] = "Euclidean norm of all parameters' gradients",
        [LS_MAKE_CLIPPED] = "the gradient, scaled to the largest norm allowed",
        [LS_MAKE_UPDATED] = "the parameter after the optimizer's step",
        [LS_MAKE_CONV] = "the convolution of x with W, + b",
        [LS_MAKE_MAX_POOL] = "the largest of each window of x",
        [LS_MAKE_AVERAGE_POOL] = "the mean of each window of x",
        [LS_MAKE_GLOBAL_POOL] = "the mean of all pixels of x",
        [LS_MAKE_BATCH_NORM] = "(x - mean) rstd scale + shift, per channel over images and pixels",
        [LS_MAKE_BATCH_MEAN] = "the mean of x per channel, over images and pixels",
        [LS_MAKE_BATCH_RSTD] = "1 / sqrt(variance + eps) of x per channel, over images and pixels",
        [LS_MAKE_RELU] = "max(x, 0)",
        [LS_MAKE_RESPONSE_NORM] = "x / (k + alpha sum of squares over channels)^beta",
        [LS_MAKE_IMAGE_LOSS] = "cross-entropy of the logits per image",
        [LS_MAKE_RUNNING] = "the running statistic, moved towards the batch's",
    };
    if (node->make != LS_MAKE_GRADIENT) {
        say(w, "%s", formulas[node->make]);
        return;
    }
    say(w, "what comes back from");
    bool first = true;
    for (size_t r = 0; r < graph->count && graph->nodes[r].phase == LS_GRAPH_FORWARD; r++) {
        if (ls_graph_back_slot(&graph->nodes[r], node->of) < 0) continue;
        if (graph->nodes[r].make == LS_MAKE_PROBABILITIES ||
            graph->nodes[r].make == LS_MAKE_BATCH_MEAN ||
            graph->nodes[r].make == LS_MAKE_BATCH_RSTD)
            continue;
        say(w, "%s %s", first ? "" : ",", graph->nodes[r].name);
        first = false;
    }
}

const char *operation_text(const ls_graph *graph, int place, char text[OPERATION_TEXT])
{
    const ls_graph_node *node = &graph->nodes[place];
    words w = {text, 0};
    text[0] = '\0';
    say_formula(&w, graph, node);
    for (int i = 0; i < LS_NODE_INPUTS && node->inputs[i] >= 0; i++)
        say(&w, "%s%s", i == 0 ? "; from " : ", ", graph->nodes[node->inputs[i]].name);
    const bool gradient = node->make == LS_MAKE_PARAM_GRADIENT || node->make == LS_MAKE_CLIPPED;
    for (int i = 0; i < LS_NODE_PARAMS; i++)
        if (node->params[i] >= 0 && !gradient)
            say(&w, "%s%s", i == 0 ? "; with " : ", ", graph->table->params[node->params[i]].name);
    return text;
}
