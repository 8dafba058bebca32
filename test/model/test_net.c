/* test_net.c - built-in networks, shapes, granules of channels, and what is refused. */
#include <math.h>

#include "model/config_compare.h"
#include "model/net_parts.h"
#include "run_tests.h"

static void assert_shape(const ls_net *net, const char *name, size_t channels, size_t height,
                         size_t width, size_t granules)
{
    ls_net_shapes shapes;
    ls_net_shapes_of(net, &shapes);
    for (size_t i = 0; i < net->count; i++) {
        const ls_net_shape *s = &shapes.layer[i];
        if (strcmp(net->layers[i].name, name) != 0) continue;
        ck_assert_msg(s->channels == channels && s->height == height && s->width == width,
                      "%s: %zu x %zu x %zu", name, s->channels, s->height, s->width);
        ck_assert_msg(s->axis.granules == granules, "%s: %zu granules", name, s->axis.granules);
        ck_assert_uint_eq(ls_axis_extent(s->axis), channels);
        return;
    }
    ck_abort_msg("no layer %s", name);
}

START_TEST(shapes_of_alexnet_nano)
{
    ls_config c = named("alexnet-nano");
    ASSERT_OK(ls_config_check(&c));
    ck_assert(c.kind == LS_MODEL_NET && c.net.count == 22 && c.net.classes == 10);
    assert_shape(&c.net, "conv1", 16, 32, 32, 4);
    assert_shape(&c.net, "norm1", 16, 32, 32, 4);
    assert_shape(&c.net, "pool1", 16, 15, 15, 4);
    assert_shape(&c.net, "conv2", 32, 15, 15, 4);
    assert_shape(&c.net, "pool2", 32, 7, 7, 4);
    assert_shape(&c.net, "conv3", 48, 7, 7, 4);
    assert_shape(&c.net, "conv4", 48, 7, 7, 4);
    assert_shape(&c.net, "conv5", 32, 7, 7, 4);
    assert_shape(&c.net, "pool5", 32, 3, 3, 4);
    assert_shape(&c.net, "dense6", 64, 1, 1, 4);
    assert_shape(&c.net, "dropout7", 64, 1, 1, 4);
    assert_shape(&c.net, "dense8", 10, 1, 1, 2); /* gcd(4, 10) */
    /* The two columns: conv2, conv4 and conv5 alone keep them apart. */
    for (size_t i = 0; i < c.net.count; i++) {
        const char *name = c.net.layers[i].name;
        const bool apart =
            strcmp(name, "conv2") == 0 || strcmp(name, "conv4") == 0 || strcmp(name, "conv5") == 0;
        if (c.net.layers[i].kind == LS_NET_CONV)
            ck_assert_uint_eq(c.net.layers[i].groups, apart ? 2 : 1);
    }
}
END_TEST

START_TEST(shapes_of_resnet_nano)
{
    ls_config c = named("resnet-nano");
    ASSERT_OK(ls_config_check(&c));
    ck_assert(c.kind == LS_MODEL_NET && c.net.count == 30 && c.net.classes == 16);
    assert_shape(&c.net, "stem.conv", 8, 32, 32, 4);
    assert_shape(&c.net, "block1.add", 8, 32, 32, 4);
    assert_shape(&c.net, "block2.conv1", 16, 16, 16, 4);
    assert_shape(&c.net, "block2.projection", 16, 16, 16, 4);
    assert_shape(&c.net, "block3.relu2", 32, 8, 8, 4);
    assert_shape(&c.net, "pool", 32, 1, 1, 4);
    assert_shape(&c.net, "dense", 16, 1, 1, 4);
}
END_TEST

/* ---- networks made here ---- */

static ls_net_layer *add(ls_net *net, ls_net_kind kind, const char *name)
{
    ls_net_layer *layer = &net->layers[net->count];
    *layer = (ls_net_layer){.kind = kind, .from = (int)net->count - 1};
    strcpy(layer->name, name);
    net->count++;
    return layer;
}

