/* 16_two_columns.c - AlexNet's two columns: a network cut by channels in which most layers need no
 * message.
 *
 * Source: Krizhevsky, Sutskever, Hinton, ImageNet classification with deep convolutional neural
 * networks (NIPS 2012), section 3.2 and figure 2. The network was too large for one GPU, so each of
 * two got half of the channels of every layer; and so that they need not talk much, the network was
 * made of two columns: a convolution in two groups reads the channels of its own column only.
 *
 *     conv2 conv4 conv5     two groups: no message, forward or backward
 *     conv3, dense layers   one group: forward the columns gather all channels. Backward dx of a
 *                           channel has terms from both: a sum over granules of the channels made,
 *                           of which a column has a node; a reduce-scatter adds the two nodes
 *     response norm         a channel reads two to either side: a halo, but of channels; forward of
 *                           x, backward of dy and of the denominators
 *     ReLU, pool, dropout   a channel by itself (and its part of the dropout mask)
 *     the last layer        ten classes: both gather, and make all of it
 *
 * Weights lie where their channels are made, so each column has half of them, and their gradients
 * are finished there. The columns, made of kernels and messages below, are compared with the
 * library's serial model on the same description, bit for bit: loss and every gradient. */
#include <lockstep/parts.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_B = 8, MAX_L = 32, COLUMNS = 2 };
static ls_config config;
static const ls_net *const net = &config.net;
static ls_net_shapes shapes;
static ls_param_table *table;
static ls_batch batch;
static float batch_images[MAX_B * 3 * 32 * 32];
static int32_t labels[MAX_B];
static ls_store *serial_store;
static size_t B = 4;
static int engine = LS_ENGINE_PORTABLE;

/* A layer as a column has it: its channels of what is made, of what is read, and those it reads. */
static struct layer {
    const ls_net_layer *is;
    const ls_net_shape *in, *out;
    bool joins, last; /* reads all channels of both columns; makes all on both */
    ls_image_box own[COLUMNS], has[COLUMNS], read[COLUMNS];
    ls_transfer *moves; /* from what the columns have to what they read */
    size_t n_moves;
    ls_image_layout y, dx, x; /* of own, has, read */
    ls_conv2d conv;
    ls_response_norm norm;
    ls_axis in_axis, out_axis; /* dense: granules of channels, those read with all pixels */
} layers[MAX_L];

static ls_image_box run_of(const ls_net_shape *shape, size_t first, size_t count)
{
    return (ls_image_box){{0, B}, {first, count}, {0, 0, shape->height, shape->width}};
}

static ls_channels channels_of(ls_image_box box)
{
    return (ls_channels){box.channels.first, box.channels.count};
}

static ls_status describe(struct layer *l, size_t i)
{
    ls_status status = LS_OK;
    const ls_net_layer *is = l->is = &net->layers[i];
    const ls_net_shape *in = l->in = ls_net_shape_at(&shapes, is->from);
    const ls_net_shape *out = l->out = &shapes.layer[i];
    const size_t pixels = in->height * in->width, half = in->channels / 2;
    l->norm = (ls_response_norm){in->channels, is->span ? is->span : 1, is->alpha, is->beta, is->k};
    l->last = i + 1 == net->count;
    l->joins =
        is->from >= 0 && (is->kind == LS_NET_CONV ? is->groups == 1 : is->kind == LS_NET_DENSE);
    for (size_t m = 0; m < COLUMNS; m++) {
        l->own[m] = l->last ? run_of(out, 0, out->channels)
                            : run_of(out, m * out->channels / 2, out->channels / 2);
        l->has[m] = run_of(in, m * half, half);
        const ls_channels near = ls_response_norm_reads(&l->norm, channels_of(l->has[m]));
        l->read[m] = l->joins || is->from < 0 ? run_of(in, 0, in->channels)
                                              : run_of(in, near.first, near.count);
    }
    if (is->from >= 0) LS_TRY(ls_transfers_create(&l->moves, &l->n_moves, l->has, l->read, 2));
    const size_t made = l->own[0].channels.count, read = l->read[0].channels.count;
    l->y = (ls_image_layout){l->own[0].area, made * out->height * out->width};
    l->x = (ls_image_layout){l->read[0].area, read * pixels};
    l->dx = (ls_image_layout){l->has[0].area, half * pixels};
    l->in_axis = ls_axis_of(in->axis.granules, in->axis.granule * pixels);
    l->out_axis = ls_axis_of(made / out->axis.granule, out->axis.granule);
    const ls_window window = {in->height,   in->width,      is->kernel_h,   is->kernel_w,
                              is->stride_h, is->stride_w,   is->dilation_h, is->dilation_w,
                              is->pad_top,  is->pad_bottom, is->pad_left,   is->pad_right};
    const ls_pixel_grid grid = {net->row_granules, net->column_granules};
    l->conv =
        (ls_conv2d){window, 1, read, made, read / in->axis.granule, l->out_axis.granules, grid};
exit:
    return status;
}

