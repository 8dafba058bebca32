/* test_net_json.c - a network from a JSON text and back. */
#include "model/config_compare.h"
#include "run_tests.h"

static void assert_same_net(const ls_net *a, const ls_net *b)
{
    ck_assert(a->channels == b->channels && a->height == b->height && a->width == b->width);
    ck_assert(a->classes == b->classes && a->row_granules == b->row_granules);
    ck_assert(a->column_granules == b->column_granules);
    ck_assert(a->channel_granules == b->channel_granules && a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        const ls_net_layer *x = &a->layers[i], *y = &b->layers[i];
        ck_assert_str_eq(x->name, y->name);
        ck_assert_msg(x->kind == y->kind && x->from == y->from && x->beside == y->beside &&
                          x->channels == y->channels && x->groups == y->groups &&
                          x->kernel_h == y->kernel_h && x->kernel_w == y->kernel_w &&
                          x->stride_h == y->stride_h && x->stride_w == y->stride_w &&
                          x->dilation_h == y->dilation_h && x->dilation_w == y->dilation_w &&
                          x->pad_top == y->pad_top && x->pad_bottom == y->pad_bottom &&
                          x->pad_left == y->pad_left && x->pad_right == y->pad_right &&
                          x->span == y->span && x->bias == y->bias && x->count_pad == y->count_pad,
                      "layer %s", x->name);
        ck_assert_double_eq(x->eps, y->eps);
        ck_assert_double_eq(x->momentum, y->momentum);
        ck_assert_double_eq(x->alpha, y->alpha);
        ck_assert_double_eq(x->beta, y->beta);
        ck_assert_double_eq(x->k, y->k);
        ck_assert_double_eq(x->p, y->p);
    }
}

/* Nothing in it is as it would be if nothing were said. */
static const char unusual[] =
    "{\"name\": \"unusual\", \"batch\": 5, \"label_smoothing\": 0.1, \"network\": {\"channels\": 6,"
    "\"height\": 19, \"width\": 23, \"classes\": 7, \"row_granules\": 3, \"column_granules\": 5,"
    "\"channel_granules\": 6, \"layers\": ["
    "{\"kind\": \"conv\", \"name\": \"a\", \"channels\": 8, \"groups\": 2, \"kernel\": [2, 3],"
    " \"stride\": [2, 1], \"dilation\": [1, 2], \"padding\": [0, 1, 2, 3], \"bias\": false},"
    "{\"kind\": \"conv\", \"name\": \"b\", \"from\": \"image\", \"channels\": 8, \"kernel\": [3, "
    "2],"
    " \"stride\": [2, 1], \"padding\": [2, 0, 1, 1]},"
    "{\"kind\": \"batch_norm\", \"name\": \"c\", \"eps\": 0.001, \"momentum\": 0.25},"
    "{\"kind\": \"add\", \"name\": \"d\", \"from\": \"c\", \"beside\": \"a\"},"
    "{\"kind\": \"response_norm\", \"span\": 3, \"alpha\": 0.5, \"beta\": 0.25, \"k\": 1},"
    "{\"kind\": \"avg_pool\", \"kernel\": 3, \"stride\": 2, \"padding\": 1, \"count_padding\": "
    "false},"
    "{\"kind\": \"max_pool\", \"kernel\": [2, 1]},"
    "{\"kind\": \"dropout\", \"p\": 0.125},"
    "{\"kind\": \"relu\"}, {\"kind\": \"global_pool\"},"
    "{\"kind\": \"dense\", \"channels\": 7, \"bias\": false}]}}";

