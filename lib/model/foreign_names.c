/* foreign_names.c - whose names there are, and whose a file has. */
#include <string.h>

#include "lockstep/base/show.h"
#include "model/foreign_rules.h"

const ls_foreign_convention *ls_foreign_convention_of(ls_names names)
{
    switch (names) {
    case LS_NAMES_GPT2:
        return &ls_foreign_gpt2;
    case LS_NAMES_LLAMA:
        return &ls_foreign_llama;
    case LS_NAMES_BERT:
        return &ls_foreign_bert;
    case LS_NAMES_META_LLAMA:
        return &ls_foreign_meta_llama;
    case LS_NAMES_MEGATRON:
        return &ls_foreign_megatron;
    case LS_NAMES_MEGATRON_CORE:
        return &ls_foreign_megatron_core;
    case LS_NAMES_OWN:
    case LS_NAMES_COUNT:
        break;
    }
    return NULL;
}

const char *ls_names_option(ls_names names)
{
    const ls_foreign_convention *convention = ls_foreign_convention_of(names);
    return convention ? convention->option : "own";
}

const char *ls_names_title(ls_names names)
{
    const ls_foreign_convention *convention = ls_foreign_convention_of(names);
    return convention ? convention->title : "Lockstep";
}

ls_status ls_names_parse(const char *label, const char *text, const ls_config *config,
                         ls_names *ret_names)
{
    ls_status status = LS_OK;
    const char *known[LS_NAMES_COUNT + 1];
    for (int i = 0; i < LS_NAMES_COUNT; i++) {
        known[i] = ls_names_option((ls_names)i);
        if (strcmp(text, known[i]) != 0) continue;
        *ret_names = (ls_names)i;
        return LS_OK;
    }
    known[LS_NAMES_COUNT] = "hf";
    if (strcmp(text, "hf") == 0) {
        *ret_names = config->objective == LS_MASKED_TOKEN ? LS_NAMES_BERT
                     : config->position == LS_ROTARY      ? LS_NAMES_LLAMA
                                                          : LS_NAMES_GPT2;
        return LS_OK;
    }
    const char *nearest = ls_nearest(text, known, LS_NAMES_COUNT + 1);
    LS_FAIL(LS_ERR_INPUT,
            "%s %s: nobody's names%s%s%s; use own, hf (the one that fits the model), hf-gpt2, "
            "hf-llama, hf-bert, meta-llama, megatron or megatron-core",
            label, ls_show(text), nearest ? " (did you mean " : "", nearest ? nearest : "",
            nearest ? "?)" : "");
exit:
    return status;
}

/* ---- is this name that rule's ---- */

/* "h.*.ln_1.bias" against "h.11.ln_1.bias": the star stands for a whole number as programs write
 * it, at most 6 digits. */
static bool fits_pattern(const char *pattern, const char *name, size_t *ret_layer)
{
    enum { MOST_DIGITS = 6 };
    const char *star = strchr(pattern, '*');
    size_t before, digits = 0, layer = 0;
    *ret_layer = 0;
    if (!star) return strcmp(pattern, name) == 0;
    before = (size_t)(star - pattern);
    if (strncmp(pattern, name, before) != 0) return false;
    for (name += before; *name >= '0' && *name <= '9' && digits < MOST_DIGITS; name++, digits++)
        layer = 10 * layer + (size_t)(*name - '0');
    if (digits == 0 || (digits > 1 && name[-(ptrdiff_t)digits] == '0')) return false;
    *ret_layer = layer;
    return strcmp(star + 1, name) == 0;
}

bool ls_foreign_rule_names(const ls_foreign_convention *convention, const ls_foreign_rule *rule,
                           const char *name, size_t *ret_layer)
{
    size_t length = convention->prefix ? strlen(convention->prefix) : 0;
    if (fits_pattern(rule->name, name, ret_layer)) return true;
    return length > 0 && strncmp(rule->name, convention->prefix, length) == 0 &&
           fits_pattern(rule->name + length, name, ret_layer);
}

bool ls_foreign_modern(const ls_foreign_convention *convention, const char *name,
                       char ret_name[LS_FOREIGN_NAME_BYTES])
{
    size_t length = strlen(name);
    if (length >= LS_FOREIGN_NAME_BYTES) return false;
    memcpy(ret_name, name, length + 1);
    for (size_t i = 0; i < LS_FOREIGN_SYNONYMS && convention->synonyms[i].older; i++) {
        const ls_foreign_synonym *synonym = &convention->synonyms[i];
        char *at = strstr(ret_name, synonym->older);
        size_t older = strlen(synonym->older), newer = strlen(synonym->newer);
        if (!at) continue;
        if (length - older + newer >= LS_FOREIGN_NAME_BYTES) return false;
        memmove(at + newer, at + older, strlen(at + older) + 1);
        memcpy(at, synonym->newer, newer);
        length = length - older + newer;
    }
    return true;
}

/* ---- whose names are these ---- */

bool ls_foreign_knows(const ls_foreign_convention *convention, const char *name)
{
    char modern[LS_FOREIGN_NAME_BYTES];
    size_t layer;
    if (!ls_foreign_modern(convention, name, modern)) return false;
    for (size_t r = 0; r < convention->n_rules; r++)
        if (ls_foreign_rule_names(convention, &convention->rules[r], modern, &layer)) return true;
    return false;
}

ls_names ls_names_recognise(const char *(*name_at)(const void *context, size_t i),
                            const void *context, size_t count)
{
    ls_names best = LS_NAMES_OWN;
    size_t most = 0;
    for (int names = LS_NAMES_OWN + 1; names < LS_NAMES_COUNT; names++) {
        const ls_foreign_convention *convention = ls_foreign_convention_of((ls_names)names);
        size_t known = 0;
        for (size_t i = 0; i < count; i++)
            known += ls_foreign_knows(convention, name_at(context, i));
        if (known <= most) continue;
        most = known;
        best = (ls_names)names;
    }
    return best;
}
