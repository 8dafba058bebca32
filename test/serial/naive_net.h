/* naive_net.h - a whole network made of naive_layers.h: forward, loss, backward. */
#ifndef LS_TEST_NAIVE_NET_H
#define LS_TEST_NAIVE_NET_H

#include "serial/naive_layers.h"

static inline void naive_layer(const naive_net *f, size_t l, const ls_real *dy)
{
    const ls_net_layer *is = &f->net->layers[l];
    const ls_real *x = naive_output(f, is->from);
    const size_t n = naive_size(f, (int)l);
    const ls_stream stream = {f->batch->seed, LS_RANDOM_DROPOUT_NET, (uint32_t)l, f->batch->step};
    ls_real *to = dy ? f->dx[l] : f->y[l];
    switch (is->kind) {
    case LS_NET_CONV:
        if (dy) {
            naive_conv_backward(f, l, dy);
        } else {
            const ls_conv2d conv = naive_conv(f, l);
            const ls_image_layout made = naive_layout(&f->shapes.layer[l]);
            ls_conv2d_naive_forward(&conv, f->B, to, made, made.held, x,
                                    naive_layout(ls_net_shape_at(&f->shapes, is->from)),
                                    naive_value(f, LS_CONV_WEIGHT, l), ls_conv2d_depth(&conv),
                                    naive_value(f, LS_CONV_BIAS, l));
        }
        break;
    case LS_NET_MAX_POOL:
    case LS_NET_AVG_POOL:
        naive_pool(f, l, dy);
        break;
    case LS_NET_GLOBAL_POOL:
        naive_global_pool(f, l, dy);
        break;
    case LS_NET_BATCH_NORM:
        naive_batch_norm(f, l, dy);
        break;
    case LS_NET_RESPONSE_NORM:
        naive_response_norm(f, l, dy);
        break;
    case LS_NET_DENSE:
        naive_dense(f, l, dy);
        break;
    case LS_NET_RELU:
        for (size_t i = 0; i < n; i++)
            to[i] = f->y[l][i] > 0 || (!dy && x[i] > 0) ? (dy ? dy[i] : x[i]) : 0;
        break;
    case LS_NET_DROPOUT:
        for (size_t i = 0; i < n; i++) {
            const ls_real from = dy ? dy[i] : x[i];
            to[i] = !f->batch->training                ? from
                    : ls_random_keep(stream, i, is->p) ? from * (ls_real)(1 / (1 - is->p))
                                                       : 0;
        }
        break;
    case LS_NET_ADD:
        for (size_t i = 0; i < n; i++) to[i] = dy ? dy[i] : x[i] + naive_output(f, is->beside)[i];
        break;
    default:
        ck_abort();
    }
}

/* Softmax cross-entropy: the loss, and dz into `dlogits`. */
static inline void naive_loss(naive_net *f, ls_real *dlogits)
{
    const size_t V = f->net->classes;
    const double a = f->config->label_smoothing;
    const ls_real *logits = f->y[f->net->count - 1];
    ls_real losses[64];
    for (size_t b = 0; b < f->B; b++) {
        const ls_real *z = logits + b * V;
        const size_t label = (size_t)f->batch->labels[b];
        ls_real most = z[0], lane[16], z_lane[16];
        for (size_t v = 1; v < V; v++) most = z[v] > most ? z[v] : most;
        ck_assert(V <= 16); /* a lane each */
        for (size_t v = 0; v < 16; v++) {
            lane[v] = v < V ? ls_exp(z[v] - most) : (ls_real)-0.0;
            z_lane[v] = v < V ? z[v] : (ls_real)-0.0;
        }
        const ls_real sum = reference_tree(lane, 16), sum_z = reference_tree(z_lane, 16);
        const ls_real lse = ls_log(sum), plain = lse - (z[label] - most);
        losses[b] =
            a > 0 ? (ls_real)(1 - a) * plain + (ls_real)a * (lse - (sum_z / (ls_real)V - most))
                  : plain;
        for (size_t v = 0; v < V; v++) {
            const double q = a / (double)V + (v == label ? 1 - a : 0);
            dlogits[b * V + v] =
                ((lane[v] * ((ls_real)1 / sum)) - (ls_real)q) * ((ls_real)1 / (ls_real)f->B);
        }
    }
    f->loss = reference_tree(losses, f->B) / (ls_real)f->B;
}

/* Room for everything, forward, backward. */
static inline naive_net *naive_net_run(const ls_config *config, const ls_store *store,
                                       const ls_batch *batch)
{
    naive_net *f = calloc(1, sizeof *f);
    ck_assert_ptr_nonnull(f);
    f->config = config;
    f->net = &config->net;
    f->store = store;
    f->batch = batch;
    f->B = batch->B;
    ls_net_shapes_of(f->net, &f->shapes);
    f->x = naive_room(naive_size(f, LS_NET_IMAGE));
    for (size_t i = 0; i < naive_size(f, LS_NET_IMAGE); i++) f->x[i] = (ls_real)batch->images[i];
    for (size_t l = 0; l < f->net->count; l++) {
        const ls_net_layer *is = &f->net->layers[l];
        const size_t in = ls_net_shape_elements(ls_net_shape_at(&f->shapes, is->from));
        const size_t C = f->shapes.layer[l].channels;
        const ls_role role = is->kind == LS_NET_CONV ? LS_CONV_WEIGHT : LS_DENSE_WEIGHT;
        const ls_slot *weight = ls_store_slot(store, role, l);
        f->y[l] = naive_room(naive_size(f, (int)l));
        f->dx[l] = naive_room(f->B * in);
        f->mean[l] = naive_room(C);
        f->rstd[l] = naive_room(C);
        f->squares[l] = naive_room(C);
        f->dweight[l] = naive_room(weight ? weight->rows * weight->cols : C);
        f->dbias[l] = naive_room(C);
        naive_layer(f, l, NULL);
    }
    ls_real *dlogits = naive_room(naive_size(f, (int)f->net->count - 1));
    naive_loss(f, dlogits);
    for (size_t l = f->net->count; l-- > 0;) {
        const size_t n = naive_size(f, (int)l);
        ls_real *dy = naive_room(n);
        bool begun = l + 1 == f->net->count;
        if (begun) memcpy(dy, dlogits, n * sizeof *dy);
        for (size_t r = l + 1; r < f->net->count; r++)
            for (int side = 0; side < 2; side++) {
                const ls_net_layer *reader = &f->net->layers[r];
                if (side == 1 && reader->kind != LS_NET_ADD) continue;
                if ((side == 0 ? reader->from : reader->beside) != (int)l) continue;
                for (size_t i = 0; i < n; i++) dy[i] = begun ? dy[i] + f->dx[r][i] : f->dx[r][i];
                begun = true;
            }
        naive_layer(f, l, dy);
        free(dy);
    }
    free(dlogits);
    return f;
}

static inline void naive_net_free(naive_net *f)
{
    for (size_t l = 0; l < f->net->count; l++) {
        ls_real *arrays[] = {f->y[l],       f->dx[l],      f->mean[l], f->rstd[l],
                             f->squares[l], f->dweight[l], f->dbias[l]};
        for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) free(arrays[i]);
    }
    free(f->x);
    free(f);
}

#endif
