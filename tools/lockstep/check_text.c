/* check_text.c - a judgement for people. */
#include "check_facts.h"

#include <math.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "report/text_table.h"
#include "base/append.h"

/* Lines that a screen holds next to the rest. */
enum { MOST_DIFFERENT = 6, MOST_FINDINGS = 6, MOST_NAMES = 4 };

const char *index_text(const ls_graph_node *node, size_t index, char text[INDEX_TEXT])
{
    size_t at[LS_NODE_DIMS] = {0}, used = 0;
    text[0] = '\0';
    for (int d = node->n_dims; d-- > 0; index /= node->dims[d]) at[d] = index % node->dims[d];
    for (int d = 0; d < node->n_dims; d++)
        used = ls_append(text, INDEX_TEXT, used, "%s%zu", d ? ", " : "[", at[d]);
    if (node->n_dims > 0) ls_append(text, INDEX_TEXT, used, "]");
    return text;
}

const char *value_text(double value, char text[VALUE_TEXT])
{
    if (isfinite(value))
        snprintf(text, VALUE_TEXT, "%a (%.9g)", value, value);
    else
        snprintf(text, VALUE_TEXT, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    return text;
}

const char *local_text(const ls_judged *judged)
{
    if (judged->candidate->replicas_differ) return "ranks differ";
    if (judged->local == LS_LOCAL_OUTSIDE) return "wrong by itself";
    if (judged->local == LS_LOCAL_WITHIN) return "right by itself, made of wrong inputs";
    return "inputs missing";
}

const char *verdict_text(const ls_judged *judged)
{
    return judged->unjudged ? "not judged" : ls_verdict_name(judged->verdict);
}

static const ls_graph_node *node_of(const checked *c, const ls_judged *judged)
{
    return &c->golden->graph->nodes[judged->golden->node];
}

/* ---- who is judged ---- */

static const char *const format_names[] = {
    [LS_F32] = "f32", [LS_F64] = "f64", [LS_F16] = "f16", [LS_BF16] = "bf16"};

/* "f32, 12 of them bf16" */
static void print_formats(FILE *out, const checked *c)
{
    static const ls_dtype formats[] = {LS_F64, LS_F32, LS_F16, LS_BF16};
    bool first = true, widened = false;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        size_t count = 0;
        for (size_t i = 0; i < c->judgement->count; i++) {
            const ls_judged *judged = &c->judgement->tensors[i];
            if (judged->format != formats[f]) continue;
            count++;
            if (judged->format != judged->candidate->dtype) widened = true;
        }
        if (count == 0) continue;
        fprintf(out, "%s%zu in %s", first ? "" : ", ", count, format_names[formats[f]]);
        first = false;
    }
    if (widened) fputs(" (some of them written in a wider format)", out);
}

/* What was taken for coarser than it was written, and the tensor that shows it. */
static void print_assumed(FILE *out, const checked *c)
{
    const ls_golden_tensor *source = NULL;
    size_t count = 0;
    ls_dtype format = LS_F32;
    char number[LS_NUMBER_TEXT];
    for (size_t i = 0; i < c->judgement->count; i++) {
        const ls_judged *judged = &c->judgement->tensors[i];
        if (!judged->assumed || !judged->source || judged->verdict == LS_EQUAL) continue;
        if (!source) source = judged->source, format = judged->precision;
        count++;
    }
    if (source)
        fprintf(out,
                "assumed    %s computed in a coarser format than written, from %s on, whose "
                "numbers are all of %s; --computed overrules\n",
                ls_count_text(count, "tensor", number), source->name, format_names[format]);
}

