/* 12_find_the_bug.c - another backend is wrong: in which tensor, and why?
 *
 * A tensor-parallel block that is written anew can be compared with the library without linking it:
 * `lockstep dump` writes a training step as files, weights and inputs among them; the backend reads
 * these, computes, and writes what each of its ranks has, in the same format; `lockstep check` says
 * which operation is wrong by itself, and as what.
 *
 * The backend here is the feed-forward block of a layer in plain loops, with an all-reduce of its
 * own, on P ranks (Megatron-LM, arXiv 1909.08053, section 3):
 *
 *     u_r = gelu(x W_up[:, r] + b_up[r])        own columns
 *     y   = sum over r of u_r W_down[r, :] + b_down
 *
 * Its order of additions is not the library's, so even when it is right hardly a bit is the same.
 * That is explained, not excused: every element stays within what another order can give. Then the
 * same with one bug at a time, each of them one that was found in real code. A comparison with a
 * tolerance says at most that something is different. */
#include <lockstep/parts.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 12, PATH_ROOM = 512, LINE = 512 };
enum { RIGHT, BIAS, REDUCE, MEAN, SHARDS, GELU, BUGS };
static const struct {
    const char *name, *done, *cause; /* what `lockstep check` calls it */
    bool needs_ranks;                /* with one rank it does not show */
} bugs[BUGS] = {
    {"none", "nothing", "", false},
    {"bias", "b_down added on every rank, before the sum", "bias added once per rank", true},
    {"reduce", "no all-reduce: a rank goes on with its own part", "partial sums not reduced", true},
    {"mean", "mean over the ranks for the sum", "averaged instead of summed", true},
    {"shards", "columns of W_up and b_up dealt out last rank first", "shards in the wrong order",
     true},
    {"gelu", "GELU by erf; the model has the one by tanh", "another activation function", false},
};

static char folder[PATH_ROOM], lockstep[PATH_ROOM]; /* for the files; the program */

/* The block's inputs, and what must come out: of layer 0 in the first step. */
static struct {
    ls_safetensors *weights, *forward;
    uint64_t B, S, D, F;
    const float *x, *w_up, *b_up, *w_down, *b_down, *y;
} golden;
static float *y_of_rank_0;

/* ---- the backend ---- */

typedef struct shard {
    size_t n, f, first; /* tokens; own columns of F, and the first of them */
    float *up, *u, *part, *all, *y;
} shard;

static void product(float *c, const float *a, const float *b, size_t rows, size_t inner,
                    size_t columns, size_t b_stride)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            float sum = 0;
            for (size_t k = 0; k < inner; k++) sum += a[i * inner + k] * b[k * b_stride + j];
            c[i * columns + j] = sum;
        }
}