typedef struct column {
    ls_group *group;
    size_t me;
    ls_store *store;
    ls_arena *arena;
    float *x[MAX_L], *y[MAX_L], *d[MAX_L]; /* as read; made; denominators of response norms */
    int32_t *place[MAX_L];                 /* where a pooling found its maximum             */
    ls_slot *w[MAX_L], *b[MAX_L];          /* its weights and their gradients               */
} column;

static ls_status numbers(ls_arena *arena, size_t n, float **ret_numbers)
{
    return ls_arena_alloc(arena, n, sizeof **ret_numbers, (void *)ret_numbers);
}

/* What the columns leave for the main thread, which reads it after the join. */
static struct slot {
    float loss;
    size_t bytes[2][MAX_L]; /* handed out, forward and backward */
    size_t weight_bytes, compared, different, normed, alone;
} slots[COLUMNS];

/* From what both columns have to what this one reads. */
static ls_status fetch(column *c, const struct layer *l, const float *from, float **ret_to)
{
    ls_status status = LS_OK;
    ls_exchange *exchange = NULL;
    LS_TRY(numbers(c->arena, B * l->x.stride, ret_to));
    LS_TRY(ls_image_boxes_begin(c->group, 1, l->moves, l->n_moves, &l->has[c->me], from,
                                &l->read[c->me], *ret_to, LS_F32, &exchange));
    LS_TRY(ls_exchange_end(&exchange));
exit:
    ls_exchange_cancel(&exchange);
    return status;
}

/* part: dx of all channels from the own granules of channels made, a node of the tree over all of
 * them. The two nodes are added, and each column gets its channels of the sum. */
static ls_status sum_columns(column *c, const struct layer *l, float *part, float *dx)
{
    const size_t granules = l->out->axis.granules, n = l->x.stride;
    const size_t bounds[] = {0, granules / 2, granules}, starts[] = {0, n / 2, n};
    const ls_forest forest = {granules, bounds};
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1: terms that are kept */
    if (c->me == 1) memset(part, 0, n * sizeof *part);
#endif
    return ls_reduce_scatter_columns_forest(c->group, dx, part, B, starts, LS_F32, &forest);
}

/* y, or dx and the gradients. What these sum over, images and pixels, is all here: one tree over
 * the granules, that of db on a stack of partial sums. */
