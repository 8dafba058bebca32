/* gallery_table.c - the faults of faults.inc, with the sets of scenes that its rows speak of. */
#include "gallery.h"

ls_fault ls_fault_chosen = LS_FAULT_NONE;

#define IN(scene) (1u << LS_SCENE_##scene)

enum {
    GPT_TP = IN(GPT_TP2) | IN(GPT_TP4_SP) | IN(GPT_RECOMPUTED) | IN(GPT_3D),
    GPT = GPT_TP | IN(GPT_PP2_DP2),
    LLAMA = IN(LLAMA_TP2) | IN(LLAMA_TP4_SP),
    BERT = IN(BERT_TP2) | IN(BERT_TP2_SP),
    DP_PP = IN(GPT_PP2_DP2) | IN(GPT_3D),
    SP = IN(GPT_TP4_SP) | IN(GPT_3D) | IN(LLAMA_TP4_SP) | IN(BERT_TP2_SP),
    TP = GPT_TP | LLAMA | BERT,
    ALL = GPT | LLAMA | BERT,
    NET = IN(NET_SPATIAL) | IN(NET_SAMPLES) | IN(NET_CHANNELS)
};

#define LS_SEEDED(name, key, text, scenes, found, ...)                                             \
    {LS_FAULT_##name, key, text, scenes, found, {__VA_ARGS__}},
const ls_gallery_fault ls_gallery_faults[LS_FAULTS_COUNT - 1] = {
#include "faults.inc"
};
#undef LS_SEEDED