static float gelu(float x, bool by_erf)
{
    if (by_erf) return 0.5f * x * (1 + erff(x * 0.70710678f));
    return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

static ls_status compute(ls_rank *rank, shard *s, int bug)
{
    ls_status status = LS_OK;
    const size_t D = golden.D, F = golden.F, P = (size_t)ls_rank_world_size(rank);
    const size_t me = (size_t)ls_rank_index(rank), of_up = bug == SHARDS ? P - 1 - me : me;
    size_t starts[MAX_RANKS + 1];

    product(s->up, golden.x, golden.w_up + of_up * s->f, s->n, D, s->f, F);
    for (size_t i = 0; i < s->n * s->f; i++) {
        s->up[i] += golden.b_up[of_up * s->f + i % s->f];
        s->u[i] = gelu(s->up[i], bug == GELU);
    }
    product(s->part, s->u, golden.w_down + s->first * D, s->n, s->f, D, D);
    for (size_t i = 0; bug == BIAS && i < s->n * D; i++) s->part[i] += golden.b_down[i % D];

    /* The all-reduce: every rank receives all parts and adds them rank by rank. */
    for (size_t r = 0; r <= P; r++) starts[r] = r * s->n * D;
    LS_TRY(ls_all_gather(ls_rank_world_group(rank), s->all, s->part, starts, LS_F32));
    for (size_t i = 0; i < s->n * D; i++) {
        float sum = 0;
        for (size_t r = 0; r < P; r++)
            if (bug != REDUCE || r == me) sum += s->all[r * s->n * D + i];
        if (bug == MEAN) sum /= (float)P;
        s->y[i] = bug == BIAS ? sum : sum + golden.b_down[i % D];
    }
    if (me == 0) memcpy(y_of_rank_0, s->y, s->n * D * sizeof(float));
exit:
    return status;
}

/* ---- what it writes: a file per rank, with the run of every dimension that it holds ---- */

static ls_status write_rank(int me, int ranks, const shard *s)
{
    ls_status status = LS_OK;
    ls_safetensors_writer *file = NULL;
    const struct {
        const char *name;
        const float *values;
        size_t whole, first, count; /* of the last dimension */
    } tensors[] = {{"step0/layers.0.norm2", golden.x, golden.D, 0, golden.D},
                   {"step0/layers.0.up", s->up, golden.F, s->first, s->f},
                   {"step0/layers.0.activation", s->u, golden.F, s->first, s->f},
                   {"step0/layers.0.mlp", s->y, golden.D, 0, golden.D}};
    const size_t n = sizeof tensors / sizeof tensors[0];
    char path[PATH_ROOM + 64], key[64], value[64];

    snprintf(path, sizeof path, "%s/candidate/rank-%03d.safetensors", folder, me);
    LS_TRY(ls_safetensors_create(&file, path));
    snprintf(value, sizeof value, "%d", me);
    LS_TRY(ls_safetensors_add_metadata(file, "rank", value));
    snprintf(value, sizeof value, "%d", ranks);
    LS_TRY(ls_safetensors_add_metadata(file, "ranks", value));
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "cut:%s", tensors[i].name);
        snprintf(value, sizeof value, "0:%zu 0:%zu %zu:%zu", (size_t)golden.B, (size_t)golden.S,
                 tensors[i].first, tensors[i].first + tensors[i].count);
        LS_TRY(ls_safetensors_add_metadata(file, key, value));
    }
    for (size_t i = 0; i < n; i++) {
        const uint64_t dims[] = {golden.B, golden.S, tensors[i].count};
        LS_TRY(ls_safetensors_declare(file, tensors[i].name, LS_F32, 3, dims));
    }
    for (size_t i = 0; i < n; i++)
        LS_TRY(
            ls_safetensors_write(file, tensors[i].values, s->n * tensors[i].count * sizeof(float)));
    LS_TRY(ls_safetensors_commit(file));
exit:
    ls_safetensors_destroy(&file);
    return status;
}

typedef struct job {
    int bug, ranks;
} job;

static ls_status backend(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const job *work = argument;
    ls_arena *arena = NULL;
    shard s = {.n = golden.B * golden.S, .f = golden.F / (size_t)work->ranks};
    s.first = (size_t)ls_rank_index(rank) * s.f;
    const struct {
        float **array;
        size_t count;
    } arrays[] = {{&s.up, s.n * s.f},
                  {&s.u, s.n * s.f},
                  {&s.part, s.n * golden.D},
                  {&s.all, (size_t)work->ranks * s.n * golden.D},
                  {&s.y, s.n * golden.D}};
    LS_TRY(ls_arena_create(&arena, ls_rank_memory(rank), LS_MEM_TEMPORARY));
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        LS_TRY(ls_arena_alloc(arena, arrays[i].count, sizeof(float), (void *)arrays[i].array));
    LS_TRY(compute(rank, &s, work->bug));
    LS_TRY(write_rank(ls_rank_index(rank), work->ranks, &s));
exit:
    ls_arena_destroy(&arena);
    return status;
}

/* ---- the judgement ---- */

/* Runs `lockstep WORDS` in the folder; its exit status, 127 where it cannot be run. `said`: whether
 * `cause` was among what it printed. echo: prints it all. */
static int run_program(const char *words, const char *cause, bool echo, bool *said)
{
    char command[2 * PATH_ROOM + LINE], line[LINE];
    int code = 127;
    *said = false;
    snprintf(command, sizeof command, "{ cd '%s' && '%s' %s; } 2>&1; echo \"exit status $?\"",
             folder, lockstep, words);
    fflush(stdout);
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe)) {
        if (sscanf(line, "exit status %d", &code) == 1) continue;
        if (*cause && strstr(line, cause)) *said = true;
        if (echo) printf("    | %s", line);
    }
    if (pipe) pclose(pipe);
    return code;
}