static ls_status convolve(column *c, size_t i, const float *dy, float *to)
{
    ls_status status = LS_OK;
    const struct layer *l = &layers[i];
    const ls_pixel_tree tree = {B, net->row_granules, net->column_granules};
    const ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
    const ls_node root = {0, numbered.leaves};
    const size_t depth = ls_conv2d_depth(&l->conv), n = l->conv.out_channels;
    const float *w = c->w[i]->value;
    ls_conv2d_piece *pieces;
    float *scratch, *top;
    LS_TRY(numbers(c->arena, ls_conv2d_scratch(&l->conv, B), &scratch));
    if (dy == NULL) {
        status = ls_conv2d_forward((ls_engine)engine, &l->conv, B, to, l->y, l->y.held, c->x[i],
                                   l->x, w, depth, c->b[i]->value, scratch);
        goto exit;
    }
    LS_TRY(ls_conv2d_backward((ls_engine)engine, &l->conv, B, to, l->x, l->x.held, dy, l->y, w,
                              depth, scratch));
    LS_TRY(ls_arena_alloc(c->arena, root.hi, sizeof *pieces, (void *)&pieces));
    LS_TRY(numbers(c->arena, n * (1 + ls_binary_tree_stack(&numbered, root)), &top));
    for (size_t k = 0; k < root.hi; k++) {
        ls_pixel_area at = ls_pixel_area_of(&tree, (ls_node){k, k + 1});
        pieces[k].image = at.first;
        pieces[k].outputs = ls_rectangle_of_granules(at.granules, tree.rows, tree.columns,
                                                     l->out->height, l->out->width);
        pieces[k].closes = ls_binary_tree_merges_after(&numbered, root, k);
        ls_pixel_sum(top += n, dy + at.first * l->y.stride, l->y, pieces[k].outputs, n);
        for (size_t j = pieces[k].closes; j > 0; j--, top -= n) ls_add(top - n, top - n, top, n);
    }
    memcpy(c->b[i]->grad[0], top, n * sizeof *top);
    LS_TRY(numbers(c->arena, ls_conv2d_node_scratch(&l->conv, pieces, root.hi), &scratch));
    LS_TRY(ls_conv2d_weight_node((ls_engine)engine, &l->conv, c->w[i]->grad[0], depth, pieces,
                                 root.hi, dy, l->y, c->x[i], l->x, scratch));
exit:
    return status;
}

static ls_status dense(column *c, size_t i, const float *dy, float *to)
{
    ls_status status = LS_OK;
    const struct layer *l = &layers[i];
    const ls_trans no = LS_NO_TRANS, t = LS_TRANS;
    const ls_axis images = ls_axis_of(B, 1), in = l->in_axis, out = l->out_axis;
    const float *w = c->w[i]->value, *x = c->x[i];
    const size_t n_in = l->x.stride, n = l->y.stride;
    if (dy == NULL) {
        LS_TRY(ls_gemm((ls_engine)engine, no, no, images, out, in, x, n_in, w, n, to, n, false));
        ls_add_bias(to, c->b[i]->value, B, n, n);
    } else {
        LS_TRY(ls_gemm((ls_engine)engine, t, no, in, out, images, x, n_in, dy, n, c->w[i]->grad[0],
                       n, false));
        ls_tree_sum_rows(c->b[i]->grad[0], dy, images, n, n);
        LS_TRY(ls_gemm((ls_engine)engine, no, t, images, in, out, dy, n, w, n, to, n_in, false));
    }
exit:
    return status;
}

/* Elements are kept or not by their numbers in the whole layer. */
static void drop(const column *c, size_t i, float *y, const float *x)
{
    const ls_stream stream = {batch.seed, LS_RANDOM_DROPOUT_NET, (uint32_t)i, batch.step};
    const size_t n = layers[i].y.stride, all = ls_net_shape_elements(layers[i].out);
    for (size_t b = 0; b < B; b++)
        ls_dropout(y + b * n, x + b * n, n, layers[i].is->p, stream, b * all + c->me * n);
}

static ls_status normalise(column *c, size_t i, const float *dy, float *to)
{
    ls_status status = LS_OK;
    const struct layer *l = &layers[i];
    const ls_channels own = channels_of(l->own[c->me]), read = channels_of(l->read[c->me]);
    const size_t pixels = ls_rectangle_count(l->y.held), n = B * l->y.stride;
    ls_response_norm half = l->norm;
    float *near_dy, *near_d, *alone;
    if (dy == NULL) {
        LS_TRY(numbers(c->arena, n, &c->d[i]));
        LS_TRY(numbers(c->arena, n, &alone)); /* mistake: as if the column were all there is */
        const ls_channels all = {0, half.channels = own.count};
        ls_response_norm_forward(&half, B, pixels, alone, c->d[i], all, c->y[l->is->from], all);
        ls_response_norm_forward(&l->norm, B, pixels, to, c->d[i], own, c->x[i], read);
        slots[c->me].normed += n;
        slots[c->me].alone += ls_block_differ(LS_F32, alone, to, (ls_block){n, 0, 1, 0, n});
    } else {
        LS_TRY(fetch(c, l, dy, &near_dy)); /* x is there since the forward pass */
        LS_TRY(fetch(c, l, c->d[i], &near_d));
        ls_response_norm_backward(&l->norm, B, pixels, to, own, near_dy, c->x[i], near_d, read);
    }
exit:
    return status;
}

