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
    say(w, "%s", ls_kind_of(node->make)->words);
    if (node->make != LS_MAKE_GRADIENT) return;
    bool first = true;
    for (size_t r = 0; r < graph->count && graph->nodes[r].phase == LS_GRAPH_FORWARD; r++) {
        if (ls_graph_back_slot(&graph->nodes[r], node->of) < 0) continue;
        if (ls_kind_has(graph->nodes[r].make, LS_IS_SHOWN)) continue;
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