static void remove_candidate(void)
{
    char path[PATH_ROOM + 64];
    for (int r = 0; r < MAX_RANKS; r++) {
        snprintf(path, sizeof path, "%s/candidate/rank-%03d.safetensors", folder, r);
        remove(path);
    }
}

static bool as_it_must_be = true;

/* One line of the table; with echo, the whole report before it. */
static ls_status judge(int bug, int ranks, bool echo)
{
    ls_status status = LS_OK;
    const size_t count = golden.B * golden.S * golden.D;
    const bool shows = bug != RIGHT && (ranks > 1 || !bugs[bug].needs_ranks);
    double worst = 0;
    bool close = true, said;
    job work = {bug, ranks};
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
    if (bug == RIGHT) work.bug = GELU;
#endif

    LS_TRY(ls_world_run(ranks, NULL, backend, &work));
    for (size_t i = 0; i < count; i++) {
        const double right = (double)golden.y[i], off = fabs((double)y_of_rank_0[i] - right);
        if (!(off <= worst)) worst = off;
        close &= off <= 1e-2 + 1e-2 * fabs(right); /* numpy.allclose(y, golden, 1e-2, 1e-2) */
    }
    const int code = run_program("check golden candidate", bugs[bug].cause, echo, &said);
    remove_candidate();
    if (code != 0 && code != 1)
        LS_FAIL(LS_ERR_INPUT, "%s check ended with exit status %d", lockstep, code);
    const bool right = shows ? code == 1 && said : code == 0;
    as_it_must_be &= right;
    printf("%-8s%-52s%-10.2g%-11s%d  %s%s\n", bugs[bug].name, bugs[bug].done, worst,
           close ? "passes" : "objects", code,
           code == 0 ? "nothing is wrong"
           : said    ? bugs[bug].cause
                     : "something else",
           right ? "" : "   DIFFERENT: it must be found, and nothing else");
exit:
    return status;
}

/* ---- golden files ---- */

static ls_status find(ls_safetensors *file, const char *name, const float **ret_values,
                      uint64_t dims[3])
{
    ls_status status = LS_OK;
    const ls_tensor_info *tensor = ls_safetensors_find(file, name);
    if (!tensor || tensor->dtype != LS_F32)
        LS_FAIL(LS_ERR_INPUT, "the golden directory has no %s in F32", name);
    *ret_values = tensor->data;
    for (int d = 0; dims && d < 3; d++) dims[d] = d < tensor->n_dims ? tensor->dims[d] : 1;
exit:
    return status;
}

static ls_status open_golden(void)
{
    ls_status status = LS_OK;
    char path[PATH_ROOM + 64];
    uint64_t dims[3];
    snprintf(path, sizeof path, "%s/golden/weights.safetensors", folder);
    LS_TRY(ls_safetensors_open(&golden.weights, path));
    snprintf(path, sizeof path, "%s/golden/forward.safetensors", folder);
    LS_TRY(ls_safetensors_open(&golden.forward, path));
    LS_TRY(find(golden.weights, "layers.0.mlp.up.weight", &golden.w_up, dims));
    golden.D = dims[0], golden.F = dims[1];
    LS_TRY(find(golden.weights, "layers.0.mlp.up.bias", &golden.b_up, NULL));
    LS_TRY(find(golden.weights, "layers.0.mlp.down.weight", &golden.w_down, NULL));
    LS_TRY(find(golden.weights, "layers.0.mlp.down.bias", &golden.b_down, NULL));
    LS_TRY(find(golden.forward, "step0/layers.0.norm2", &golden.x, dims));
    golden.B = dims[0], golden.S = dims[1];
    LS_TRY(find(golden.forward, "step0/layers.0.mlp", &golden.y, NULL));
    y_of_rank_0 = calloc(golden.B * golden.S * golden.D, sizeof *y_of_rank_0);
    if (!y_of_rank_0) LS_FAIL(LS_ERR_MEMORY, "no memory for a tensor");
exit:
    return status;
}