static void print_head(FILE *out, const checked *c)
{
    const ls_run *run = &c->golden->run;
    char layout[LS_LAYOUT_TEXT], steps[LS_NUMBER_TEXT], tensors[LS_NUMBER_TEXT];
    ls_layout_describe(&run->layout, layout, sizeof layout);
    fprintf(out, "golden     %s: %s, %s, %s, %s, seed %llu; %s from %llu, %s%s\n",
            ls_show(c->golden->path), ls_show(run->config.name), layout,
            ls_engine_name(run->engine), format_names[run->dtype], (unsigned long long)run->seed,
            ls_count_text(c->golden->steps, "step", steps),
            (unsigned long long)c->golden->first_step,
            ls_count_text(c->golden->count, "tensor", tensors),
            c->golden->kind == LS_GOLDEN_INTEGERS ? ", integers" : "");
    fprintf(out, "candidate  %s: %s judged, ", ls_show(c->candidate->path),
            ls_count_text(c->judgement->count, "tensor", tensors));
    print_formats(out, c);
    if (c->candidate->has_layout) {
        ls_layout_describe(&c->candidate->layout, layout, sizeof layout);
        fprintf(out, "; %s", layout);
    }
    if (c->candidate->ignored > 0) fprintf(out, "; %zu passed over", c->candidate->ignored);
    fputc('\n', out);
    print_assumed(out, c);
    fputc('\n', out);
}

static ls_status print_phases(FILE *out, const checked *c)
{
    static const char *const heads[] = {"phase", "tensors", "equal", "explained", "different"};
    static const char *const phases[] = {"forward", "backward", "update"};
    ls_status status = LS_OK;
    ls_text_table *table = NULL;
    LS_TRY(ls_text_table_create(&table, 5));
    for (int i = 0; i < 5; i++) LS_TRY(ls_text_table_add(table, "%s", heads[i]));
    for (int phase = 0; phase < 3; phase++) {
        size_t counts[3] = {0};
        for (size_t i = 0; i < c->judgement->count; i++)
            if ((int)node_of(c, &c->judgement->tensors[i])->phase == phase)
                counts[c->judgement->tensors[i].verdict]++;
        if (counts[0] + counts[1] + counts[2] == 0) continue;
        LS_TRY(ls_text_table_add(table, "%s", phases[phase]));
        LS_TRY(ls_text_table_add(table, "%zu", counts[0] + counts[1] + counts[2]));
        for (int i = 0; i < 3; i++) LS_TRY(ls_text_table_add(table, "%zu", counts[i]));
    }
    ls_text_table_print(table, out);
exit:
    ls_text_table_destroy(&table);
    return status;
}

/* ---- what differs ---- */

/* "error 3.1e+04 x allowed" */
static void print_share(FILE *out, double error, double bound)
{
    if (!isfinite(bound))
        fprintf(out, "error %.3g", error);
    else if (!isfinite(error))
        fprintf(out, "nan or inf misplaced");
    else if (bound > 0)
        fprintf(out, "error/bound %.3g", error / bound);
    else
        fprintf(out, "error %.3g, none allowed", error);
}

static void print_different(FILE *out, const checked *c, const ls_judged *judged)
{
    const ls_graph_node *node = node_of(c, judged);
    char index[INDEX_TEXT], mine[VALUE_TEXT], theirs[VALUE_TEXT];
    fprintf(out, "%s  %s: ", judged->golden->name, verdict_text(judged));
    if (judged->verdict == LS_EQUAL) {
        fputs("every bit\n", out);
        return;
    }
    if (judged->unjudged) {
        fputs("rounding alone may change it by ", out);
        if (isfinite(judged->size))
            fprintf(out, "%.2g of its size; ", judged->size);
        else
            fputs("any amount; ", out);
    }
    print_share(out, judged->error, judged->bound);
    if (judged->max_ulps == UINT64_MAX)
        fputs(", nan against a number", out);
    else
        fprintf(out, ", %llu ULPs", (unsigned long long)judged->max_ulps);
    fprintf(out, ", %zu of %zu %s", judged->outside ? judged->outside : judged->differing,
            judged->golden->count, judged->outside ? "outside" : "differ");
    if (judged->verdict == LS_DIFFERENT_TENSOR)
        fprintf(out, "; %s", local_text(judged));
    else if (judged->local == LS_LOCAL_WITHIN)
        fputs("; right by itself", out);
    if (judged->zero_on_paper) fputs("; zero on paper: nothing but rounding noise", out);
    if (judged->assumed && judged->source)
        fprintf(out, "; judged as %s, since all numbers of %s are of that format",
                format_names[judged->precision], judged->source->name);
    index_text(node, judged->first, index);
    fprintf(out, "\n    first %s%s%s, golden %s\n", index, *index ? ": " : "",
            value_text(judged->candidate_value, mine), value_text(judged->golden_value, theirs));
}

