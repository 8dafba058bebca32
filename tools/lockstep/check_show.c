/* check_show.c - one tensor's whole story. */
#include <math.h>
#include <string.h>

#include "check_facts.h"
#include "report/text_table.h"

static void print_shape(FILE *out, const ls_graph_node *node)
{
    fputs("  shape      ", out);
    if (node->n_dims == 0) fputs("one number", out);
    for (int d = 0; d < node->n_dims; d++) fprintf(out, "%s%zu", d ? " x " : "", node->dims[d]);
    if (*node->dim_names) fprintf(out, " (%s)", node->dim_names);
    fputc('\n', out);
}

static void print_blocks_given(FILE *out, const checked *c)
{
    const ls_candidate_tensor *mine = c->look->judged->candidate;
    const ls_graph_node *node = &c->golden->graph->nodes[c->look->judged->golden->node];
    fprintf(out, "  candidate  %s, %s", mine->name, ls_dtype_name(mine->dtype));
    if (mine->ranks > 1) fprintf(out, ", put together from %d files", mine->ranks);
    fputc('\n', out);
    for (size_t i = 0; mine->ranks > 1 && i < mine->n_blocks && i < 16; i++) {
        const ls_candidate_block *block = &mine->blocks[i];
        fputs("               ", out);
        if (block->rank >= 0) fprintf(out, "rank %d", block->rank);
        if (block->micro_batch >= 0) fprintf(out, ", micro-batch %d", block->micro_batch);
        fputc(':', out);
        for (int d = 0; d < node->n_dims; d++)
            fprintf(out, " %zu:%zu", block->runs[d].first,
                    block->runs[d].first + block->runs[d].count);
        fputc('\n', out);
    }
}

static void print_verdict(FILE *out, const checked *c)
{
    const ls_judged *judged = c->look->judged;
    fprintf(out, "  verdict    %s", verdict_text(judged));
    if (judged->verdict != LS_EQUAL) {
        fprintf(out, "; operation %s", ls_local_name(judged->local));
        if (isfinite(judged->bound))
            fprintf(out, "; %.3g from the truth, allowed %.3g", judged->error, judged->bound);
    }
    fputc('\n', out);
    if (judged->local != LS_LOCAL_UNKNOWN)
        fprintf(out, "  operation  off by %.3g at worst where %.3g is allowed\n",
                judged->local_error, judged->local_bound);
}

static ls_status print_worst(FILE *out, const checked *c)
{
    ls_status status = LS_OK;
    const ls_inspection *look = c->look;
    const ls_graph_node *node = &c->golden->graph->nodes[look->judged->golden->node];
    ls_text_table *table = NULL;
    char text[(int)VALUE_TEXT > (int)INDEX_TEXT ? (int)VALUE_TEXT : (int)INDEX_TEXT];
    if (look->off == 0) goto exit;
    fprintf(out, "  %zu of %zu elements %s; the worst:\n", look->off, look->count,
            look->off_is_outside ? "lie outside what is allowed" : "are not the golden bits");
    LS_TRY(ls_text_table_create(&table, 5));
    LS_TRY(ls_text_table_add(table, "    element"));
    LS_TRY(ls_text_table_add(table, "candidate"));
    LS_TRY(ls_text_table_add(table, "golden"));
    LS_TRY(ls_text_table_add(table, "%s", look->right_is_local ? "from its inputs" : "truth"));
    LS_TRY(ls_text_table_add(table, "allowed"));
    for (size_t i = 0; i < look->n_worst; i++) {
        const size_t at = look->worst[i];
        LS_TRY(ls_text_table_add(table, "    %s", index_text(node, at, text)));
        LS_TRY(ls_text_table_add(table, "%s", value_text(look->candidate[at], text)));
        LS_TRY(ls_text_table_add(table, "%s", value_text(look->golden[at], text)));
        LS_TRY(look->right ? ls_text_table_add(table, "%.9g", look->right[at])
                           : ls_text_table_add(table, "unknown"));
        LS_TRY(look->right ? ls_text_table_add(table, "%.3g", look->bound[at])
                           : ls_text_table_add(table, "unknown"));
    }
    ls_text_table_print(table, out);
exit:
    ls_text_table_destroy(&table);
    return status;
}