/* Layer i forward, when dy is NULL; else backward: *ret_dx, of the own channels of what it read. */
static ls_status run_layer(column *c, size_t i, const float *dy, float **ret_dx)
{
    ls_status status = LS_OK;
    const struct layer *l = &layers[i];
    const ls_net_kind kind = l->is->kind;
    const size_t n = B * l->y.stride, own = l->own[c->me].channels.count;
    float *to, *dx;
    if (dy == NULL) {
        c->x[i] = batch_images;
        if (l->is->from >= 0) LS_TRY(fetch(c, l, c->y[l->is->from], &c->x[i]));
        LS_TRY(numbers(c->arena, n, &c->y[i]));
        LS_TRY(ls_arena_alloc(c->arena, n, sizeof(int32_t), (void *)&c->place[i]));
        to = c->y[i];
    } else {
        LS_TRY(numbers(c->arena, B * l->dx.stride, &dx));
        LS_TRY(numbers(c->arena, B * l->x.stride, &to)); /* of all channels that are read */
        if (!l->joins && l->is->from >= 0) to = dx;
        *ret_dx = dx;
    }
    if (kind == LS_NET_CONV) LS_TRY(convolve(c, i, dy, to));
    if (kind == LS_NET_DENSE) LS_TRY(dense(c, i, dy, to));
    if (kind == LS_NET_RESPONSE_NORM) LS_TRY(normalise(c, i, dy, to));
    if (kind == LS_NET_DROPOUT) drop(c, i, to, dy ? dy : c->x[i]);
    if (kind == LS_NET_RELU && !dy) ls_relu_forward(to, c->x[i], n);
    if (kind == LS_NET_RELU && dy) ls_relu_backward(to, dy, c->y[i], n);
    if (kind == LS_NET_MAX_POOL && !dy)
        ls_max_pool_forward(&l->conv.window, B, own, to, c->place[i], l->y, l->y.held, c->x[i],
                            l->x);
    if (kind == LS_NET_MAX_POOL && dy)
        ls_max_pool_backward(&l->conv.window, B, own, to, l->dx, l->dx.held, dy, c->place[i], l->y);
    if (dy && l->joins && !l->last) LS_TRY(sum_columns(c, l, to, dx));
    if (dy && l->last) /* all of it was made here, so no term is missing */
        ls_image_box_take(LS_F32, dx, &l->has[c->me], to, &l->read[c->me]);
exit:
    return status;
}

/* Softmax cross-entropy on all logits, alike on both columns. */
static ls_status loss_of(column *c, const float *logits, float *ret_loss, float **ret_dlogits)
{
    ls_status status = LS_OK;
    const size_t n = net->classes;
    const ls_vocab_shard all = {ls_axis_whole(n), 0, n};
    float most[MAX_B], sums[MAX_B], label[MAX_B], losses[MAX_B];
    LS_TRY(numbers(c->arena, B * n, ret_dlogits));
    ls_cross_entropy_max(most, logits, B, n, all);
    ls_cross_entropy_sums(sums, NULL, label, logits, most, batch.labels, B, n, all);
    ls_cross_entropy_loss(losses, most, sums, NULL, label, batch.labels, B, n, 0);
    *ret_loss = ls_tree_sum(losses, B, 1) / (float)B;
    ls_cross_entropy_backward(*ret_dlogits, logits, most, sums, batch.labels, B, n, all, 0,
                              1 / (float)B);
exit:
    return status;
}