static bool is_listed(const checked *c, const ls_judged *judged)
{
    return c->settings->all || judged->verdict == LS_DIFFERENT_TENSOR || judged->unjudged;
}

static void print_list(FILE *out, const checked *c)
{
    size_t shown = 0, most = c->settings->all ? SIZE_MAX : MOST_DIFFERENT, left = 0;
    if (c->judgement->different + c->judgement->unjudged == 0 && !c->settings->all) return;
    fputc('\n', out);
    for (size_t i = 0; i < c->judgement->count; i++) {
        const ls_judged *judged = &c->judgement->tensors[i];
        if (!is_listed(c, judged)) continue;
        if (shown++ < most)
            print_different(out, c, judged);
        else
            left++;
    }
    if (left > 0) fprintf(out, "... and %zu more; --all lists them\n", left);
}

/* ---- the first, and the causes ---- */

static void print_replicas(FILE *out, const checked *c, const ls_judged *judged)
{
    const ls_candidate_tensor *mine = judged->candidate;
    char index[INDEX_TEXT], one[VALUE_TEXT], two[VALUE_TEXT];
    if (!mine->replicas_differ) return;
    fprintf(out, "  ranks %d and %d should hold the same and do not: %s %s and %s\n",
            mine->replicas[0], mine->replicas[1],
            index_text(node_of(c, judged), mine->replica_index, index),
            value_text(mine->replica_values[0], one), value_text(mine->replica_values[1], two));
}

static void print_own_judgement(FILE *out, const checked *c, const ls_judged *judged)
{
    const ls_graph_node *node = node_of(c, judged);
    char index[INDEX_TEXT];
    if (judged->golden->given)
        fputs("  the golden directory gives it: it is an input, and not what was given\n", out);
    if (judged->local == LS_LOCAL_UNKNOWN) return;
    if (judged->local == LS_LOCAL_WITHIN) {
        fputs("  computed again from the candidate's own inputs it comes out the same\n", out);
        return;
    }
    fprintf(out, "  computed again from the candidate's own inputs, %s comes out as %.9g",
            node->n_dims > 0 ? index_text(node, judged->first, index) : "it", judged->right_value);
    if (node->n_dims > 0)
        fprintf(out, ";\n  at worst, %s is off by %.3g where %.3g is allowed\n",
                index_text(node, judged->worst, index), judged->local_error, judged->local_bound);
    else
        fprintf(out, ",\n  give or take %.3g\n", judged->local_bound);
}

static void print_first(FILE *out, const checked *c)
{
    const ls_judged *first = c->judgement->first;
    char operation[OPERATION_TEXT];
    if (!first) return;
    fprintf(out, "\nfirst difference: %s\n  is %s\n", first->golden->name,
            operation_text(c->golden->graph, first->golden->node, operation));
    print_replicas(out, c, first);
    print_own_judgement(out, c, first);
    if (first->aside)
        fputs("  what reads it is right: it was written at another place, or changed before it "
              "was written\n",
              out);
    const ls_judged *blame = c->findings->blame;
    if (blame && blame != first)
        fprintf(out, "  to blame: %s, whose own operation is wrong\n", blame->golden->name);
}

static void print_names(FILE *out, const char *before, const ls_judged *const *judged, size_t count)
{
    fputs(before, out);
    for (size_t i = 0; i < count && i < MOST_NAMES; i++)
        fprintf(out, "%s%s", i ? ", " : "", judged[i]->golden->name);
    if (count > MOST_NAMES) fprintf(out, " and %zu more tensors", count - MOST_NAMES);
    fputc('\n', out);
}

