/* Attention that sees another set of keys, scores with another scale or a bias, keys of another
 * sequence, a softmax's gradient without a term: each from plain loops, named with the set or the
 * number, in binary32 and in bf16. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

/* How query i of sequence b attends. */
typedef struct how {
    double scale;
    size_t window, chunk; /* 0: none */
    size_t blind;         /* token 7 sees that many keys fewer, from the front */
    bool alibi;
    bool keys, values; /* sequences 1 and 3 have each other's */
    bool no_mean;      /* backward: dS = P dP */
} how;

static bool sees(const scene *s, const how *a, size_t b, size_t i, size_t j)
{
    if (s->config.causal && j > i) return false;
    if (s->batch.lengths && j >= (size_t)s->lengths[b]) return false;
    if (a->window && (i >= j ? i - j : j - i) >= a->window) return false;
    if (a->chunk && i / a->chunk != j / a->chunk) return false;
    return !(i == 7 && j < a->blind);
}

static size_t other(size_t b)
{
    return b == 1 ? 3 : b == 3 ? 1 : b;
}

/* P [B, H, S, S], o and dq [B, S, D]; P is not kept from dropout, o is with the golden mask. */
static void attend(const scene *s, const how *a, double *P, double *o, double *dq)
{
    const double *q = value(s, "layers.1.query"), *k = value(s, "layers.1.key");
    const double *v = value(s, "layers.1.value"), *d_o = value(s, "d.layers.1.heads");
    const size_t kv = s->config.kv_heads, Dkv = kv * DH;
    const ls_stream stream = {99, LS_RANDOM_DROPOUT_ATTENTION, 1, 5};
    for (size_t e = 0; e < B * H * S; e++) {
        const size_t b = e / (H * S), h = e / S % H, i = e % S, g = h / (H / kv);
        const double *K = k + (a->keys ? other(b) : b) * S * Dkv + g * DH;
        const double *W = v + (a->values ? other(b) : b) * S * Dkv + g * DH;
        const size_t at = (b * S + i) * D + h * DH;
        double *row = P + e * S, sum = 0, dP[S] = {0}, along = 0;
        for (size_t j = 0; j < S; j++) {
            double score = 0;
            if (!sees(s, a, b, i, j)) continue;
            for (size_t c = 0; c < DH; c++) score += q[at + c] * K[j * Dkv + c];
            score *= a->scale;
            if (a->alibi) score -= pow(2, -8.0 * (double)(h + 1) / H) * ((double)i - (double)j);
            row[j] = exp(score);
            sum += row[j];
        }
        for (size_t j = 0; j < S; j++) {
            if (row[j] == 0) continue;
            row[j] /= sum;
            const double mask = ls_random_keep(stream, e * S + j, 0.1) ? 1 / 0.9 : 0;
            for (size_t c = 0; c < DH; c++) {
                o[at + c] += row[j] * mask * W[j * Dkv + c];
                dP[j] += mask * d_o[at + c] * W[j * Dkv + c];
            }
            along += row[j] * dP[j];
        }
        for (size_t j = 0; j < S; j++)
            for (size_t c = 0; c < DH; c++)
                dq[at + c] +=
                    row[j] * (dP[j] - (a->no_mean ? 0 : along)) * a->scale * K[j * Dkv + c];
    }
}

