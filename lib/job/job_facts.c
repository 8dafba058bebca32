#include "job/job_facts.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void ls_job_facts_set(ls_job_facts *facts, const char *name, double value)
{
    assert(facts->n_numbers < LS_JOB_FACTS);
    facts->numbers[facts->n_numbers].name = name;
    facts->numbers[facts->n_numbers++].value = value;
}

void ls_job_facts_say(ls_job_facts *facts, const char *name, const char *text)
{
    assert(facts->n_words < LS_JOB_FACTS);
    facts->words[facts->n_words].name = name;
    snprintf(facts->words[facts->n_words++].text, LS_JOB_WORD, "%s", text);
}

double ls_job_facts_number(const ls_job_facts *facts, const char *name)
{
    for (size_t i = 0; i < facts->n_numbers; i++)
        if (strcmp(facts->numbers[i].name, name) == 0) return facts->numbers[i].value;
    return (double)NAN;
}

const char *ls_job_facts_word(const ls_job_facts *facts, const char *name)
{
    for (size_t i = 0; i < facts->n_words; i++)
        if (strcmp(facts->words[i].name, name) == 0) return facts->words[i].text;
    return "";
}
