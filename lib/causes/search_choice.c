/* search_choice.c - of several values of one number that all fit, the one that leaves least. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/append.h"
#include "causes/search.h"

void ls_choice_begin(ls_choice *choice, ls_search *search, ls_cause cause)
{
    memset(choice, 0, sizeof *choice);
    choice->search = search;
    choice->cause = cause;
    choice->before = search->best;
    choice->fitted_before = search->fits[cause];
    choice->least = HUGE_VAL;
}

void ls_choice_next(ls_choice *choice)
{
    choice->search->best = choice->before;
    choice->search->fits[choice->cause] = false;
}

void ls_choice_note(ls_choice *choice, double handicap, const char *name)
{
    const ls_search *search = choice->search;
    const double residual = handicap * search->explained.residual;
    if (!search->fits[choice->cause]) return;
    if (choice->count < LS_CHOICES) choice->names[choice->count] = name;
    if (residual < choice->least) {
        choice->least = residual, choice->chosen = choice->count;
        choice->left = search->explained.left, choice->bound = search->explained.bound;
        snprintf(choice->text, sizeof choice->text, "%s", search->explained.text);
    }
    choice->count++;
}

/* " (1e-08 and 1e-12 fit too)" */
static void add_others(const ls_choice *choice, char *text, size_t room)
{
    const size_t named = choice->count < LS_CHOICES ? choice->count : LS_CHOICES;
    size_t length = 0, told = 0;
    text[0] = 0;
    for (size_t i = 0; i < named; i++) {
        if (i == choice->chosen) continue;
        const char *between = told == 0 ? " (" : told + 2 < named ? ", " : " and ";
        length = ls_append(text, room, length, "%s%s", between, choice->names[i]);
        told++;
    }
    if (told > 0) ls_append(text, room, length, " fit%s too)", told == 1 ? "s" : "");
}

void ls_choice_end(ls_choice *choice)
{
    char text[LS_EVIDENCE], others[200];
    ls_search *search = choice->search;
    search->best = choice->before;
    search->fits[choice->cause] = choice->fitted_before;
    if (choice->count == 0) return;
    add_others(choice, others, sizeof others);
    snprintf(text, sizeof text, "%s%s", choice->text, others);
    ls_search_take(search, choice->cause, text, choice->left, choice->bound);
}
