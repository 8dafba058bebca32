/* job_facts.h - what an action of a job found: numbers and words, by name. */
#ifndef LS_JOB_JOB_FACTS_H
#define LS_JOB_JOB_FACTS_H

#include <stddef.h>

enum { LS_JOB_FACTS = 16, LS_JOB_WORD = 512 };

typedef struct ls_job_facts {
    size_t n_numbers, n_words;
    struct {
        const char *name;
        double value;
    } numbers[LS_JOB_FACTS];
    struct {
        const char *name;
        char text[LS_JOB_WORD];
    } words[LS_JOB_FACTS];
} ls_job_facts;

/* name: lasts. A word longer than LS_JOB_WORD - 1 bytes is cut off there. */
void ls_job_facts_set(ls_job_facts *facts, const char *name, double value);
void ls_job_facts_say(ls_job_facts *facts, const char *name, const char *text);

/* NaN, "": there is none of this name. */
double ls_job_facts_number(const ls_job_facts *facts, const char *name);
const char *ls_job_facts_word(const ls_job_facts *facts, const char *name);

#endif
