/* communication_fixture.h - a layout's run with all that crossed ranks: the list of calls, the
 * ranks' files, and the tensors in them. */
#ifndef TEST_GOLDEN_COMMUNICATION_FIXTURE_H
#define TEST_GOLDEN_COMMUNICATION_FIXTURE_H

#include <jansson.h>
#include <math.h>

#include "golden/dump_fixture.h"
#include "golden/dump_parts.h"

struct scene {
    model model;
    grid_of grid;
    bool gathered_loss;
};

enum { RANKS = 16, NAME = LS_DUMP_COMM_NAME, PARTS = 256 };

/* One line of the list. */
typedef struct call {
    json_t *line;
    const char *call, *task, *group; /* group: NULL for messages */
    unsigned members;                /* of the group, a bit each */
    int size;
    size_t ordinal; /* among this rank's calls of groups that have this name and these members */
    int rank, peer, tag;
    json_int_t number, bytes;
} call;

typedef struct seen {
    ls_config config;
    ls_text text;
    ls_golden *golden;
    int ranks;
    ls_safetensors *files[RANKS];
    call *calls;
    size_t count;
    size_t of[RANKS + 1]; /* where each rank's begin */
} seen;

/* ---- the run ---- */

static inline bool same_group(const call *a, const call *b)
{
    return a->members == b->members && a->group && b->group && strcmp(a->group, b->group) == 0;
}

static inline void read_calls(seen *s)
{
    FILE *file = fopen(scratch_path("golden/collectives.jsonl"), "r");
    static char line[1 << 20];
    size_t room = 0;
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) {
        if (s->count == room) {
            room = room ? 2 * room : 1024;
            s->calls = realloc(s->calls, room * sizeof *s->calls);
        }
        call *c = &s->calls[s->count++];
        json_t *members = NULL;
        *c = (call){.peer = -1, .line = json_loads(line, 0, NULL)};
        ck_assert_msg(c->line &&
                          json_unpack(c->line, "{s:i, s:s, s:s, s:I, s:I, s?s, s?o, s?i, s?i}",
                                      "rank", &c->rank, "call", &c->call, "task", &c->task,
                                      "number", &c->number, "bytes", &c->bytes, "group", &c->group,
                                      "members", &members, "peer", &c->peer, "tag", &c->tag) == 0,
                      "%s", line);
        c->size = (int)json_array_size(members);
        for (int m = 0; m < c->size; m++)
            c->members |= 1U << json_integer_value(json_array_get(members, (size_t)m));
        for (size_t i = s->of[c->rank]; c->group && i + 1 < s->count; i++)
            if (same_group(c, &s->calls[i])) c->ordinal++;
        s->of[c->rank + 1] = s->count;
    }
    fclose(file);
}

/* The directory "golden" and its ranks' files. */
static inline void read_run(seen *s, int ranks)
{
    char path[64];
    s->golden = open_ok(scratch_path("golden"));
    s->ranks = ranks;
    ck_assert_int_le(s->ranks, RANKS);
    for (int r = 0; r < s->ranks; r++) {
        snprintf(path, sizeof path, "golden/ranks/rank-%03d.safetensors", r);
        ASSERT_OK(ls_safetensors_open(&s->files[r], scratch_path(path)));
    }
    read_calls(s);
}

static inline void begin(seen *s, const struct scene *scene)
{
    memset(s, 0, sizeof *s);
    s->config = model_config(scene->model);
    s->config.layers = scene->grid.chunks > 1 ? 4 : 2;
    s->text = fixture_text();
    ls_run run = fixture_run(&s->config, &s->text, 1);
    ls_dump_options options = dump_plainly();
    run.serial = false;
    run.batch = 7;
    run.layout = fixture_layout(&scene->grid);
    run.gathered_loss = scene->gathered_loss;
    options.per_rank = options.collectives = true;
    dump_ok(&run, scratch_path("golden"), &options);
    read_run(s, ls_layout_ranks(&run.layout));
}

static inline void end(seen *s)
{
    for (size_t i = 0; i < s->count; i++) json_decref(s->calls[i].line);
    for (int r = 0; r < s->ranks; r++) ls_safetensors_close(&s->files[r]);
    free(s->calls);
    ls_golden_close(&s->golden);
}

/* ---- tensors ---- */

/* A tensor of a rank's file. */
typedef struct block {
    const ls_tensor_info *info;
    char base[NAME]; /* without ".J.partial" */
    size_t lo[4];    /* where it begins in the whole */
    size_t node_lo, node_hi, leaves;
    size_t rows, columns; /* of granules in each image; 1 where leaves are no pixels */
} block;

