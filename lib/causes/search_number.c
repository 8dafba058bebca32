/* search_number.c - one number of a formula fitted to the candidate: from the best of a few
 * guesses, Gauss and Newton's steps in its logarithm. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "causes/search.h"

enum { STEPS = 8, EVALUATIONS = 9 + 2 * STEPS };

double ls_search_fit_slack(const ls_search *search)
{
    return fmax(1e-4, 4 * search->of->precision.u);
}

typedef struct fit {
    ls_search *search;
    ls_change change;
    size_t member;
    double *values, *moved; /* of the number, and a little more */
    bool done;
} fit;

static ls_status evaluate(fit *f, double number, double *values)
{
    memcpy((char *)&f->change.variant + f->member, &number, sizeof number);
    return ls_search_compute(f->search, f->search->of->node, &f->change.operands, values,
                             f->search->trial_bound, &f->done);
}

static double distance(const fit *f, const double *values)
{
    double sum = 0;
    for (size_t i = 0; i < f->search->n; i++)
        sum += (f->search->candidate[i] - values[i]) * (f->search->candidate[i] - values[i]);
    return isfinite(sum) ? sum : HUGE_VAL;
}

static ls_status first_guess(fit *f, double right, double *ret_log)
{
    ls_status status = LS_OK;
    static const double guesses[] = {1, 0.1, 0.25, 0.5, 0.8, 1.25, 2, 4, 10};
    const double begun = f->search->work;
    double least = HUGE_VAL;
    for (size_t i = 0; i < sizeof guesses / sizeof *guesses; i++) {
        LS_TRY(evaluate(f, guesses[i] * right, f->values));
        /* There are other hypotheses: a fit has a quarter of the work at most. */
        if (i == 0) f->done &= EVALUATIONS * (begun - f->search->work) <= begun / 4;
        if (!f->done) goto exit;
        const double here = distance(f, f->values);
        if (here < least) least = here, *ret_log = log(guesses[i] * right);
    }
    f->done = isfinite(least);
exit:
    return status;
}

ls_status ls_search_fit(ls_search *search, size_t member, double right, double *ret_value,
                        bool *ret_done)
{
    ls_status status = LS_OK;
    const double by = 1e-5;
    double at = 0, step = 1;
    fit f = {.search = search, .member = member};
    *ret_done = false;
    LS_TRY(ls_change_begin(&f.change, &search->of->operands));
    LS_ROOM(f.values, 2 * search->n);
    f.moved = f.values + search->n;
    LS_TRY(first_guess(&f, right, &at));
    for (int i = 0; i < STEPS && f.done && fabs(step) > 1e-8; i++) {
        double along = 0, squares = 0;
        LS_TRY(evaluate(&f, exp(at), f.values));
        if (f.done) LS_TRY(evaluate(&f, exp(at + by), f.moved));
        if (!f.done) goto exit;
        for (size_t k = 0; k < search->n; k++) {
            const double slope = (f.moved[k] - f.values[k]) / by;
            along += slope * (search->candidate[k] - f.values[k]);
            squares += slope * slope;
        }
        if (!(squares > 0) || !isfinite(along) || !isfinite(squares)) goto exit;
        step = fmax(-0.7, fmin(0.7, along / squares));
        at += step;
    }
    *ret_value = exp(at);
    *ret_done = f.done && isfinite(*ret_value);
exit:
    free(f.values);
    ls_change_end(&f.change);
    return status;
}
