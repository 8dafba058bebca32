/* 13_judge_your_backend.c - an implementation of your own, judged in process.
 *
 * You have written collectives and layers for a network, a GPU or another language, and want to
 * know whether they are right. Give ls_judge a table of functions: it calls each on 1, 2, 3, ...
 * ranks, with the shapes that others got wrong, and says what holds:
 *
 *     exact     small whole numbers as data: any order of addition must give the same bits
 *     bounded   random numbers, against binary64, with a bound that any order keeps
 *     tree/v1   whether the bits are Lockstep's own; a ring has another order, and that is no fault
 *
 * The backend of this chapter is a ring, by hand: a neighbour to send to, a neighbour to receive
 * from, and all else made of these. Where `exchange` calls Lockstep's channel, yours would call
 * MPI_Sendrecv, a NCCL group or a socket. It is judged as it is; then with each of its mistakes
 * switched on, which others have made before (--mistake shows the whole report of one).
 *
 * All-reduce as a ring (chapter 2): cut the array into a share per rank. P - 1 steps: send a share
 * to the right, add what comes from the left to the next one. Then every rank has one share
 * finished, and P - 1 steps more pass the finished ones on. */
#include <lockstep/parts.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 16 };

typedef enum mistake {
    NONE = 0,
    BIAS_ON_EVERY_RANK, /* added before the sum, so that the sum has it P times            */
    NOT_REDUCED,        /* the column layer's dx is a part of a sum, and stays one          */
    REDUCED_TWICE,      /* by the layer, and once more by who calls it                      */
    AVERAGED,           /* the all-reduce was written for gradients of data parallelism     */
    STEP_SHORT,         /* P - 2 steps                                                      */
    EQUAL_SHARES,       /* n / P elements each: the last n mod P belong to no rank           */
    ADDS_INTO_INPUT,    /* the ring adds up in the caller's array                           */
    ALL_SEND_FIRST,     /* and none receives: the rendezvous never comes                      */
    MISTAKES
} mistake;

static const char *const NAMES[MISTAKES + 1] = {"none",     "bias",  "not-reduced",  "twice",
                                                "average",  "short", "equal-shares", "in-input",
                                                "all-send", NULL};
static int on = NONE;

/* ---- the wire ---- */

static ls_group *groups[MAX_RANKS];
static struct {
    ls_backend_function function;
    void *argument;
} job;

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    groups[ls_rank_index(rank)] = ls_rank_world_group(rank);
    job.function(ls_rank_index(rank), job.argument);
    return LS_OK;
}

/* The table's run: every rank a thread of a Lockstep world. A table without it gets threads from
 * the judge. That the world broke down is known to the ranks' functions, which say so. */
static int run(void *context, int ranks, ls_backend_function function, void *argument)
{
    (void)context;
    job.function = function;
    job.argument = argument;
    const ls_status status = ls_world_run(ranks, NULL, one_rank, NULL);
    ls_error_clear();
    return status == LS_OK || status == LS_ERR_RANK ? LS_BACKEND_DONE : LS_BACKEND_FAILED;
}

static int failed(ls_backend_rank *me, const char *why)
{
    snprintf(me->error, sizeof me->error, "%.150s", why);
    return LS_BACKEND_FAILED;
}

/* Sends n_out numbers to the right while n_in come from the left. */
static int exchange(ls_backend_rank *me, const float *out, size_t n_out, float *in, size_t n_in)
{
    const int right = (me->rank + 1) % me->ranks, left = (me->rank + me->ranks - 1) % me->ranks;
    ls_group *group = groups[me->rank];
    ls_status status;
    if (on == ALL_SEND_FIRST) {
        status = ls_send(group, right, 0, out, n_out, LS_F32); /* <- wrong */
        if (status == LS_OK) status = ls_receive(group, left, 0, in, n_in, LS_F32);
    } else
        status = ls_send_receive(group, right, 0, out, n_out, left, 0, in, n_in, LS_F32);
    return status == LS_OK ? LS_BACKEND_DONE : failed(me, ls_error_text());
}