/* "only 12 to 23 of 24" */
static void print_touched(FILE *out, const ls_inspection_dimension *of, size_t extent)
{
    if (of->touched == extent)
        fprintf(out, "all %zu", of->touched);
    else if (of->touched == 1)
        fprintf(out, "only %zu of %zu", of->first, extent);
    else if (of->period == 1)
        fprintf(out, "only %zu to %zu of %zu", of->first, of->last, extent);
    else if (of->period > 1)
        fprintf(out, "%zu, %zu, ... %zu of %zu", of->first, of->first + of->period, of->last,
                extent);
    else
        fprintf(out, "%zu of %zu, from %zu to %zu", of->touched, extent, of->first, of->last);
}

/* The name of a dimension; moves on to the next. */
static const char *next_name(const char **names, int *ret_length)
{
    const char *name = *names;
    *ret_length = (int)strcspn(name, " ");
    *names = name + *ret_length + (name[*ret_length] == ' ');
    return name;
}

static void print_pattern(FILE *out, const checked *c)
{
    const ls_inspection *look = c->look;
    const ls_graph_node *node = &c->golden->graph->nodes[look->judged->golden->node];
    const char *names = node->dim_names;
    for (int d = 0; d < node->n_dims; d++) {
        const ls_inspection_dimension *of = &look->dimensions[d];
        int length;
        const char *name = next_name(&names, &length);
        fprintf(out, "    %.*s: ", length, name);
        print_touched(out, of, node->dims[d]);
        if (of->blocks > 1) {
            fprintf(out, "; in each of %zu blocks:", of->blocks);
            for (size_t i = 0; i < of->blocks && i < 16; i++) fprintf(out, " %zu", of->in_block[i]);
            if (of->blocks > 16) fputs(" ...", out);
        }
        fputc('\n', out);
    }
}

ls_status print_where(FILE *out, const checked *c, const ls_judged *judged)
{
    ls_status status = LS_OK;
    ls_inspection *look = NULL;
    const ls_graph_node *node = &c->golden->graph->nodes[judged->golden->node];
    const char *names = node->dim_names;
    bool everywhere = true;
    LS_TRY(ls_inspection_create(&look, c->judgement, judged));
    for (int d = 0; d < node->n_dims; d++)
        if (look->dimensions[d].touched < node->dims[d]) everywhere = false;
    if (everywhere || look->off == 0) goto exit;
    fputs("  it is off in", out);
    for (int d = 0; d < node->n_dims; d++) {
        int length;
        const char *name = next_name(&names, &length);
        fprintf(out, "%s %.*s ", d ? ";" : "", length, name);
        print_touched(out, &look->dimensions[d], node->dims[d]);
    }
    fprintf(out, "; --show %s draws it\n", judged->golden->name);
exit:
    ls_inspection_destroy(&look);
    return status;
}

static void print_picture(FILE *out, const ls_inspection *look)
{
    static const char shades[] = {'.', ':', '+', '#'};
    fprintf(out, "  where (a cell is %zu row%s x %zu column%s%s; . none, : few, + many, # all):\n",
            look->cell_rows, look->cell_rows == 1 ? "" : "s", look->cell_columns,
            look->cell_columns == 1 ? "" : "s",
            look->layers > 1 ? " of every image and channel" : "");
    for (size_t r = 0; r < look->grid_rows; r++) {
        fputs("    ", out);
        for (size_t k = 0; k < look->grid_columns; k++) {
            const double share = look->share[r * look->grid_columns + k];
            const int shade = share <= 0 ? 0 : share < 0.5 ? 1 : share < 1 - 1e-9 ? 2 : 3;
            fputc(shades[shade], out);
        }
        fputc('\n', out);
    }
}

ls_status print_look(FILE *out, const checked *c)
{
    ls_status status = LS_OK;
    const ls_inspection *look = c->look;
    const ls_golden_tensor *golden = look->judged->golden;
    char operation[OPERATION_TEXT];
    fprintf(out, "\n%s\n", golden->name);
    print_shape(out, &c->golden->graph->nodes[golden->node]);
    fprintf(out, "  is         %s\n", operation_text(c->golden->graph, golden->node, operation));
    print_blocks_given(out, c);
    print_verdict(out, c);
    LS_TRY(print_worst(out, c));
    if (look->off == 0) goto exit;
    print_pattern(out, c);
    print_picture(out, look);
exit:
    return status;
}