static const struct {
    kind kind;
    how how;
    ls_cause cause;
    const char *text;
    bool P, o, dq; /* which tensors it is in */
    bool coarse;   /* and is seen in bf16 */
} rows[] = {
    {GPT2,
     {.scale = .5, .window = 5},
     LS_CAUSE_ATTENTION_SET,
     "window of 5",
     true,
     true,
     true,
     true},
    {LLAMA,
     {.scale = .5, .window = 8},
     LS_CAUSE_ATTENTION_SET,
     "window of 8",
     true,
     true,
     true,
     true},
    {BERT,
     {.scale = .5, .window = 4},
     LS_CAUSE_ATTENTION_SET,
     "window of 4",
     true,
     true,
     true,
     true},
    {LLAMA,
     {.scale = .5, .chunk = 4},
     LS_CAUSE_ATTENTION_SET,
     "block of 4 tokens",
     true,
     true,
     true,
     false},
    {BERT,
     {.scale = .5, .chunk = 6},
     LS_CAUSE_ATTENTION_SET,
     "block of 6 tokens",
     true,
     true,
     true,
     true},
    {GPT2,
     {.scale = .5, .blind = 2},
     LS_CAUSE_ATTENTION_SET,
     "6 of 72 queries see other keys: token 7 of sequence 0 those from 2 to before 8, not from 0",
     true,
     false,
     false,
     true},
    {GPT2, {.scale = .45}, LS_CAUSE_SCORE_SCALE, "scaled by 0.45,", true, true, true, false},
    {LLAMA, {.scale = .4}, LS_CAUSE_SCORE_SCALE, "0.8 times", true, true, true, false},
    {BERT, {.scale = .55}, LS_CAUSE_SCORE_SCALE, "1.1 times", true, true, true, false},
    {GPT2, {.scale = 1}, LS_CAUSE_SCORE_SCALE, "no scale at all", true, true, true, false},
    {LLAMA, {.scale = .5, .alibi = true}, LS_CAUSE_POSITION_BIAS, "ALiBi", true, true, true, false},
    {GPT2,
     {.scale = .5, .keys = true},
     LS_CAUSE_OTHER_SEQUENCE,
     "sequences 1 and 3 have each other's keys",
     true,
     true,
     true,
     false},
    {LLAMA,
     {.scale = .5, .values = true},
     LS_CAUSE_OTHER_SEQUENCE,
     "sequences 1 and 3 have each other's values",
     false,
     true,
     true,
     true},
    {GPT2,
     {.scale = .5, .no_mean = true},
     LS_CAUSE_LOST_TERM,
     "P dP, without",
     false,
     false,
     true,
     true},
};

/* In bf16 a mistake may be too small to be seen, or hidden among others that fit: then it has no
 * name, but never another one. A fitted number has fewer digits. */
static void expect_coarse(scene *s, const char *tensor, const double *values, bool named,
                          ls_cause cause, const char *text)
{
    s->format = LS_BF16;
    const ls_suspicion found = suspicion_of(s, tensor, values, NULL, NULL, true);
    s->format = LS_F32;
    if (!named && found.cause == LS_CAUSE_NONE) return;
    expect_found(s, tensor, found, cause, strstr(text, "0.") ? NULL : text);
    const char *times = strstr(found.evidence, "right ones") ? strstr(found.evidence, ": ") : NULL;
    if (times && strstr(text, "times"))
        ck_assert_msg(fabs(strtod(times + 2, NULL) - strtod(text, NULL)) < 0.03, "%s",
                      found.evidence);
}

static void judge_row(scene *s, const char *tensor, double *values, bool wrong, bool coarse,
                      ls_cause cause, const char *text)
{
    if (wrong) {
        expect_coarse(s, tensor, values, coarse, cause, text);
        expect_cause(s, tensor, values, cause, text);
    } else {
        free(values);
    }
}

START_TEST(attention)
{
    scene s;
    scene_begin(&s, rows[_i].kind);
    double *P = zeros(B * H * S * S), *o = zeros(B * S * D), *dq = zeros(B * S * D);
    attend(&s, &rows[_i].how, P, o, dq);
    const bool coarse = rows[_i].coarse;
    judge_row(&s, "layers.1.probabilities", P, rows[_i].P, coarse, rows[_i].cause, rows[_i].text);
    judge_row(&s, "layers.1.heads", o, rows[_i].o, false, rows[_i].cause, rows[_i].text);
    judge_row(&s, "d.layers.1.query", dq, rows[_i].dq, false, rows[_i].cause, rows[_i].text);
    scene_end(&s);
}
END_TEST

/* The loops themselves are right. */
START_TEST(right)
{
    scene s;
    const how as_it_is = {.scale = .5};
    scene_begin(&s, (kind)_i);
    double *P = zeros(B * H * S * S), *o = zeros(B * S * D), *dq = zeros(B * S * D);
    attend(&s, &as_it_is, P, o, dq);
    const char *const names[] = {"layers.1.probabilities", "layers.1.heads", "d.layers.1.query"};
    const double *const made[] = {P, o, dq};
    for (int i = 0; i < 3; i++)
        expect_found(&s, names[i], suspicion_of(&s, names[i], made[i], NULL, NULL, true),
                     LS_CAUSE_NONE, NULL);
    free(P), free(o), free(dq);
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_attention", 120);
    tcase_add_loop_test(tests, right, 0, 3);
    tcase_add_loop_test(tests, attention, 0, (int)(sizeof rows / sizeof *rows));
    return run_tests();
}