static inline block block_of(const seen *s, int rank, const char *name, const char *ending)
{
    block b = {.info = ls_safetensors_find(s->files[rank], name), .rows = 1, .columns = 1};
    char key[NAME + 8];
    ck_assert_msg(b.info != NULL, "rank %d: %s is not in its file", rank, name);
    snprintf(b.base, sizeof b.base, "%s", name);
    char *dot = strrchr(b.base, '.');
    ck_assert_msg(dot && strcmp(dot + 1, ending) == 0, "%s: no %s", name, ending);
    *dot = '\0';
    dot = strrchr(b.base, '.');
    ck_assert_ptr_nonnull(dot);
    ck_assert_uint_eq(strspn(dot + 1, "0123456789"), strlen(dot + 1));
    *dot = '\0';
    snprintf(key, sizeof key, "cut:%s", name);
    const char *at = ls_safetensors_metadata(s->files[rank], key);
    for (int d = 0, used = 0; d < b.info->n_dims; d++, at += used) {
        size_t hi;
        ck_assert_msg(at && sscanf(at, "%zu:%zu%n", &b.lo[d], &hi, &used) == 2, "%s", key);
        ck_assert_uint_eq(hi - b.lo[d], b.info->dims[d]);
    }
    if (strcmp(ending, "partial") == 0) {
        snprintf(key, sizeof key, "node:%s", name);
        at = ls_safetensors_metadata(s->files[rank], key);
        const int n = at ? sscanf(at, "%zu %zu %zu %zu %zu", &b.node_lo, &b.node_hi, &b.leaves,
                                  &b.rows, &b.columns)
                         : 0;
        ck_assert_msg((n == 3 || n == 5) && b.leaves % (b.rows * b.columns) == 0, "%s", key);
    }
    return b;
}

/* Element i of a block, in another that holds it too (count of elements: it does not), or in a
 * whole tensor (`whole`: its dimensions). */
static inline size_t place_in(const block *of, size_t i, const block *in, const size_t *whole)
{
    size_t place = 0, step = 1;
    for (int d = of->info->n_dims; d-- > 0;) {
        const size_t extent = whole ? whole[d] : in->info->dims[d], lo = whole ? 0 : in->lo[d];
        const size_t at = of->lo[d] + i % of->info->dims[d];
        if (at < lo || at - lo >= extent) return SIZE_MAX;
        i /= of->info->dims[d];
        place += (at - lo) * step;
        step *= extent;
    }
    return place;
}

typedef union number {
    float f32;
    double f64;
    int64_t i64;
} number;

static inline number at(const ls_tensor_info *info, size_t i)
{
    const size_t bytes = ls_dtype_bytes(info->dtype);
    number x = {.i64 = 0};
    memcpy(&x, (const char *)info->data + i * bytes, bytes);
    return x;
}

static inline number add(ls_dtype dtype, number a, number b)
{
    switch (dtype) {
    case LS_F32:
        return (number){.f32 = a.f32 + b.f32};
    case LS_F64:
        return (number){.f64 = a.f64 + b.f64};
    default:
        ck_assert_int_eq(dtype, LS_I64);
        return (number){.i64 = a.i64 + b.i64};
    }
}

/* The parts of one sum, of all members. */
typedef struct parts {
    size_t count;
    block of[PARTS];
} parts;

/* A node of the tree over a sum's leaves (contract rules 6, 8): from leaf `first` on so many images
 * of rows x columns granules, or a rectangle of one. A leaf that is no pixels is such an image. */
typedef struct subtree {
    size_t first, images, rows, columns;
    bool columns_next; /* which axis is cut, if it has more than one granule */
} subtree;

static inline subtree whole_tree(const block *part)
{
    const size_t image = part->rows * part->columns;
    return (subtree){0, part->leaves / image, part->rows, part->columns, false};
}

static inline size_t leaves_of(const subtree *t)
{
    return t->images * t->rows * t->columns;
}

static inline size_t half(size_t n)
{
    size_t left = 1;
    if (n % 2 == 0) return n / 2;
    while (2 * left < n) left *= 2;
    return left;
}

static inline void cut_tree(const subtree *t, subtree *ret_left, subtree *ret_right)
{
    subtree left = *t, right = *t;
    if (t->images > 1) {
        left.images = half(t->images);
        right.images -= left.images;
    } else if (t->rows > 1 && (!t->columns_next || t->columns == 1)) {
        left.rows = half(t->rows);
        right.rows -= left.rows;
        left.columns_next = right.columns_next = true;
    } else {
        left.columns = half(t->columns);
        right.columns -= left.columns;
        left.columns_next = right.columns_next = false;
    }
    right.first += leaves_of(&left);
    *ret_left = left;
    *ret_right = right;
}

/* The node at element i of `like`, from the parts that are there. */
static inline number tree(const parts *p, subtree t, const block *like, size_t i)
{
    subtree left, right;
    for (size_t n = 0; n < p->count; n++) {
        const block *node = &p->of[n];
        if (node->node_lo != t.first || node->node_hi != t.first + leaves_of(&t)) continue;
        const size_t place = place_in(like, i, node, NULL);
        ck_assert_msg(place != SIZE_MAX, "%s: total outside of its part", like->base);
        return at(node->info, place);
    }
    if (leaves_of(&t) < 2) ck_abort_msg("%s: leaf %zu is not there", like->base, t.first);
    cut_tree(&t, &left, &right);
    return add(like->info->dtype, tree(p, left, like, i), tree(p, right, like, i));
}