START_TEST(reads_every_field)
{
    ls_config c;
    memset(&c, 0x55, sizeof c);
    ASSERT_OK(ls_config_from_json("u", unusual, &c));
    ck_assert_str_eq(c.name, "unusual");
    ck_assert(c.kind == LS_MODEL_NET && c.batch == 5 && c.layers == 0 && c.heads == 0);
    ck_assert_double_eq(c.label_smoothing, 0.1);
    const ls_net *n = &c.net;
    ck_assert(n->channels == 6 && n->height == 19 && n->width == 23 && n->classes == 7);
    ck_assert(n->row_granules == 3 && n->column_granules == 5 && n->channel_granules == 6);
    ck_assert_uint_eq(n->count, 11);
    const ls_net_layer *a = &n->layers[0];
    ck_assert(a->kind == LS_NET_CONV && a->from == LS_NET_IMAGE && a->channels == 8);
    ck_assert(a->groups == 2 && a->kernel_h == 2 && a->kernel_w == 3 && !a->bias);
    ck_assert(a->stride_h == 2 && a->stride_w == 1 && a->dilation_h == 1 && a->dilation_w == 2);
    ck_assert(a->pad_top == 0 && a->pad_bottom == 1 && a->pad_left == 2 && a->pad_right == 3);
    const ls_net_layer *b = &n->layers[1];
    ck_assert(b->from == LS_NET_IMAGE && b->groups == 1 && b->bias && b->dilation_w == 1);
    ck_assert(n->layers[2].from == 1 && n->layers[3].from == 2 && n->layers[3].beside == 0);
    ck_assert_double_eq(n->layers[2].eps, 0.001);
    ck_assert_double_eq(n->layers[2].momentum, 0.25);
    ck_assert_str_eq(n->layers[4].name, "response_norm4");
    ck_assert(n->layers[4].from == 3 && n->layers[4].span == 3);
    ck_assert(n->layers[5].pad_right == 1 && !n->layers[5].count_pad);
    ck_assert(n->layers[6].kernel_h == 2 && n->layers[6].kernel_w == 1);
    ck_assert(n->layers[6].stride_h == 1 && n->layers[6].pad_top == 0);
    ck_assert_double_eq(n->layers[7].p, 0.125);
    ck_assert(n->layers[10].kind == LS_NET_DENSE && !n->layers[10].bias);
}
END_TEST

START_TEST(round_trip)
{
    ls_config models[3] = {named("alexnet-nano"), named("resnet-nano")};
    ASSERT_OK(ls_config_from_json("u", unusual, &models[2]));
    for (int i = 0; i < 3; i++) {
        char *text = NULL, *again = NULL;
        ls_config read;
        memset(&read, 0x55, sizeof read);
        ASSERT_OK(ls_config_to_json(&models[i], &text));
        ASSERT_OK(ls_config_from_json("m", text, &read));
        assert_same(&read, &models[i]);
        ck_assert(read.kind == LS_MODEL_NET);
        assert_same_net(&read.net, &models[i].net);
        ASSERT_OK(ls_config_to_json(&read, &again));
        ck_assert_str_eq(text, again);
        free(text);
        free(again);
    }
}
END_TEST

/* A base gives what is not said; its layers go as a whole or stay. */
START_TEST(from_a_base)
{
    ls_config c, base = named("alexnet-nano");
    ASSERT_OK(ls_config_from_json(
        "b", "{\"base\": \"alexnet-nano\", \"batch\": 3, \"network\": {\"row_granules\": 2}}", &c));
    ck_assert(c.batch == 3 && c.net.row_granules == 2);
    ck_assert_str_eq(c.name, "custom");
    c.net.row_granules = 8;
    assert_same_net(&c.net, &base.net);
    ASSERT_OK(ls_config_from_json("b", "{\"base\": \"resnet-nano\"}", &c));
    base = named("resnet-nano");
    assert_same_net(&c.net, &base.net);
    ASSERT_OK(ls_config_from_json("b",
                                  "{\"network\": {\"channels\": 1, \"height\": 2, \"width\": 3, "
                                  "\"classes\": 4, \"layers\": [{\"kind\": \"dense\", "
                                  "\"channels\": 4}]}}",
                                  &c));
    ck_assert(c.batch == 8 && c.net.row_granules == 8 && c.net.column_granules == 8);
    ck_assert(c.net.channel_granules == 4 && c.net.count == 1 && c.net.layers[0].bias);
    ck_assert_str_eq(c.net.layers[0].name, "dense0");
}
END_TEST

typedef struct refusal {
    const char *json;
    const char *words[4];
} refusal;

#define NET(rest)                                                                                  \
    "{\"network\": {\"channels\": 3, \"height\": 8, \"width\": 8, \"classes\": 2, " rest "}}"
#define LAYERS(list) NET("\"layers\": [" list "]")

