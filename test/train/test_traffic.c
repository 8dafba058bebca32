/* What a step sends, in numbers that were worked out by hand, group by group: over tp with and
 * without sequence parallelism (Korthikanti et al.: per layer 2 all-gathers and 2 reduce-scatters
 * forward, 4 and 2 backward), over the pipeline (1F1B's messages, the tied embedding between the
 * ends alone), over dp (one gradient reduction a step, however many micro-batches).
 *
 * GPT-2's choices, 2 layers, D 24, 12 heads, F 36, a vocabulary of 300 padded to 384, 7 positions;
 * batches of 4 sequences of 6 tokens: 24 tokens, 576 numbers between two blocks, 2304 bytes. */
#include "pipeline/grid_fixture.h"
#include "run_tests.h"

typedef struct traffic {
    const char *what;
    int dp, pp, tp, sp, chunks, micro_batches;
    ls_recompute recompute;
    int rank, group;
    ls_operation op;
    uint64_t calls, bytes;
} traffic;

#define NONE LS_RECOMPUTE_NONE

static const traffic known[] = {
    /* 4 all-reduces a layer, one of the embedding, one of the head: 10 of 2304 bytes; of the loss
     * one of 24 maxima and one of 2 sums each: 96 + 192 */
    {"tp 2", 1, 1, 2, 0, 1, 1, NONE, 0, IN_TP, LS_OP_ALL_REDUCE, 12, 23328},
    {"tp 2", 1, 1, 2, 0, 1, 1, NONE, 1, IN_TP, LS_OP_ALL_REDUCE, 12, 23328},
    {"tp 2", 1, 1, 2, 0, 1, 1, NONE, 1, IN_TP, LS_OP_REDUCE_SCATTER, 0, 0},
    {"tp 2", 1, 1, 2, 0, 1, 1, NONE, 1, IN_TP, LS_OP_ALL_GATHER, 0, 0},
    /* 12 heads in runs of 4 make 2, 3 and 2 nodes of their tree; the embedding has one partial:
     * 9 * 2 + 1 and 9 * 3 + 1 times 2304, and 96 + 2 * 192 or 96 + 3 * 192 */
    {"tp 3", 1, 1, 3, 0, 1, 1, NONE, 0, IN_TP, LS_OP_ALL_REDUCE, 12, 44256},
    {"tp 3", 1, 1, 3, 0, 1, 1, NONE, 1, IN_TP, LS_OP_ALL_REDUCE, 12, 65184},
    {"tp 3", 1, 1, 3, 0, 1, 1, NONE, 2, IN_TP, LS_OP_ALL_REDUCE, 12, 44256},
    /* the same bytes in twice the calls */
    {"tp 2, 2 micro-batches", 1, 1, 2, 0, 1, 2, NONE, 0, IN_TP, LS_OP_ALL_REDUCE, 24, 23328},
    /* again: 2 a layer; with the stage's the embedding and the loss, too */
    {"tp 2", 1, 1, 2, 0, 1, 1, LS_RECOMPUTE_SELECTIVE, 0, IN_TP, LS_OP_ALL_REDUCE, 12, 23328},
    {"tp 2", 1, 1, 2, 0, 1, 1, LS_RECOMPUTE_LAYER, 0, IN_TP, LS_OP_ALL_REDUCE, 16, 32544},
    {"tp 2", 1, 1, 2, 0, 1, 1, LS_RECOMPUTE_STAGE, 0, IN_TP, LS_OP_ALL_REDUCE, 19, 35136},
    /* the ten are reduce-scatters now; 6 gathers a layer and 3 of the ends, of 3 tokens of 4
     * sequences, 1152 bytes */
    {"tp 2 sp", 1, 1, 2, 1, 1, 1, NONE, 0, IN_TP, LS_OP_REDUCE_SCATTER, 10, 23040},
    {"tp 2 sp", 1, 1, 2, 1, 1, 1, NONE, 0, IN_TP, LS_OP_ALL_GATHER, 15, 17280},
    /* the loss, and the norms: 4 vectors a layer, 2 of the last, for 4 sequences: 2 * 1536 + 768 */
    {"tp 2 sp", 1, 1, 2, 1, 1, 1, NONE, 0, IN_TP, LS_OP_ALL_REDUCE, 5, 4128},
    /* one sum of squares for each of 267 granules, over all ranks of a replica */
    {"tp 2", 1, 1, 2, 0, 1, 1, NONE, 1, IN_MODEL, LS_OP_ALL_REDUCE, 1, 2136},
    {"pp 2", 1, 2, 1, 0, 1, 2, NONE, 1, IN_MODEL, LS_OP_ALL_REDUCE, 1, 2136},
    {"dp 2", 2, 1, 1, 0, 1, 2, NONE, 1, IN_MODEL, LS_OP_ALL_REDUCE, 1, 2136},
    /* the number of targets (8 bytes), all gradients (27216 numbers, the embedding's 9216 for each
     * use), the loss (4): one each, not one for each micro-batch */
    {"dp 2", 2, 1, 1, 0, 1, 1, NONE, 0, IN_DP, LS_OP_ALL_REDUCE, 3, 108876},
    {"dp 2", 2, 1, 1, 0, 1, 2, NONE, 1, IN_DP, LS_OP_ALL_REDUCE, 3, 108876},
    {"dp 4", 4, 1, 1, 0, 1, 1, NONE, 3, IN_DP, LS_OP_ALL_REDUCE, 3, 108876},
    /* 2, 1 and 1 of 4 sequences are one node each */
    {"dp 3", 3, 1, 1, 0, 1, 1, NONE, 2, IN_DP, LS_OP_ALL_REDUCE, 3, 108876},
    {"dp 1", 1, 1, 1, 0, 1, 2, NONE, 0, IN_DP, LS_OP_ALL_REDUCE, 0, 0},
    /* a message of 1152 bytes for each micro-batch of 2 sequences and cut, forward by the one in
     * front, backward by the one behind; and at both ends the embedding's 36864 */
    {"pp 2", 1, 2, 1, 0, 1, 2, NONE, 0, IN_PP, LS_OP_SEND, 3, 39168},
    {"pp 2", 1, 2, 1, 0, 1, 2, NONE, 1, IN_PP, LS_OP_SEND, 3, 39168},
    {"pp 2", 1, 2, 1, 0, 1, 2, NONE, 1, IN_PP, LS_OP_RECEIVE, 3, 0},
    {"pp 3", 1, 3, 1, 0, 1, 2, NONE, 0, IN_PP, LS_OP_SEND, 3, 39168},
    {"pp 3", 1, 3, 1, 0, 1, 2, NONE, 1, IN_PP, LS_OP_SEND, 4, 4608},
    {"pp 3", 1, 3, 1, 0, 1, 2, NONE, 1, IN_PP, LS_OP_RECEIVE, 4, 0},
    {"pp 3", 1, 3, 1, 0, 1, 2, NONE, 2, IN_PP, LS_OP_SEND, 3, 39168},
    /* four stages on two ranks: three cuts, each both ways */
    {"pp 2 V 2", 1, 2, 1, 0, 2, 2, NONE, 0, IN_PP, LS_OP_SEND, 7, 43776},
    {"pp 2 V 2", 1, 2, 1, 0, 2, 2, NONE, 1, IN_PP, LS_OP_SEND, 7, 43776},
    /* all stages on one rank */
    {"pp 1 V 2", 1, 1, 1, 0, 2, 2, NONE, 0, IN_PP, LS_OP_SEND, 0, 0},
    /* the loss, from the last to all */
    {"pp 2", 1, 2, 1, 0, 1, 2, NONE, 0, IN_PP, LS_OP_BROADCAST, 1, 0},
    {"pp 2", 1, 2, 1, 0, 1, 2, NONE, 1, IN_PP, LS_OP_BROADCAST, 1, 4},
    /* Everything: rank 0 is tp 0, dp 0, stage 0, rank 7 is tp 1, dp 1, stage 1. A replica has 2
     * sequences, a micro-batch 1, a rank 3 tokens of it: 288 bytes; half of the embedding. */
    {"2 x 2 x 2 sp", 2, 2, 2, 1, 1, 2, NONE, 0, IN_PP, LS_OP_SEND, 3, 19008},
    {"2 x 2 x 2 sp", 2, 2, 2, 1, 1, 2, NONE, 7, IN_PP, LS_OP_SEND, 3, 19008},
    /* 4608 of the embedding, 168 of positions, 2214 of a layer; the loss is the last stage's */
    {"2 x 2 x 2 sp", 2, 2, 2, 1, 1, 2, NONE, 0, IN_DP, LS_OP_ALL_REDUCE, 2, 27968},
    {"2 x 2 x 2 sp", 2, 2, 2, 1, 1, 2, NONE, 7, IN_DP, LS_OP_ALL_REDUCE, 3, 27492},
    /* for each micro-batch 4 of a layer and 1 of its end, of 6 tokens: 576 bytes */
    {"2 x 2 x 2 sp", 2, 2, 2, 1, 1, 2, NONE, 0, IN_TP, LS_OP_REDUCE_SCATTER, 10, 5760},
    {"2 x 2 x 2 sp", 2, 2, 2, 1, 1, 2, NONE, 7, IN_TP, LS_OP_REDUCE_SCATTER, 10, 5760},
    /* 6 and the embedding's 1, or the head's 2, of 3 tokens: 288 bytes */
    {"2 x 2 x 2 sp", 2, 2, 2, 1, 1, 2, NONE, 0, IN_TP, LS_OP_ALL_GATHER, 14, 4032},
    {"2 x 2 x 2 sp", 2, 2, 2, 1, 1, 2, NONE, 7, IN_TP, LS_OP_ALL_GATHER, 16, 4608},
    {"2 x 2 x 2 sp", 2, 2, 2, 1, 1, 2, NONE, 7, IN_MODEL, LS_OP_ALL_REDUCE, 1, 2136},
};