static inline number largest(const parts *p, const block *like, size_t i)
{
    number most = {.f32 = -INFINITY};
    size_t covered = 0;
    for (size_t n = 0; n < p->count; n++) {
        const float x = at(p->of[n].info, place_in(like, i, &p->of[n], NULL)).f32;
        ck_assert_uint_eq(p->of[n].node_lo, covered); /* members in order */
        covered = p->of[n].node_hi;
        if (x > most.f32) most.f32 = x;
    }
    ck_assert_uint_eq(covered, p->of[0].leaves);
    return most;
}

/* ---- calls ---- */

static inline json_t *names(const call *c, const char *key)
{
    return json_object_get(c->line, key);
}

/* The same call at another member of the group: the one of the same number among those that have
 * its members, whoever these groups were made for. */
static inline const call *at_member(const seen *s, const call *c, int rank)
{
    for (size_t i = s->of[rank]; i < s->of[rank + 1]; i++) {
        const call *other = &s->calls[i];
        if (!same_group(c, other) || other->ordinal != c->ordinal) continue;
        ck_assert_str_eq(other->call, c->call);
        ck_assert_int_eq((int)other->number, (int)c->number);
        return other;
    }
    ck_abort_msg("%s number %d of group %s: rank %d has none", c->call, (int)c->number, c->group,
                 rank);
    return NULL;
}

static inline int member(const call *c, int i)
{
    return (int)json_integer_value(json_array_get(names(c, "members"), (size_t)i));
}

/* All that members handed into this call under the name. */
static inline void collect(const seen *s, const call *c, const char *base, const char *ending,
                           parts *p)
{
    p->count = 0;
    for (int m = 0; m < c->size; m++) {
        const int rank = member(c, m);
        const json_t *list = names(at_member(s, c, rank), "in");
        for (size_t i = 0; i < json_array_size(list); i++) {
            const block b = block_of(s, rank, json_string_value(json_array_get(list, i)), ending);
            if (strcmp(b.base, base) != 0) continue;
            ck_assert_uint_lt(p->count, PARTS);
            p->of[p->count++] = b;
        }
    }
}

/* ---- what must hold of a call ---- */

static inline bool is_reducing(const call *c)
{
    return strncmp(c->call, "all_reduce", 10) == 0 || strncmp(c->call, "reduce_scatter", 14) == 0;
}

/* Returns how many elements were compared. */
static inline size_t expect_sums(const seen *s, const call *c)
{
    size_t compared = 0;
    const json_t *out = names(c, "out");
    static parts p;
    for (size_t o = 0; o < json_array_size(out); o++) {
        const block total =
            block_of(s, c->rank, json_string_value(json_array_get(out, o)), "total");
        const size_t bytes = ls_dtype_bytes(total.info->dtype);
        const bool is_largest = strstr(total.base, "largest_logit") != NULL;
        collect(s, c, total.base, "partial", &p);
        ck_assert_msg(p.count > 0, "%s: nothing goes in", total.base);
        for (size_t i = 0; i < total.info->elements; i++, compared++) {
            const number sum =
                is_largest ? largest(&p, &total, i) : tree(&p, whole_tree(&p.of[0]), &total, i);
            const number got = at(total.info, i);
            if (memcmp(&sum, &got, bytes) != 0)
                ck_abort_msg("rank %d, %s: element %zu is %a, its parts make %a", c->rank,
                             total.base, i, (double)got.f32, (double)sum.f32);
        }
    }
    return compared;
}

/* What is received was sent. */
static inline void expect_sent(const seen *s, const call *c)
{
    for (size_t i = s->of[c->peer]; i < s->of[c->peer + 1]; i++) {
        const call *from = &s->calls[i];
        if (from->peer != c->rank || from->number != c->number ||
            strcmp(from->call, "send_begin") != 0)
            continue;
        const block got =
            block_of(s, c->rank, json_string_value(json_array_get(names(c, "out"), 0)), "received");
        const block sent =
            block_of(s, c->peer, json_string_value(json_array_get(names(from, "in"), 0)), "sent");
        ck_assert_str_eq(got.base, sent.base);
        ck_assert_uint_eq(got.info->elements, sent.info->elements);
        ck_assert_mem_eq(got.lo, sent.lo, sizeof got.lo);
        ck_assert_mem_eq(got.info->data, sent.info->data,
                         got.info->elements * ls_dtype_bytes(got.info->dtype));
        return;
    }
    ck_abort_msg("rank %d receives from %d what it does not send", c->rank, c->peer);
}

#endif