static const refusal refusals[] = {
    {"{\"network\": 3}", {"network 3: must be an object"}},
    {"{\"network\": {\"layer\": 3}}", {"network: unknown key \"layer\"", "\"layers\"?"}},
    {"{\"network\": {\"zzzzzzzzzzz\": 3}}", {"unknown key \"zzzzzzzzzzz\"", "row_granules"}},
    {"{\"network\": {\"height\": -1}}", {"network: height -1: ", "from 1 to 16384"}},
    {"{\"network\": {\"height\": 1.5}}", {"network: height 1.5: "}},
    {"{\"network\": {\"height\": \"x\"}}", {"height \"x\": "}},
    {"{\"network\": {}}", {"network: channels 0: "}},
    {"{\"base\": \"gpt2-nano\", \"network\": {}}", {"base \"gpt2-nano\": is a transformer"}},
    {"{\"layers\": 3, \"network\": {}}", {"layers: a convolutional network has none"}},
    {"{\"base\": \"resnet-nano\", \"heads\": 0}", {"heads: a convolutional network has none"}},
    {NET("\"layers\": {}"), {"layers {}: must be a list of 1 to 192"}},
    {NET("\"layers\": []"), {"layers []: "}},
    {LAYERS("7"), {"layer 0 is 7: must be an object"}},
    {LAYERS("{}"), {"the kind of layer 0 is not given", "conv, max_pool", "dense or add"}},
    {LAYERS("{\"kind\": \"cnov\"}"), {"kind of layer 0 is \"cnov\""}},
    {LAYERS("{\"kind\": \"dense\", \"name\": 7}"), {"name of layer 0 is 7"}},
    {LAYERS("{\"kind\": \"dense\", \"name\": \"0123456789012345678901234567890123456789\"}"),
     {"name of layer 0", "1 to 31"}},
    {LAYERS("{\"kind\": \"dense\", \"name\": \"a b\", \"channels\": 2}"), {"\"a b\" of layer 0"}},
    {LAYERS("{\"kind\": \"dense\"}"), {"layer dense0: has no \"channels\""}},
    {LAYERS("{\"kind\": \"conv\", \"channels\": 2}"), {"layer conv0: has no \"kernel\""}},
    {LAYERS("{\"kind\": \"conv\", \"kernel\": [1], \"channels\": 2}"),
     {"layer conv0: kernel [1]: ", "two in a list"}},
    {LAYERS("{\"kind\": \"conv\", \"kernel\": [1, -1], \"channels\": 2}"), {"kernel [1,-1]: "}},
    {LAYERS("{\"kind\": \"conv\", \"kernel\": 9, \"channels\": 2}"), {"kernel 9: ", "8 rows"}},
    {LAYERS("{\"kind\": \"conv\", \"kernel\": 3, \"channels\": 2, \"padding\": [1, 1]}"),
     {"padding [1,1]: ", "or four: top, bottom, left, right"}},
    {LAYERS("{\"kind\": \"conv\", \"kernel\": 3, \"channels\": [2, 2]}"), {"channels [2,2]: "}},
    {LAYERS("{\"kind\": \"conv\", \"kernel\": 3, \"channels\": 2, \"groups\": 2}"),
     {"groups 2: ", "use 1"}},
    {LAYERS("{\"kind\": \"conv\", \"kernel\": 3, \"channels\": 2, \"bias\": 1}"),
     {"bias 1: must be true or false"}},
    {LAYERS("{\"kind\": \"relu\", \"channels\": 2}"),
     {"layer relu0: unknown key \"channels\" for relu", "known keys: kind, name, from"}},
    {LAYERS("{\"kind\": \"max_pool\", \"kernel\": 2, \"count_padding\": true}"),
     {"unknown key \"count_padding\""}},
    {LAYERS("{\"kind\": \"relu\", \"beside\": \"image\"}"), {"unknown key \"beside\" for relu"}},
    {LAYERS("{\"kind\": \"add\"}"), {"layer add0: has no \"beside\""}},
    {LAYERS("{\"kind\": \"relu\", \"name\": \"act\"}, {\"kind\": \"relu\", \"from\": \"atc\"}"),
     {"layer relu1: from \"atc\": ", "\"act\"?"}},
    {LAYERS("{\"kind\": \"relu\", \"from\": \"relu0\"}"), {"from \"relu0\": no layer before it"}},
    {LAYERS("{\"kind\": \"relu\", \"from\": 0}"), {"from 0: must be the name"}},
    {LAYERS("{\"kind\": \"dropout\", \"p\": \"x\"}"), {"p \"x\": ", "from 0 to below 1"}},
    {LAYERS("{\"kind\": \"dense\", \"channels\": 3}"), {"must be 2 x 1 x 1"}},
};

START_TEST(refuses)
{
    const refusal *r = &refusals[_i];
    ls_config c, before;
    memset(&c, 0x55, sizeof c);
    before = c;
    const char *words[6] = {"f.json: "};
    for (int i = 0; i < 4 && r->words[i]; i++) words[i + 1] = r->words[i];
    assert_says(ls_config_from_json("f.json", r->json, &c), LS_ERR_INPUT, words);
    ck_assert(memcmp(&c, &before, sizeof c) == 0);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("net_json", 0);
    tcase_add_test(tcase, reads_every_field);
    tcase_add_test(tcase, round_trip);
    tcase_add_test(tcase, from_a_base);
    tcase_add_loop_test(tcase, refuses, 0, (int)(sizeof refusals / sizeof refusals[0]));
    return run_tests();
}
