/* foreign_rules.h - what a list of foreign names is made of; the lists are in foreign_names_*.c. */
#ifndef LS_MODEL_FOREIGN_RULES_H
#define LS_MODEL_FOREIGN_RULES_H

#include "lockstep/model/foreign.h"

/* How the outputs of a rule's parameters lie in one tensor. */
typedef enum ls_foreign_fusion {
    LS_FUSE_SIDE_BY_SIDE = 0, /* those of the first, those of the second, ...; one: as they are */
    LS_FUSE_BY_GROUP, /* query, key, value: of each key/value head its query heads, it, its value */
    LS_FUSE_PAIRED    /* one parameter, heads: the two features of a rotary pair are neighbours   */
} ls_foreign_fusion;

typedef enum ls_foreign_use {
    LS_RULE_HOLDS = 0, /* its parameters are in it, where the model has them         */
    LS_RULE_SPARE,     /* the same; a model without them leaves the tensor alone     */
    LS_RULE_TWIN,      /* the same values once more, where no other rule has the name */
    LS_RULE_IGNORED    /* nothing that a model needs                                 */
} ls_foreign_use;

typedef struct ls_foreign_rule {
    const char *name; /* with * where the number of the layer is */
    int n_roles;
    ls_role roles[LS_FOREIGN_PARTS];
    bool out_in;
    ls_foreign_fusion fusion;
    ls_foreign_use use;
} ls_foreign_rule;

/* clang-format off */
/* How the lists are written. A linear's weight is [out, in] in PyTorch, [in, out] in the table. */
#define AS_IS(text, role) {.name = text, .n_roles = 1, .roles = {role}}
#define OUT_IN(text, role) {.name = text, .n_roles = 1, .roles = {role}, .out_in = true}
#define PAIRED(text, role) \
    {.name = text, .n_roles = 1, .roles = {role}, .out_in = true, .fusion = LS_FUSE_PAIRED}
#define SIDE_BY_SIDE(text, n, ...) {.name = text, .n_roles = n, .roles = {__VA_ARGS__}}
#define OUT_IN_SIDE_BY_SIDE(text, n, ...) \
    {.name = text, .n_roles = n, .roles = {__VA_ARGS__}, .out_in = true}
#define BY_GROUP(text, ...) \
    {.name = text, .n_roles = 3, .roles = {__VA_ARGS__}, .fusion = LS_FUSE_BY_GROUP}
#define OUT_IN_BY_GROUP(text, ...) \
    {.name = text, .n_roles = 3, .roles = {__VA_ARGS__}, .out_in = true, .fusion = LS_FUSE_BY_GROUP}
#define TWIN(text, role) {.name = text, .n_roles = 1, .roles = {role}, .use = LS_RULE_TWIN}
#define SPARE(text, role) {.name = text, .n_roles = 1, .roles = {role}, .use = LS_RULE_SPARE}
#define SPARE_OUT_IN(text, role) \
    {.name = text, .n_roles = 1, .roles = {role}, .out_in = true, .use = LS_RULE_SPARE}
#define IGNORED(text) {.name = text, .use = LS_RULE_IGNORED}
#define QUERY_KEY_VALUE LS_QUERY_WEIGHT, LS_KEY_WEIGHT, LS_VALUE_WEIGHT
#define QUERY_KEY_VALUE_BIAS LS_QUERY_BIAS, LS_KEY_BIAS, LS_VALUE_BIAS
#define LS_FOREIGN_COUNT(rules) (sizeof rules / sizeof *rules)
#define ONLY(choice) (1u << (choice))
#define EITHER (1u << 0 | 1u << 1)
/* clang-format on */

/* A name that stands for another: the first time that `older` occurs in a name, `newer` is meant.
 */
typedef struct ls_foreign_synonym {
    const char *older, *newer;
} ls_foreign_synonym;

/* What a field of the configuration (by its key) must be: bit i of `allowed` is set when choice i
 * is; of a flag false is choice 0 and true 1, of a size 0 is choice 0 and everything else 1. */
typedef struct ls_foreign_demand {
    const char *key;
    unsigned allowed;
} ls_foreign_demand;

enum { LS_FOREIGN_DEMANDS = 12, LS_FOREIGN_SYNONYMS = 8 };

typedef struct ls_foreign_convention {
    const char *option, *title;
    const char *prefix; /* begins most names, and may be missing in all of them; NULL: none */
    const ls_foreign_rule *rules;
    size_t n_rules;
    bool pads_vocabulary; /* to the multiple that the table pads to */
    bool groups;          /* key and value heads may be fewer than query heads */
    ls_foreign_demand demands[LS_FOREIGN_DEMANDS];
    ls_foreign_synonym synonyms[LS_FOREIGN_SYNONYMS];
} ls_foreign_convention;

extern const ls_foreign_convention ls_foreign_gpt2, ls_foreign_llama, ls_foreign_bert,
    ls_foreign_meta_llama, ls_foreign_megatron, ls_foreign_megatron_core;

/* NULL for LS_NAMES_OWN. */
const ls_foreign_convention *ls_foreign_convention_of(ls_names names);

/* Whether `name` is the rule's, with or without the prefix; *ret_layer: the number at its *, 0
 * without one. */
bool ls_foreign_rule_names(const ls_foreign_convention *convention, const ls_foreign_rule *rule,
                           const char *name, size_t *ret_layer);

/* Whether any list of names, or the map, knows the name without the parts that a wrapper of PyTorch
 * puts into it: *ret_wrapper says which one, and how to save the model itself. `plain`: the name
 * without them. */
typedef struct ls_foreign_wrapper {
    const char *part, *of, *remedy;
} ls_foreign_wrapper;
bool ls_foreign_unwrap(const ls_foreign_map *map, const char *name,
                       char ret_plain[LS_FOREIGN_NAME_BYTES],
                       const ls_foreign_wrapper **ret_wrapper);

/* Whether a list of names has the name; an older spelling too. */
bool ls_foreign_knows(const ls_foreign_convention *convention, const char *name);

/* The name with older parts replaced by newer ones; false when it is longer than any known one. */
bool ls_foreign_modern(const ls_foreign_convention *convention, const char *name,
                       char ret_name[LS_FOREIGN_NAME_BYTES]);

#endif
