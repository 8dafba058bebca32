/* judge_network.c - a convolutional network with what PyTorch computed: does the serial one compute
 * the same?
 *
 *     judge_network FOLDER
 *
 * reads what tools/clients/make_networks.py has made, model.json and net.safetensors, runs forward
 * and backward in training and in evaluation, and compares logits, loss, the gradient of every
 * parameter and the running statistics after a step of training. Ends with 0 when all are within
 * the bound, with 1 when one is not, with 2 when something cannot be read. Built for both
 * precisions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/model/config.h"
#include "lockstep/serial/serial.h"

/* Of the largest value of a tensor. */
static const double bound = LS_REAL_DTYPE == LS_F64 ? 1e-13 : 4e-5;

typedef struct judge {
    ls_config config;
    ls_param_table *table;
    ls_store *store;
    ls_serial *serial;
    ls_safetensors *file;
    ls_batch batch;
    double worst; /* difference over largest value */
    int compared, different;
} judge;

static ls_status find(const judge *j, const char *prefix, const char *name, ls_dtype dtype,
                      size_t elements, const void **ret_data)
{
    ls_status status = LS_OK;
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    const ls_tensor_info *info = ls_safetensors_find(j->file, whole);
    if (!info || info->dtype != dtype || (elements > 0 && info->elements != elements))
        LS_FAIL(LS_ERR_INPUT, "net.safetensors: %s is missing or not as it should be",
                ls_show(whole));
    *ret_data = info->data;
exit:
    return status;
}

/* Takes in how far `found` is from the file's tensor; NaN is far. */
static ls_status compare(judge *j, const char *prefix, const char *name, const ls_real *found,
                         size_t n)
{
    ls_status status = LS_OK;
    const void *data = NULL;
    double largest = 0, difference = 0;
    LS_TRY(find(j, prefix, name, LS_F64, n, &data));
    for (size_t i = 0; i < n; i++) {
        double wanted;
        memcpy(&wanted, (const char *)data + i * sizeof wanted, sizeof wanted);
        const double d = fabs((double)found[i] - wanted);
        if (fabs(wanted) > largest) largest = fabs(wanted);
        if (!(d <= difference)) difference = d;
    }
    j->compared++;
    if (!(difference <= j->worst * largest)) j->worst = difference / largest;
    if (difference <= bound * largest) goto exit;
    j->different++;
    printf("%s%s: off by %.3g, values up to %.3g\n", prefix, name, difference, largest);
exit:
    return status;
}

static ls_status read_weights(const judge *j)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < j->table->count; i++) {
        const ls_param *param = &j->table->params[i];
        const void *data = NULL;
        LS_TRY(find(j, "", param->name, LS_F64, ls_param_elements(param), &data));
        for (size_t e = 0; e < ls_param_elements(param); e++) {
            double value;
            memcpy(&value, (const char *)data + e * sizeof value, sizeof value);
            j->store->slots[i].value[e] = (ls_real)value;
        }
    }
exit:
    return status;
}

static ls_status read_batch(judge *j, float **ret_images, int32_t **ret_labels)
{
    ls_status status = LS_OK;
    const ls_net *net = &j->config.net;
    const ls_tensor_info *labels = ls_safetensors_find(j->file, "labels");
    const size_t pixels = net->channels * net->height * net->width;
    const size_t B = labels ? (size_t)labels->elements : 0;
    const void *data = NULL;
    *ret_images = malloc((B * pixels + 1) * sizeof **ret_images);
    *ret_labels = malloc((B + 1) * sizeof **ret_labels);
    if (!*ret_images || !*ret_labels) LS_FAIL(LS_ERR_MEMORY, "no memory");
    LS_TRY(find(j, "", "images", LS_F32, B * pixels, &data));
    memcpy(*ret_images, data, B * pixels * sizeof **ret_images);
    LS_TRY(find(j, "", "labels", LS_I32, B, &data));
    memcpy(*ret_labels, data, B * sizeof **ret_labels);
    j->batch = (ls_batch){.B = B, .pixels = pixels, .images = *ret_images, .labels = *ret_labels};
exit:
    return status;
}

static ls_status judge_phase(judge *j, const char *phase, bool training)
{
    ls_status status = LS_OK;
    char grad[32], after[32];
    ls_real loss;
    snprintf(grad, sizeof grad, "%sgrad.", phase);
    snprintf(after, sizeof after, "%safter.", phase);
    LS_TRY(read_weights(j));
    j->batch.training = training;
    LS_TRY(ls_serial_forward(j->serial, &j->batch, &loss));
    LS_TRY(compare(j, phase, "loss", &loss, 1));
    LS_TRY(compare(j, phase, "logits", ls_serial_logits(j->serial),
                   j->batch.B * j->config.net.classes));
    LS_TRY(ls_serial_backward(j->serial));
    for (size_t i = 0; i < j->table->count; i++) {
        const ls_param *param = &j->table->params[i];
        const ls_slot *slot = &j->store->slots[i];
        const size_t n = ls_param_elements(param);
        if (!param->state) LS_TRY(compare(j, grad, param->name, slot->grad[0], n));
        if (param->state) LS_TRY(compare(j, training ? after : "", param->name, slot->value, n));
    }
exit:
    return status;
}

static ls_status judge_folder(judge *j, const char *folder)
{
    ls_status status = LS_OK;
    char path[4096];
    float *images = NULL;
    int32_t *labels = NULL;
    const ls_engine engine = LS_REAL_DTYPE == LS_F64 && ls_engine_available(LS_ENGINE_PLAIN)
                                 ? LS_ENGINE_PLAIN
                                 : LS_ENGINE_PORTABLE;
    snprintf(path, sizeof path, "%s/model.json", folder);
    LS_TRY(ls_config_load(path, &j->config));
    LS_TRY(ls_param_table_create(&j->table, &j->config));
    LS_TRY(ls_store_create(&j->store, j->table, NULL, NULL));
    LS_TRY(ls_serial_create(&j->serial, j->store, engine, NULL));
    snprintf(path, sizeof path, "%s/net.safetensors", folder);
    LS_TRY(ls_safetensors_open(&j->file, path));
    LS_TRY(read_batch(j, &images, &labels));
    LS_TRY(judge_phase(j, "train.", true));
    LS_TRY(judge_phase(j, "eval.", false));
    printf("%s: %d tensors compared, %d different, off by %.2g at most\n", ls_show(folder),
           j->compared, j->different, j->worst);
    if (j->different > 0) status = LS_DIFFERENT;
exit:
    free(images);
    free(labels);
    return status;
}

int main(int argc, char **argv)
{
    judge j = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: judge_network FOLDER\n");
        return 2;
    }
    ls_status status = judge_folder(&j, argv[1]);
    if (status != LS_OK && status != LS_DIFFERENT) fprintf(stderr, "%s\n", ls_error_text());
    ls_serial_destroy(&j.serial);
    ls_safetensors_close(&j.file);
    ls_store_destroy(&j.store);
    ls_param_table_destroy(&j.table);
    return ls_exit_code(status);
}
