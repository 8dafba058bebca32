/* foreign_models.h - small models that other programs' names can be given to, every size different
 * from the others. */
#ifndef TEST_MODEL_FOREIGN_MODELS_H
#define TEST_MODEL_FOREIGN_MODELS_H

#include <check.h>

#include "lockstep/model/foreign.h"

typedef struct foreign_case {
    const char *name; /* in messages */
    ls_names names;
    ls_config config;
} foreign_case;

static inline ls_config foreign_gpt(void)
{
    ls_config c;
    ck_assert_int_eq(ls_config_named("gpt2-nano", &c), LS_OK);
    c.layers = 2;
    c.d_model = 12;
    c.heads = c.kv_heads = 3;
    c.d_ff = 21;
    c.seq = 5;
    c.vocab = 131; /* padded to 384 */
    return c;
}

static inline ls_config foreign_llama(size_t kv_heads)
{
    ls_config c;
    ck_assert_int_eq(ls_config_named("llama-nano", &c), LS_OK);
    c.layers = 2;
    c.d_model = 24;
    c.heads = 6; /* of 4 features: a rotary pair is not its neighbour */
    c.kv_heads = kv_heads;
    c.d_ff = 18;
    c.seq = 5;
    c.vocab = 131;
    return c;
}

static inline ls_config foreign_bert(ls_norm_place place, bool sentence_order)
{
    ls_config c;
    ck_assert_int_eq(ls_config_named("bert-nano", &c), LS_OK);
    c.layers = 2;
    c.d_model = 12;
    c.heads = c.kv_heads = 3;
    c.d_ff = 21;
    c.seq = 5;
    c.vocab = 263;
    c.token_types = 3;
    c.sentence_order = sentence_order;
    ls_config_place_norms(&c, place);
    return c;
}

enum { FOREIGN_CASES = 20 };

/* Case number i: every list of names with every kind of model that it is for, tied and not. */
static inline foreign_case foreign_case_of(int i)
{
    ls_config gpt = foreign_gpt(), untied = gpt, erf = gpt, plain = gpt, grouped = gpt;
    ls_config llama = foreign_llama(3), one = foreign_llama(1), all = foreign_llama(6);
    ls_config tied_llama = llama;
    untied.tied = false;
    erf.activation = LS_GELU_ERF;
    plain.position = LS_ROTARY;
    grouped.heads = 6;
    grouped.kv_heads = 2;
    tied_llama.tied = true;
    const foreign_case cases[FOREIGN_CASES] = {
        {"gpt2", LS_NAMES_GPT2, gpt},
        {"gpt2 untied", LS_NAMES_GPT2, untied},
        {"gpt2 erf", LS_NAMES_GPT2, erf},
        {"llama, 3 kv heads", LS_NAMES_LLAMA, llama},
        {"llama, 1 kv head", LS_NAMES_LLAMA, one},
        {"llama tied", LS_NAMES_LLAMA, tied_llama},
        {"bert", LS_NAMES_BERT, foreign_bert(LS_NORM_POST, true)},
        {"bert, one loss", LS_NAMES_BERT, foreign_bert(LS_NORM_POST, false)},
        {"meta llama, 3 kv heads", LS_NAMES_META_LLAMA, llama},
        {"meta llama, 6 kv heads", LS_NAMES_META_LLAMA, all},
        {"megatron gpt", LS_NAMES_MEGATRON, gpt},
        {"megatron gpt untied", LS_NAMES_MEGATRON, untied},
        {"megatron gpt grouped", LS_NAMES_MEGATRON, grouped},
        {"megatron rotary gpt", LS_NAMES_MEGATRON, plain},
        {"megatron llama, 3 kv heads", LS_NAMES_MEGATRON, llama},
        {"megatron llama, 1 kv head", LS_NAMES_MEGATRON, one},
        {"megatron bert", LS_NAMES_MEGATRON, foreign_bert(LS_NORM_PRE, true)},
        {"core gpt", LS_NAMES_MEGATRON_CORE, gpt},
        {"core llama, 3 kv heads", LS_NAMES_MEGATRON_CORE, llama},
        {"own", LS_NAMES_OWN, grouped},
    };
    return cases[i];
}

/* A map with its table. */
typedef struct foreign_fixture {
    ls_param_table *table;
    ls_foreign_map *map;
} foreign_fixture;

static inline foreign_fixture foreign_fixture_of(const ls_config *config, ls_names names)
{
    foreign_fixture f;
    ck_assert_msg(ls_param_table_create(&f.table, config) == LS_OK, "%s", ls_error_text());
    ck_assert_msg(ls_foreign_map_create(&f.map, f.table, names, "--names") == LS_OK, "%s",
                  ls_error_text());
    return f;
}

static inline void foreign_fixture_free(foreign_fixture *f)
{
    ls_foreign_map_destroy(&f->map);
    ck_assert_ptr_null(f->map);
    ls_param_table_destroy(&f->table);
}

/* The tensor that a file's name stands for. */
static inline const ls_foreign_tensor *foreign_named(const foreign_fixture *f, const char *name)
{
    const ls_foreign_tensor *tensor = NULL;
    ck_assert_msg(ls_foreign_match(f->map, "file", name, &tensor) == LS_OK, "%s", ls_error_text());
    ck_assert_msg(tensor != NULL, "%s holds nothing", name);
    return tensor;
}

#endif