/* ---- the ring ---- */

static ls_share share_of(const ls_backend_rank *me, size_t n, int step)
{
    const size_t P = (size_t)me->ranks;
    const size_t which = (size_t)(me->rank + 2 * me->ranks - step) % P;
    if (on == EQUAL_SHARES) return (ls_share){which * (n / P), n / P}; /* <- wrong */
    return ls_share_of(n, P, which);
}

static int ring(ls_backend_rank *me, float *x, size_t n, ls_backend_reduction reduction)
{
    int result = LS_BACKEND_DONE;
    float *come = malloc((n + 1) * sizeof *come);
    const int steps = me->ranks - 1 - (on == STEP_SHORT && me->ranks > 1); /* <- wrong */
    if (come == NULL) return failed(me, "no memory");
    /* Each share goes once round and is added to on the way. */
    for (int s = 0; s < steps && result == LS_BACKEND_DONE; s++) {
        const ls_share out = share_of(me, n, s), in = share_of(me, n, s + 1);
        result = exchange(me, x + out.first, out.count, come, in.count);
        for (size_t i = 0; i < in.count && result == LS_BACKEND_DONE; i++) {
            float *to = &x[in.first + i];
            if (reduction == LS_BACKEND_SUM)
                *to += come[i];
            else if (come[i] > *to)
                *to = come[i];
        }
    }
    /* The finished shares go round. */
    for (int s = 0; s < me->ranks - 1 && result == LS_BACKEND_DONE; s++) {
        const ls_share out = share_of(me, n, s - 1 + me->ranks), in = share_of(me, n, s);
        result = exchange(me, x + out.first, out.count, x + in.first, in.count);
    }
    if (on == AVERAGED && reduction == LS_BACKEND_SUM) /* <- wrong */
        for (size_t i = 0; i < n; i++) x[i] /= (float)me->ranks;
    free(come);
    return result;
}

static int all_reduce(ls_backend_rank *me, float *out, const float *in, size_t n,
                      ls_backend_reduction reduction)
{
    float *work = on == ADDS_INTO_INPUT ? (float *)in : out; /* <- wrong */
    if (work != in && n > 0) memcpy(work, in, n * sizeof *out);
    const int result = ring(me, work, n, reduction);
    if (work != out && n > 0) memcpy(out, work, n * sizeof *out);
    return result;
}

static int all_gather(ls_backend_rank *me, float *out, const float *in, const size_t *starts)
{
    const int P = me->ranks, r = me->rank;
    int result = LS_BACKEND_DONE;
    if (starts[r + 1] > starts[r])
        memcpy(out + starts[r], in, (starts[r + 1] - starts[r]) * sizeof *out);
    for (int s = 0; s < P - 1 && result == LS_BACKEND_DONE; s++) {
        const int give = (r + P - s) % P, take = (r + P - s - 1) % P;
        result = exchange(me, out + starts[give], starts[give + 1] - starts[give],
                          out + starts[take], starts[take + 1] - starts[take]);
    }
    return result;
}

/* ---- layers (chapter 3): plain loops, and the ring where a sum crosses ranks ---- */

/* c = a b, rows x cols over n terms; a at a[i * ar + k * ac], b alike. */
static void product(float *c, const float *a, size_t ar, size_t ac, const float *b, size_t br,
                    size_t bc, size_t rows, size_t cols, size_t n)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            float sum = 0;
            for (size_t k = 0; k < n; k++) sum += a[i * ar + k * ac] * b[k * br + j * bc];
            c[i * cols + j] = sum;
        }
}

static void add_bias(float *y, const float *bias, size_t rows, size_t cols)
{
    for (size_t i = 0; bias != NULL && i < rows * cols; i++) y[i] += bias[i % cols];
}