static ls_net_layer *windows(ls_net *net, ls_net_kind kind, const char *name, size_t channels,
                             size_t kernel_h, size_t kernel_w)
{
    ls_net_layer *l = add(net, kind, name);
    l->channels = channels;
    l->groups = 1;
    l->kernel_h = kernel_h;
    l->kernel_w = kernel_w;
    l->stride_h = l->stride_w = l->dilation_h = l->dilation_w = 1;
    return l;
}

static ls_config begin(size_t channels, size_t height, size_t width, size_t granules)
{
    ls_config c = {.name = "made", .kind = LS_MODEL_NET, .batch = 3};
    c.net = (ls_net){.channels = channels,
                     .height = height,
                     .width = width,
                     .classes = 5,
                     .row_granules = 3,
                     .column_granules = 5,
                     .channel_granules = granules};
    return c;
}

static void end(ls_config *c)
{
    add(&c->net, LS_NET_GLOBAL_POOL, "pool");
    add(&c->net, LS_NET_DENSE, "dense")->channels = 5;
    ASSERT_OK(ls_config_check(c));
}

/* One axis after the other, by hand: kernels of even size, padding on one side, strides and
 * dilation that differ between rows and columns. The dilated extent is (k - 1) d + 1, not k d: 8
 * rows, k 3, d 2 make 4 rows, not 3; 6 with padding 0 and 1, k 3, stride 2 make 3. */
START_TEST(windows_along_an_axis)
{
    ls_config c = begin(2, 8, 6, 4);
    ls_net_layer *l = windows(&c.net, LS_NET_CONV, "conv", 7, 3, 3);
    l->dilation_h = 2;
    l->stride_w = 2;
    l->pad_right = 1;
    end(&c);
    assert_shape(&c.net, "conv", 7, 4, 3, 1);

    c = begin(2, 5, 7, 4); /* as large as the image, padding and all */
    l = windows(&c.net, LS_NET_CONV, "conv", 3, 6, 4);
    l->pad_top = 1;
    l->dilation_w = 2;
    end(&c);
    assert_shape(&c.net, "conv", 3, 1, 1, 1);

    c = begin(2, 11, 4, 4);
    l = windows(&c.net, LS_NET_CONV, "conv", 6, 4, 2); /* (11 + 3 + 0 - 4) / 3 + 1 */
    l->stride_h = 3;
    l->pad_top = 3;
    l->pad_left = 1;
    l->pad_right = 2; /* 4 + 1 + 2 - 2 + 1 */
    l = windows(&c.net, LS_NET_AVG_POOL, "average", 0, 2, 3);
    l->pad_top = l->pad_bottom = 1; /* 4 + 2 - 2 + 1 */
    l->stride_w = 4;                /* (6 - 3) / 4 + 1 */
    end(&c);
    assert_shape(&c.net, "conv", 6, 4, 6, 2);
    assert_shape(&c.net, "average", 6, 5, 1, 2);
}
END_TEST

/* No granule lies in two groups, of whoever made or reads the channels; layers that keep channels
 * apart share the granules, on both sides of a sum too. */
START_TEST(granules_and_groups)
{
    ls_config c = begin(6, 9, 9, 4);
    windows(&c.net, LS_NET_CONV, "a", 12, 1, 1);
    add(&c.net, LS_NET_RELU, "b");
    windows(&c.net, LS_NET_CONV, "c", 12, 1, 1)->groups = 6; /* reads a: m = 6 */
    windows(&c.net, LS_NET_CONV, "d", 12, 1, 1)->from = 0;
    ls_net_layer *sum = add(&c.net, LS_NET_ADD, "e"); /* c + d share an axis */
    sum->from = 2;
    sum->beside = 3;
    windows(&c.net, LS_NET_CONV, "f", 20, 1, 1)->groups = 4; /* reads e: m = lcm(6, 4) = 12 */
    windows(&c.net, LS_NET_CONV, "g", 9, 1, 1);
    end(&c);
    /* 6 gcd(4 / gcd(4, 6), 12 / 6) */
    assert_shape(&c.net, "a", 12, 9, 9, 12);
    assert_shape(&c.net, "b", 12, 9, 9, 12);
    assert_shape(&c.net, "c", 12, 9, 9, 12);
    assert_shape(&c.net, "d", 12, 9, 9, 12);
    assert_shape(&c.net, "e", 12, 9, 9, 12);
    assert_shape(&c.net, "f", 20, 9, 9, 4); /* 4 gcd(4 / 4, 5) */
    assert_shape(&c.net, "g", 9, 9, 9, 1);
    assert_shape(&c.net, "pool", 9, 1, 1, 1);
    ls_net_shapes shapes;
    ls_net_shapes_of(&c.net, &shapes);
    ck_assert_uint_eq(shapes.image.axis.granules, 2); /* gcd(4, 6) */
    c.net.layers[0].groups = 3;                       /* 3 gcd(4, 2) */
    ls_net_shapes_of(&c.net, &shapes);
    ck_assert_uint_eq(shapes.image.axis.granules, 6);
}
END_TEST