/* Two steps send twice as much: nothing is sent for a step before or after. */
START_TEST(known_numbers)
{
    static const size_t lengths[GRID_STEPS] = {6, 6, 6};
    static const grid_targets targets[] = {TARGETS_UNEVEN, TARGETS_UNEVEN};
    ls_config config = tiny_base("gpt2");
    reference right[2];
    config.d_model = 24;
    config.heads = config.kv_heads = 12;
    config.d_ff = 36;
    config.vocab = 300;
    for (size_t s = 0; s < 2; s++)
        reference_begin(&right[s], &config, LS_ENGINE_PORTABLE, s + 1, 4, lengths, targets, 1);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const traffic *k = &known[i];
        grid_run run[2];
        for (uint64_t s = 0; s < 2; s++) {
            run[s] = (grid_run){.right = &right[s]};
            run[s].layout = ls_layout_serial();
            run[s].layout.dp = k->dp;
            run[s].layout.pp = k->pp;
            run[s].layout.tp = k->tp;
            run[s].layout.sp = k->sp;
            run[s].layout.virtual_stages = k->chunks;
            run[s].layout.micro_batches = k->micro_batches;
            run[s].layout.schedule = k->chunks > 1 ? LS_INTERLEAVED : LS_1F1B;
            run[s].layout.recompute = k->recompute;
            ck_grid(&run[s], k->what);
            ls_comm_count found = run[s].sent[k->rank][k->group][k->op];
            ck_assert_msg(found.calls == (s + 1) * k->calls && found.bytes == (s + 1) * k->bytes,
                          "%s, rank %d, %s, %d steps: %llu calls, %llu bytes; right are %llu, %llu",
                          k->what, k->rank, ls_operation_name(k->op), (int)s + 1,
                          (unsigned long long)found.calls, (unsigned long long)found.bytes,
                          (unsigned long long)((s + 1) * k->calls),
                          (unsigned long long)((s + 1) * k->bytes));
        }
    }
    for (size_t s = 0; s < 2; s++) reference_end(&right[s]);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("traffic", 60);
    tcase_add_test(tests, known_numbers);
    return run_tests();
}