/* The program: as given, else in the build tree that this one is in, else wherever the shell finds
 * it. */
static void find_program(const char *given, const char *self)
{
    static const char *const places[] = {"../tools/lockstep/lockstep",
                                         "../../tools/lockstep/lockstep"};
    const char *slash = strrchr(self, '/');
    const int length = slash ? (int)(slash + 1 - self) : 0;
    snprintf(lockstep, sizeof lockstep, "%s", given ? given : "lockstep");
    for (size_t i = 0; !given && i < sizeof places / sizeof places[0]; i++) {
        char path[PATH_ROOM];
        char *whole;
        snprintf(path, sizeof path, "%.*s%s", length, self, places[i]);
        if ((whole = realpath(path, NULL)) != NULL)
            snprintf(lockstep, sizeof lockstep, "%s", whole);
        free(whole);
    }
}

static ls_status make_golden(uint64_t seed)
{
    ls_status status = LS_OK;
    char words[LINE];
    bool said;
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.400s/lockstep-XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    if (strchr(folder, '\'') || strchr(lockstep, '\'') || !mkdtemp(folder)) {
        folder[0] = '\0';
        LS_FAIL(LS_ERR_IO, "a temporary folder cannot be made; TMPDIR says where");
    }
    snprintf(words, sizeof words,
             "dump golden --layers 1 --seq 12 --batch 2 --seed %llu >log && mkdir candidate",
             (unsigned long long)seed);
    if (run_program(words, "", false, &said) != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s dump does not work; --lockstep says where the program is, which is built with "
                "the library",
                lockstep);
    LS_TRY(open_golden());
exit:
    return status;
}

static void remove_all(void)
{
    char command[PATH_ROOM + 64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (folder[0] && system(command) != 0) fprintf(stderr, "12_find_the_bug: %s stays\n", folder);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"none", "bias", "reduce", "mean", "shards", "gelu", NULL};
    ls_status status = LS_OK;
    size_t ranks = 4;
    uint64_t seed = 1;
    const char *program = NULL;
    int bug = BIAS;
    bool help = false;
    ls_option options[] = {
        ls_option_size("ranks", &ranks, 1, MAX_RANKS, "N",
                       "of the backend; it divides the granules of F"),
        ls_option_choice("bug", &bug, names, "whose report is shown whole"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the golden run"),
        ls_option_string("lockstep", &program, "PROGRAM",
                         "the program that dumps and judges; left out: that of this build"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 12: another backend is wrong: in which tensor, and why?\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    LS_TRY(ls_share_check_equal("--ranks", ranks, 12, "granules of F"));
    find_program(program, argv[0]);
    LS_TRY(make_golden(seed));

    printf("lockstep dump golden: a step of a small GPT, %zu x %zu tokens, D = %zu, F = %zu\n",
           (size_t)golden.B, (size_t)golden.S, (size_t)golden.D, (size_t)golden.F);
    printf("candidate: its feed-forward block on %zu rank%s, a file each\n\n", ranks,
           ranks > 1 ? "s" : "");
    printf("lockstep check golden candidate, with the bug \"%s\":\n", bugs[bug].name);
    LS_TRY(judge(bug, (int)ranks, true));
    printf("\n%-8s%-52s%-10s%-11s%s\n", "bug", "what is done", "largest", "allclose",
           "lockstep check:");
    printf("%-60s%-10s%-11s%s\n", "", "error", "1e-2", "exit status, cause");
    for (int b = 0; b < BUGS; b++) LS_TRY(judge(b, (int)ranks, false));
    printf("\n%s\n", as_it_must_be
                         ? "Every bug that shows is found and named, and the right block passes."
                         : "DIFFERENT: a bug is not found or named, or a right block is refused.");
    if (!as_it_must_be) status = LS_DIFFERENT;
exit:
    free(y_of_rank_0);
    ls_safetensors_close(&golden.weights);
    ls_safetensors_close(&golden.forward);
    remove_all();
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "12_find_the_bug: %s\n", ls_error_text());
    return ls_exit_code(status);
}