/* ---- refusals ---- */

#define REFUSED(model, change, ...)                                                                \
    do {                                                                                           \
        ls_config c = named(model);                                                                \
        ls_net *n = &c.net;                                                                        \
        (void)n;                                                                                   \
        change;                                                                                    \
        ASSERT_SAYS(ls_config_check(&c), LS_ERR_INPUT, __VA_ARGS__);                               \
    } while (0)

START_TEST(sizes)
{
    REFUSED("alexnet-nano", n->channels = 0,
            "--model alexnet-nano: channels 0: ", "from 1 to 4096");
    REFUSED("alexnet-nano", n->height = 0, "height 0: ", "from 1 to 16384");
    REFUSED("alexnet-nano", n->width = (size_t)-1, "width 18446744073709551615: ");
    REFUSED("alexnet-nano", n->classes = 0, "classes 0: ");
    REFUSED("alexnet-nano", n->row_granules = 0, "row_granules 0: ", "from 1 to 1024");
    REFUSED("alexnet-nano", n->column_granules = 1025, "column_granules 1025: ");
    REFUSED("alexnet-nano", n->channel_granules = 0, "channel_granules 0: ");
    REFUSED("alexnet-nano", n->count = 0, "0 layers: ", "1 to 192");
    REFUSED("alexnet-nano", n->count = 193, "193 layers: ");
    REFUSED("alexnet-nano", n->layers[0].channels = 0, "layer conv1: channels 0: ", "from 1 to");
    REFUSED("alexnet-nano", n->layers[0].groups = 0, "layer conv1: groups 0: ");
    REFUSED("alexnet-nano", n->layers[0].kernel_w = 0, "layer conv1: kernel 0: ");
    REFUSED("alexnet-nano", n->layers[0].stride_h = 0, "layer conv1: stride 0: ");
    REFUSED("alexnet-nano", n->layers[0].dilation_w = 0, "layer conv1: dilation 0: ");
    REFUSED("alexnet-nano", n->layers[3].stride_w = 0, "layer pool1: stride 0: ");
    REFUSED("alexnet-nano", n->layers[0].pad_right = 4097,
            "layer conv1: padding 4097: ", "from 0 to 4096");
    REFUSED("alexnet-nano", n->layers[17].p = 1, "layer dropout6: p 1: ", "from 0 to below 1");
    REFUSED("alexnet-nano", n->layers[17].p = (double)NAN, "layer dropout6: p ", "nan");
    REFUSED("alexnet-nano", n->layers[2].span = 4, "layer norm1: span 4: ", "odd");
    REFUSED("alexnet-nano", n->layers[2].k = 0, "layer norm1: k 0: ", "above 0");
    REFUSED("alexnet-nano", n->layers[2].alpha = -1, "layer norm1: alpha -1: ");
    REFUSED("resnet-nano", n->layers[1].eps = 0, "layer stem.norm: eps 0: ", "above 0 and below 1");
    REFUSED("resnet-nano", n->layers[1].momentum = -0.1, "layer stem.norm: momentum -0.1: ");
    REFUSED("resnet-nano", n->layers[1].kind = LS_NET_KINDS,
            "layer stem.norm: kind 10: ", "0 to 9");
    REFUSED("resnet-nano", c.batch = 0, "--batch 0: ");
    REFUSED("resnet-nano", c.kind = (ls_model_kind)2, "kind is 2");
}
END_TEST