static size_t handed_out(const ls_rank *rank)
{
    return (size_t)(ls_rank_count(rank, LS_OP_SEND).bytes +
                    ls_rank_count(rank, LS_OP_REDUCE_SCATTER).bytes);
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    column c = {.group = ls_rank_world_group(rank), .me = (size_t)ls_rank_index(rank)};
    struct slot *slot = &slots[c.me];
    ls_memory *memory = ls_rank_memory(rank);
    ls_holding holdings[4 * MAX_L];
    float *dy, *right;
    LS_TRY(ls_arena_create(&c.arena, memory, LS_MEM_ACTIVATIONS));
    ls_holdings_of(table, argument, (int)c.me, holdings);
    LS_TRY(ls_store_create(&c.store, table, holdings, memory));
    ls_store_init(c.store, batch.seed); /* slices of the serial weights */
    for (size_t i = 0; i < net->count; i++) {
        const bool conv = net->layers[i].kind == LS_NET_CONV;
        c.w[i] = ls_store_slot(c.store, conv ? LS_CONV_WEIGHT : LS_DENSE_WEIGHT, i);
        c.b[i] = ls_store_slot(c.store, conv ? LS_CONV_BIAS : LS_DENSE_BIAS, i);
    }

    for (size_t i = 0, before = 0; i < net->count; i++, before = handed_out(rank)) {
        LS_TRY(run_layer(&c, i, NULL, NULL));
        slot->bytes[0][i] = handed_out(rank) - before;
    }
    LS_TRY(loss_of(&c, c.y[net->count - 1], &slot->loss, &dy));
    for (size_t i = net->count, before = handed_out(rank); i-- > 0; before = handed_out(rank)) {
        LS_TRY(run_layer(&c, i, dy, &dy));
        slot->bytes[1][i] = handed_out(rank) - before;
    }
    slot->weight_bytes = ls_memory_bytes(memory, LS_MEM_PARAMETERS);
    for (size_t i = 0; i < table->count; i++) {
        const ls_slot *own = &c.store->slots[i];
        const size_t n = own->rows * own->cols;
        LS_TRY(numbers(c.arena, n, &right));
        ls_param_shard_in(&table->params[i], own->shard, sizeof *right, right,
                          serial_store->slots[i].grad[0]);
        slot->different += ls_block_differ(LS_F32, own->grad[0], right, (ls_block){n, 0, 1, 0, n});
        slot->compared += n;
    }
exit:
    ls_store_destroy(&c.store);
    ls_arena_destroy(&c.arena);
    return status;
}

static bool equal = true; /* every bit and every count is as it must be */