static void add_rows(float *sum, const float *x, size_t rows, size_t cols)
{
    for (size_t j = 0; sum != NULL && j < cols; j++) {
        sum[j] = 0;
        for (size_t i = 0; i < rows; i++) sum[j] += x[i * cols + j];
    }
}

static size_t own_width(const ls_backend_rank *me, const ls_backend_linear *s)
{
    return s->cut.starts[me->rank + 1] - s->cut.starts[me->rank];
}

static int column_forward(ls_backend_rank *me, float *y, const float *x, const float *w,
                          const float *bias, const ls_backend_linear *s)
{
    const size_t n = s->B * s->S, width = own_width(me, s);
    product(y, x, s->in, 1, w, width, 1, n, width, s->in);
    add_bias(y, bias, n, width);
    return LS_BACKEND_DONE;
}

static int column_backward(ls_backend_rank *me, float *dx, float *dw, float *dbias, const float *dy,
                           const float *x, const float *w, const ls_backend_linear *s)
{
    const size_t n = s->B * s->S, width = own_width(me, s);
    int result = LS_BACKEND_DONE;
    product(dw, x, 1, s->in, dy, width, 1, s->in, width, n);
    add_rows(dbias, dy, n, width);
    product(dx, dy, width, 1, w, 1, width, n, s->in, width);
    if (on != NOT_REDUCED) result = ring(me, dx, n * s->in, LS_BACKEND_SUM); /* f backward */
    if (on == REDUCED_TWICE && result == LS_BACKEND_DONE)
        result = ring(me, dx, n * s->in, LS_BACKEND_SUM); /* <- wrong */
    return result;
}

static int row_forward(ls_backend_rank *me, float *y, const float *x, const float *w,
                       const float *bias, const ls_backend_linear *s)
{
    const size_t n = s->B * s->S, width = own_width(me, s);
    product(y, x, width, 1, w, s->out, 1, n, s->out, width);
    if (on == BIAS_ON_EVERY_RANK) add_bias(y, bias, n, s->out); /* <- wrong */
    const int result = ring(me, y, n * s->out, LS_BACKEND_SUM); /* g forward */
    if (on != BIAS_ON_EVERY_RANK) add_bias(y, bias, n, s->out);
    return result;
}

static int row_backward(ls_backend_rank *me, float *dx, float *dw, float *dbias, const float *dy,
                        const float *x, const float *w, const ls_backend_linear *s)
{
    const size_t n = s->B * s->S, width = own_width(me, s);
    product(dw, x, 1, width, dy, s->out, 1, width, s->out, n);
    add_rows(dbias, dy, n, s->out);
    product(dx, dy, s->out, 1, w, 1, s->out, n, width, s->out);
    return LS_BACKEND_DONE;
}

static const ls_backend table = {.name = "a ring by hand",
                                 .max_ranks = MAX_RANKS,
                                 .run = run,
                                 .all_reduce = all_reduce,
                                 .all_gather = all_gather,
                                 .column_linear_forward = column_forward,
                                 .column_linear_backward = column_backward,
                                 .row_linear_forward = row_forward,
                                 .row_linear_backward = row_backward};

/* ---- the judgements ---- */

/* What each mistake must be called, and where it is seen. */
static const struct {
    const char *operation, *looks_like;
} EXPECTED[MISTAKES] = {
    [BIAS_ON_EVERY_RANK] = {"row_linear_forward", "bias added once per rank"},
    [NOT_REDUCED] = {"column_linear_backward", "partial sums not reduced"},
    [REDUCED_TWICE] = {"column_linear_backward", "reduced twice"},
    [AVERAGED] = {"all_reduce_sum", "averaged over the ranks instead of summed"},
    [STEP_SHORT] = {"all_reduce_sum", "one rank's part missing"},
    [EQUAL_SHARES] = {"all_reduce_sum", "partial sums not reduced"},
    [ADDS_INTO_INPUT] = {"all_reduce_sum", "the input in used as a work buffer"},
    [ALL_SEND_FIRST] = {"all_reduce_sum", ""},
};