START_TEST(what_does_not_fit)
{
    REFUSED("alexnet-nano", n->layers[4].groups = 3, "layer conv2: groups 3: ", "16 channels read",
            "32 made", "use 1, 2, 4, 8 or 16");
    REFUSED("alexnet-nano", n->layers[8].channels = 45, "layer conv4: groups 2: ", "45 channels",
            "use 1 or 3");
    REFUSED("alexnet-nano", n->layers[0].kernel_h = 37,
            "layer conv1: kernel 37: ", "36 rows with its padding");
    REFUSED("alexnet-nano", n->layers[8].kernel_w = 10, "layer conv3: kernel 10: ", "9 columns");
    REFUSED("alexnet-nano", n->layers[0].dilation_h = 9,
            "layer conv1: kernel 5 with dilation 9: ", "covers 37 rows", "36");
    REFUSED("alexnet-nano", n->layers[3].dilation_h = 2, "layer pool1: dilation 2: ", "use 1");
    REFUSED("alexnet-nano", n->layers[3].pad_bottom = 3, "layer pool1: padding 3: ", "at most 2");
    REFUSED("alexnet-nano", n->height = n->width = 4, "layer pool2: kernel 3: ", "1 rows");
    REFUSED("alexnet-nano", n->classes = 11, "layer dense8: the last one makes 10 x 1 x 1",
            "11 x 1 x 1");
    REFUSED("alexnet-nano", n->count = 1, "layer conv1: the last one makes 16 x 32 x 32");
    REFUSED("alexnet-nano", n->layers[4].from = 2, "layer pool1: nobody reads it");
    REFUSED("alexnet-nano", n->layers[21].from = 19, "layer dropout7: nobody reads it");
    REFUSED("alexnet-nano", n->layers[4].from = 4, "layer conv2: from 4: ", "before");
    REFUSED("alexnet-nano", n->layers[4].from = 9, "layer conv2: from 9: ");
    REFUSED("alexnet-nano", n->layers[4].from = -2, "layer conv2: from -2: ", "-1 for the image");
    REFUSED("resnet-nano", n->layers[8].beside = 8, "layer block1.add: beside 8: ");
    REFUSED("resnet-nano", n->layers[17].beside = 9,
            "layer block2.add: adds 16 x 16 x 16 and "
            "8 x 32 x 32",
            "one shape");
    REFUSED("resnet-nano", n->layers[3].name[0] = '\0', "the name \"\" of layer 3");
    REFUSED("resnet-nano", strcpy(n->layers[3].name, "a\nb"), "\"a\\x0ab\" of layer 3", "letters");
    REFUSED("resnet-nano", memset(n->layers[3].name, 'x', LS_NET_NAME_BYTES), "of layer 3");
    REFUSED("resnet-nano", strcpy(n->layers[3].name, "image"), "\"image\" of layer 3");
    REFUSED("resnet-nano", strcpy(n->layers[3].name, "stem.relu"),
            "layers 2 and 3 are both called stem.relu");
}
END_TEST

/* Each size alone is allowed; their product is not, and nothing wraps around on the way. */
START_TEST(products)
{
    REFUSED("alexnet-nano", (n->layers[0].channels = 1 << 20, n->height = n->width = 1 << 14),
            "layer conv1: makes 1048576 x 16384 x 16384", "elements");
    REFUSED("alexnet-nano", (n->height = n->width = 1 << 14, n->layers[15].channels = 1 << 20),
            "layer dense6: ", "parameters");
    REFUSED("resnet-nano", (n->height = n->width = 1 << 14, c.batch = 1 << 20),
            "--batch 1048576: ", "elements of each image");
    ls_config c = begin(4096, 1 << 12, 1 << 12, 4);
    windows(&c.net, LS_NET_CONV, "a", (size_t)1 << 20, 1 << 12, 1 << 12);
    add(&c.net, LS_NET_DENSE, "dense")->channels = 5;
    ASSERT_SAYS(ls_config_check(&c), LS_ERR_INPUT, "layer a: ", "parameters");
}
END_TEST