static void print_missing(FILE *out, const ls_finding *finding)
{
    if (finding->tensor->local != LS_LOCAL_UNKNOWN || finding->n_missing == 0) return;
    fputs("  the mistake is there or in what the candidate lacks", out);
    if (finding->n_before > 0)
        print_names(out, ", behind ", finding->before, finding->n_before);
    else
        fputs(", from the beginning on\n", out);
    fputs("  to narrow it, write", out);
    for (size_t i = 0; i < finding->n_missing && i < MOST_NAMES; i++)
        fprintf(out, "%s %s", i ? "," : "", finding->missing[i]->name);
    if (finding->n_missing > MOST_NAMES)
        fprintf(out, " and the %zu that follow", finding->n_missing - MOST_NAMES);
    fputs(" too\n", out);
}

static ls_status print_finding(FILE *out, const checked *c, size_t number)
{
    ls_status status = LS_OK;
    const ls_finding *finding = &c->findings->list[number];
    const ls_suspicion *s = &finding->suspicion;
    const bool known = s->cause != LS_CAUSE_NONE;
    if (c->findings->count > 1)
        fprintf(out, "\nmistake %zu: ", number + 1);
    else
        fputs("\nsuspected cause: ", out);
    fprintf(out, "%s\n", known ? ls_mistake_of(s->cause)->sentence : "none of the known ones");
    print_names(out, "  in ", finding->tensors, finding->count);
    if (s->evidence[0]) fprintf(out, "  %s\n", s->evidence);
    if (finding->tensor != c->judgement->first) print_own_judgement(out, c, finding->tensor);
    for (size_t i = 0; i < s->also && i < LS_ALSO; i++)
        fprintf(out, "%s%s",
                i ? ", " : "  also consistent with: ", ls_mistake_of(s->others[i])->sentence);
    if (s->also > 0) fputc('\n', out);
    print_missing(out, finding);
    if (ls_finding_is_finer(finding))
        fprintf(out,
                "  most of this candidate's forward and backward tensors are in %s: if this one "
                "was computed from such, say --computed %s\n",
                format_names[c->judgement->mostly], format_names[c->judgement->mostly]);
    if (known && ls_mistake_of(s->cause)->remedy)
        fprintf(out, "  remedy: %s\n", ls_mistake_of(s->cause)->remedy);
    if (!known) LS_TRY(print_where(out, c, finding->tensor));
exit:
    return status;
}

ls_status print_judgement(FILE *out, const checked *c)
{
    ls_status status = LS_OK;
    const ls_judgement *j = c->judgement;
    const ls_findings *f = c->findings;
    char count[LS_NUMBER_TEXT];
    print_head(out, c);
    LS_TRY(print_phases(out, c));
    print_list(out, c);
    print_first(out, c);
    for (size_t i = 0; i < f->count && (c->settings->all || i < MOST_FINDINGS); i++)
        LS_TRY(print_finding(out, c, i));
    if (f->count > MOST_FINDINGS && !c->settings->all)
        fprintf(out, "\n... and %zu more mistakes; --all lists them\n", f->count - MOST_FINDINGS);
    if (f->unexamined > 0)
        fprintf(out,
                "\n%zu more tensors are wrong by themselves; their causes were not looked for\n",
                f->unexamined);
    if (f->later > 0)
        fprintf(out,
                "\n%zu more tensors of later steps are wrong by themselves; check again when the "
                "first steps are right\n",
                f->later);
    if (j->unrelated)
        fputs("\nmost operations are wrong by themselves: did it begin with this directory's "
              "weights, on its batch, and drop with its masks?\n",
              out);
    if (c->look) LS_TRY(print_look(out, c));
    if (ls_job_nothing_judged(j))
        fputs("\nnothing was judged: give the inputs of these operations\n", out);
    fprintf(out, "\ncheck: %s, %zu equal, %zu explained, %zu different",
            ls_count_text(j->count, "tensor", count), j->equal, j->explained, j->different);
    if (j->unjudged > 0) fprintf(out, "; %zu of the explained not judged", j->unjudged);
    if (j->count < j->wanted)
        fprintf(out, "; %zu of %s given, --complete asks for all", j->count,
                ls_count_text(j->wanted, "tensor", count));
    fputc('\n', out);
exit:
    return status;
}
