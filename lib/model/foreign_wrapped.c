/* foreign_wrapped.c - names of compiled or wrapped models: what a wrapper of PyTorch puts before a
 * tensor's name, or into it. Such names are refused with the remedy; guessing that the rest is the
 * model would be right most of the time. */
#include <string.h>

#include "model/foreign_rules.h"

/* The parts that can be anywhere in a name; the last ones only at its beginning. */
static const ls_foreign_wrapper wrappers[] = {
    {"_orig_mod.", "torch.compile", "model._orig_mod.state_dict()"},
    {"_fsdp_wrapped_module.", "FullyShardedDataParallel", "a full state_dict without it"},
    {"_checkpoint_wrapped_module.", "activation checkpointing", "a state_dict without it"},
    {"_forward_module.", "a training framework", "the state_dict of the model inside"},
    {"module.", "DataParallel or DistributedDataParallel", "model.module.state_dict()"},
};
static const ls_foreign_wrapper leading[] = {
    {"base_model.model.", "an adapter", "the merged model (merge_and_unload)"},
    {"model.", "a class that holds the model", "the state_dict of the model inside"},
};

/* Whether a list of names, or the map's own, has it. */
static bool is_known(const ls_foreign_map *map, const char *name)
{
    for (size_t i = 0; i < map->count; i++)
        if (strcmp(map->tensors[i].name, name) == 0) return true;
    for (int names = LS_NAMES_OWN + 1; names < LS_NAMES_COUNT; names++)
        if (ls_foreign_knows(ls_foreign_convention_of((ls_names)names), name)) return true;
    return false;
}

/* Where the part is, at the beginning of the name or of a word in it. */
static char *find_part(char *name, const char *part)
{
    for (char *at = strstr(name, part); at; at = strstr(at + 1, part))
        if (at == name || at[-1] == '.') return at;
    return NULL;
}

static void cut(char *at, const char *part)
{
    const size_t length = strlen(part);
    memmove(at, at + length, strlen(at + length) + 1);
}

bool ls_foreign_unwrap(const ls_foreign_map *map, const char *name,
                       char ret_plain[LS_FOREIGN_NAME_BYTES],
                       const ls_foreign_wrapper **ret_wrapper)
{
    char *plain = ret_plain;
    if (strlen(name) >= LS_FOREIGN_NAME_BYTES) return false;
    strcpy(plain, name);
    *ret_wrapper = NULL;
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
        for (char *at = find_part(plain, wrappers[i].part); at;
             at = find_part(plain, wrappers[i].part)) {
            cut(at, wrappers[i].part);
            if (!*ret_wrapper) *ret_wrapper = &wrappers[i];
        }
    if (*ret_wrapper && is_known(map, plain)) return true;
    for (size_t i = 0; i < sizeof leading / sizeof *leading; i++) {
        if (strncmp(plain, leading[i].part, strlen(leading[i].part)) != 0) continue;
        cut(plain, leading[i].part);
        if (!*ret_wrapper) *ret_wrapper = &leading[i];
        if (is_known(map, plain)) return true;
    }
    return false;
}