/* What is of a transformer is no part of a network, and neither goes where the other is needed. */
START_TEST(kinds_apart)
{
    REFUSED("alexnet-nano", c.layers = 3, "--layers: a convolutional network has none");
    REFUSED("alexnet-nano", c.heads = 4, "--heads: ");
    REFUSED("alexnet-nano", c.dropout = 0.1, "--dropout: ");
    REFUSED("alexnet-nano", c.dropout = (double)NAN, "--dropout: ");
    REFUSED("alexnet-nano", c.tied = true, "--tied: ");
    REFUSED("alexnet-nano", c.norm_place = LS_NORM_POST, "--norm: ");
    ls_config net = named("resnet-nano"), transformer = named("bert-nano");
    ASSERT_OK(ls_config_require(&net, LS_MODEL_NET, "this"));
    ASSERT_OK(ls_config_require(&transformer, LS_MODEL_TRANSFORMER, "this"));
    ASSERT_SAYS(ls_config_require(&net, LS_MODEL_TRANSFORMER, "this"), LS_ERR_INPUT,
                "--model resnet-nano: is a convolutional network; this needs a transformer");
    ASSERT_SAYS(ls_config_require(&transformer, LS_MODEL_NET, "that"), LS_ERR_INPUT,
                "--model bert-nano: is a transformer; that needs a convolutional network");
}
END_TEST

/* The rows of the kinds agree with themselves: traits, fields and parameters. */
START_TEST(rows_of_kinds)
{
    const ls_net_kind kind = (ls_net_kind)_i;
    const ls_net_traits *traits = ls_net_traits_of(kind);
    const ls_net_kind_row *row = ls_net_kind_row_of(kind);
    const bool made = traits->channels == LS_NET_GROUP || traits->channels == LS_NET_ALL_CHANNELS;
    ck_assert(traits->inputs == 1 || traits->inputs == 2);
    if (traits->channels == LS_NET_ALL_CHANNELS) ck_assert(traits->pixels == LS_NET_ALL_PIXELS);
    const struct {
        ls_net_key key;
        bool has;
    } fields[] = {{LS_NET_KEY_KERNEL, traits->pixels == LS_NET_WINDOW},
                  {LS_NET_KEY_STRIDE, traits->pixels == LS_NET_WINDOW},
                  {LS_NET_KEY_DILATION, traits->pixels == LS_NET_WINDOW},
                  {LS_NET_KEY_PADDING, traits->pixels == LS_NET_WINDOW},
                  {LS_NET_KEY_GROUPS, traits->channels == LS_NET_GROUP},
                  {LS_NET_KEY_SPAN, traits->channels == LS_NET_NEIGHBOURS},
                  {LS_NET_KEY_CHANNELS, made}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        ck_assert_msg(ls_net_has(&ls_net_fields[fields[i].key], kind) == fields[i].has, "%s: %s",
                      ls_net_kind_name(kind), ls_net_fields[fields[i].key].key);
    int weights = 0, biases = 0;
    for (int i = 0; i < LS_NET_PARAMS; i++) {
        const ls_net_param_form form = row->params[i].form;
        weights += form == LS_NET_WEIGHT_ROWS || form == LS_NET_WEIGHT_COLUMNS;
        biases += form == LS_NET_BIAS;
        if (form != LS_NET_NO_PARAM) ck_assert_ptr_nonnull(row->params[i].name);
    }
    ck_assert_int_eq(weights, made);
    ck_assert_int_eq(biases, ls_net_has(&ls_net_fields[LS_NET_KEY_BIAS], kind));
    for (int other = 0; other < _i; other++)
        ck_assert_str_ne(ls_net_kind_name(kind), ls_net_kind_name((ls_net_kind)other));
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("net", 0);
    tcase_add_test(tcase, shapes_of_alexnet_nano);
    tcase_add_test(tcase, shapes_of_resnet_nano);
    tcase_add_test(tcase, windows_along_an_axis);
    tcase_add_test(tcase, granules_and_groups);
    tcase_add_test(tcase, sizes);
    tcase_add_test(tcase, what_does_not_fit);
    tcase_add_test(tcase, products);
    tcase_add_test(tcase, kinds_apart);
    tcase_add_loop_test(tcase, rows_of_kinds, 0, LS_NET_KINDS);
    return run_tests();
}