/* only: the operations whose name contains it; NULL: all. */
static ls_status judge_with(mistake m, int ranks, uint64_t seed, const char *only,
                            ls_judge_report **ret_report)
{
    const ls_judge_options options = {.max_ranks = ranks, .seed = seed, .only = only};
    on = (int)m;
    const ls_status status = ls_judge(&table, &options, ret_report);
    on = NONE;
    return status;
}

/* Whether the mistake was found and called by its name. On one rank most do no harm. */
static bool named(const ls_judge_report *report, mistake m, const ls_judge_line **ret_line)
{
    const ls_judge_line *line = ls_judge_find(report, EXPECTED[m].operation, LS_JUDGE_EXACT);
    *ret_line = line;
    return line != NULL && line->passed < line->cases && report->verdict == LS_JUDGE_WRONG &&
           strcmp(line->suspected, EXPECTED[m].looks_like) == 0;
}

static ls_status go_through_mistakes(int ranks, uint64_t seed, bool *equal)
{
    ls_status status = LS_OK;
    ls_judge_report *report = NULL;
    printf("\nWith each of its mistakes, what the judge says of an operation that has it:\n");
    printf("  %-12s  %-22s  %-9s  %s\n", "--mistake", "operation", "passed", "looks like");
    for (int m = NONE + 1; m < MISTAKES; m++) {
        const ls_judge_line *line = NULL;
        LS_TRY(judge_with((mistake)m, ranks, seed, EXPECTED[m].operation, &report));
        const bool found = named(report, (mistake)m, &line);
        printf("  %-12s  %-22s  %3zu of %-3zu", NAMES[m], EXPECTED[m].operation, line->passed,
               line->cases);
        const bool circle = strstr(line->first, "ranks wait for each other") != NULL;
        printf("  %s%s%s\n",
               circle               ? "nothing: ranks wait for each other"
               : line->suspected[0] ? line->suspected
                                    : "right: nothing is seen",
               line->only[0] && !circle ? "; only " : "", circle ? "" : line->only);
        *equal &= found || ranks == 1;
        ls_judge_report_destroy(&report);
    }
exit:
    ls_judge_report_destroy(&report);
    return status;
}

int main(int argc, char **argv)
{
    ls_status status = LS_OK;
    ls_judge_report *report = NULL;
    int ranks = 4, shown = BIAS_ON_EVERY_RANK;
    uint64_t seed = 1;
    bool help = false, equal = true;
    ls_option options[] = {
        ls_option_int("ranks", &ranks, 1, MAX_RANKS, "N", "judge on 1 to N ranks"),
        ls_option_choice("mistake", &shown, NAMES, "whose report to show whole"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 13: judge a backend of your own\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    mistake first = NONE;
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
    first = STEP_SHORT;
#endif
    printf("A backend by hand, as it is, on 1 to %d ranks:\n\n", ranks);
    LS_TRY(judge_with(first, ranks, seed, NULL, &report));
    ls_judge_print(stdout, report);
    equal &= report->verdict == LS_JUDGE_RIGHT;
    ls_judge_report_destroy(&report);

    if (shown != NONE) {
        printf("\nWRONG ON PURPOSE, the same with --mistake %s:\n\n", NAMES[shown]);
        LS_TRY(judge_with((mistake)shown, ranks, seed, NULL, &report));
        ls_judge_print(stdout, report);
    }
    LS_TRY(go_through_mistakes(ranks, seed, &equal));
    printf("\n%s\n", equal ? "The backend is right, and every mistake was found and named."
                           : "DIFFERENT: the backend is not right, or a mistake was not found.");
    if (!equal) status = LS_DIFFERENT;
exit:
    ls_judge_report_destroy(&report);
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "13_judge_your_backend: %s\n", ls_error_text());
    return ls_exit_code(status);
}