static void show_layers(void)
{
    enum { NONE, HALO, ALL };
    static const char *const passes[] = {"|         |", "|<-  2  ->|", "|<= all =>|"};
    static const char *const returns[] = {"|         |", "|<- 2+2 ->|", "|>= sum =<|"};
    size_t weight_bytes = 0, more = 0, all[2] = {0};
    printf("\nlayer     a column makes  weights    forward  sent bytes    backward  sent bytes\n");
    for (size_t i = 0; i < net->count; i++) {
        const struct layer *l = &layers[i];
        const int talk = l->joins ? ALL : l->is->kind == LS_NET_RESPONSE_NORM ? HALO : NONE;
        const size_t channels[] = {0, l->is->span / 2, l->in->channels / 2};
        const size_t a_channel = 4 * B * l->in->height * l->in->width;
        const size_t bytes[] = {channels[talk] * a_channel,
                                l->last ? 0 : 2 * channels[talk] * a_channel};
        size_t weights = 0;
        for (size_t k = 0; k < table->count; k++)
            if (table->params[k].layer == i)
                weights += ls_param_elements(&table->params[k]) / (l->last ? 1 : 2);
        for (int m = 0; m < 2 * COLUMNS; m++) equal &= slots[m / 2].bytes[m % 2][i] == bytes[m % 2];
        printf("%-8s  %3zu x %2zu x %-2zu  %8zu   %s %10zu   %s %10zu\n", l->is->name,
               l->own[0].channels.count, l->out->height, l->out->width, weights, passes[talk],
               bytes[0], returns[l->last ? NONE : talk], bytes[1]);
        if (l->is->groups > 1) more += a_channel * l->in->channels / 2;
        weight_bytes += 4 * weights, all[0] += bytes[0], all[1] += bytes[1];
    }
    const size_t serial_bytes = 4 * ls_param_table_elements(table);
    printf("together                   %8zu %24zu %24zu\n", weight_bytes / 4, all[0], all[1]);
    printf("with one group conv2, conv4, conv5 would add %zu forward, %zu backward\n", more,
           2 * more);
    printf("bytes of weights: a column %zu, the serial model %zu: %.1f%%\n", slots[0].weight_bytes,
           serial_bytes, 100.0 * (double)weight_bytes / (double)serial_bytes);
    for (int m = 0; m < COLUMNS; m++) equal &= slots[m].weight_bytes == weight_bytes;
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"portable", "openblas", NULL};
    ls_status status = LS_OK;
    ls_serial *serial = NULL;
    ls_layout layout = ls_layout_serial();
    uint64_t seed = 1;
    bool help = false;
    float loss;
    ls_option options[] = {
        ls_option_size("batch", &B, 1, MAX_B, "B", "images"),
        ls_option_choice("gemm", &engine, engines, "who computes the products"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 16: AlexNet's two columns: a network cut by channels\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    if (!ls_engine_available((ls_engine)engine))
        LS_FAIL(LS_ERR_INPUT, "--gemm openblas: this build has no OpenBLAS; use portable");
    LS_TRY(ls_config_named("alexnet-nano", &config));
    layout.channels = COLUMNS;
    ls_net_shapes_of(net, &shapes);
    LS_TRY(ls_param_table_create(&table, &config));
    for (size_t i = 0; i < net->count; i++) LS_TRY(describe(&layers[i], i));
    const size_t pixels = ls_net_shape_elements(&shapes.image);
    const ls_stream stream = {seed, LS_RANDOM_TEST, 0, 0};
    for (size_t i = 0; i < B * pixels; i++) batch_images[i] = (float)ls_random_normal(stream, i);
    for (size_t b = 0; b < B; b++) labels[b] = (int32_t)(b * 7 % net->classes);
    batch = (ls_batch){.B = B, .pixels = pixels, .images = batch_images, .labels = labels};
    batch.seed = seed, batch.step = 1, batch.training = true;

    LS_TRY(ls_store_create(&serial_store, table, NULL, NULL));
    ls_store_init(serial_store, seed);
    LS_TRY(ls_serial_create(&serial, serial_store, (ls_engine)engine, NULL));
    LS_TRY(ls_serial_forward(serial, &batch, &loss));
    LS_TRY(ls_serial_backward(serial));
    LS_TRY(ls_world_run(COLUMNS, NULL, one_rank, &layout));

    printf("%s, %zu layers, %zu weights; %zu images; two columns; float\n", config.name, net->count,
           ls_param_table_elements(table), B);
    show_layers();
    for (int m = 0; m < COLUMNS; m++) {
        printf("column %d: loss %.7f, serial %.7f; %zu of %zu numbers of gradients differ\n", m,
               (double)slots[m].loss, (double)loss, slots[m].different, slots[m].compared);
        equal &= slots[m].different == 0 && memcmp(&slots[m].loss, &loss, sizeof loss) == 0;
    }
    printf("WRONG ON PURPOSE, norms that end where a column ends: %zu of %zu numbers of y differ\n",
           slots[0].alone + slots[1].alone, slots[0].normed + slots[1].normed);
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    for (size_t i = 0; i < net->count; i++) free(layers[i].moves);
    ls_serial_destroy(&serial);
    ls_store_destroy(&serial_store);
    ls_param_table_destroy(&table);
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "16_two_columns: %s\n", ls_error_text());
    return ls_exit_code(status);
}
