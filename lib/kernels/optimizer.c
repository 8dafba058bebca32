/* optimizer.c - AdamW and SGD with momentum, elementwise. */
#include "lockstep/kernels/optimizer.h"

#include <math.h>

#include "lockstep/numerics/functions.h"

/* One correctly rounded IEEE operation. */
static ls_real root(ls_real x)
{
#ifdef LS_REAL_IS_F64
    return sqrt(x);
#else
    return sqrtf(x);
#endif
}

static void adamw(const ls_update *u, int decay, ls_real *w, ls_real *m, ls_real *v,
                  const ls_real *g, size_t n)
{
    const ls_real beta1 = (ls_real)u->beta1, rest1 = (ls_real)(1.0 - u->beta1);
    const ls_real beta2 = (ls_real)u->beta2, rest2 = (ls_real)(1.0 - u->beta2);
    const ls_real c1 = (ls_real)(1.0 / (1.0 - ls_power(u->beta1, u->t)));
    const ls_real c2 = (ls_real)(1.0 / (1.0 - ls_power(u->beta2, u->t)));
    const ls_real lr = (ls_real)u->lr, eps = (ls_real)u->eps;
    const ls_real shrink = (ls_real)(u->lr * u->weight_decay);

    for (size_t i = 0; i < n; i++) {
        m[i] = beta1 * m[i] + rest1 * g[i];
        v[i] = beta2 * v[i] + rest2 * (g[i] * g[i]);
        const ls_real decayed = decay ? w[i] - shrink * w[i] : w[i];
        w[i] = decayed - lr * ((m[i] * c1) / (root(v[i] * c2) + eps));
    }
}

static void sgd(const ls_update *u, int decay, ls_real *w, ls_real *m, const ls_real *g, size_t n)
{
    const ls_real lr = (ls_real)u->lr, momentum = (ls_real)u->beta1;
    const ls_real weight_decay = (ls_real)u->weight_decay;

    for (size_t i = 0; i < n; i++) {
        const ls_real decayed = decay ? g[i] + weight_decay * w[i] : g[i];
        m[i] = momentum * m[i] + decayed;
        w[i] = w[i] - lr * m[i];
    }
}

void ls_update_apply(const ls_update *update, int decay, ls_real *w, ls_real *m, ls_real *v,
                     const ls_real *g, size_t n)
{
    switch (update->optimizer) {
    case LS_ADAMW:
        adamw(update, decay, w, m, v, g, n);
        break;
    case LS_SGD:
        sgd(update, decay, w, m, g, n);
        break;
    }
}
