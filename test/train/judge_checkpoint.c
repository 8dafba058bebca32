/* judge_checkpoint.c - a checkpoint that another program wrote, with what it computed: does the
 * serial model compute the same?
 *
 *     judge_checkpoint FOLDER
 *
 * reads the model and the weights of the folder, and expected.safetensors in it (see
 * make_checkpoints.py), runs forward and backward, and compares logits, losses and the gradient of
 * every parameter. Prints the largest differences; ends with 0 when all are within the bounds, with
 * 1 when one is not, with 2 when something cannot be read. Built for both precisions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lockstep/base/show.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/serial/serial.h"
#include "train/checkpoint.h"
#include "train/checkpoint_file.h"

/* Of the largest value of a tensor. The other side is binary64: so the first bound is a few hundred
 * roundings of binary64, the second of binary32. */
static const double bound = LS_REAL_DTYPE == LS_F64 ? 1e-13 : 4e-5;

typedef struct judge {
    ls_config config;
    ls_param_table *table;
    ls_store *store;
    ls_serial *serial;
    ls_safetensors *expected;
    ls_checkpoint_file file; /* for its map and its names */
    double worst;            /* difference over largest value */
    int compared, different;
} judge;

/* Takes in how far `found` is from `wanted`; NaN is far. Both are taken to be as large as `least`,
 * when they are smaller. Returns the largest value. */
static double compare(judge *j, const char *name, const double *found, const double *wanted,
                      size_t n, double least)
{
    double largest = least, difference = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs(found[i] - wanted[i]);
        if (fabs(wanted[i]) > largest) largest = fabs(wanted[i]);
        if (!(d <= difference)) difference = d;
    }
    j->compared++;
    if (!(difference <= j->worst * largest)) j->worst = difference / largest;
    if (difference <= bound * largest) return largest;
    j->different++;
    printf("%s: off by %.3g, values up to %.3g\n", name, difference, largest);
    return largest;
}

static ls_status expected_tensor(const judge *j, const char *name, ls_dtype dtype,
                                 uint64_t elements, const ls_tensor_info **ret_info)
{
    ls_status status = LS_OK;
    const ls_tensor_info *info = ls_safetensors_find(j->expected, name);
    if (!info || info->dtype != dtype || (elements > 0 && info->elements != elements))
        LS_FAIL(LS_ERR_INPUT, "expected.safetensors: %s is missing or not as it should be",
                ls_show(name));
    *ret_info = info;
exit:
    return status;
}

/* ---- reading ---- */

static ls_status find_ids(const judge *j, const char *name, uint64_t elements,
                          const int32_t **ret_ids)
{
    ls_status status = LS_OK;
    const ls_tensor_info *info;
    *ret_ids = NULL;
    if (!ls_safetensors_find(j->expected, name)) return status;
    LS_TRY(expected_tensor(j, name, LS_I32, elements, &info));
    *ret_ids = info->data; /* the first arrays of the file, whose header is padded to 8 or not */
    if ((uintptr_t)info->data % sizeof(int32_t) != 0) {
        int32_t *copy = malloc((size_t)elements * sizeof *copy); /* lives as long as the program */
        if (!copy) LS_FAIL(LS_ERR_MEMORY, "no memory");
        memcpy(copy, info->data, (size_t)elements * sizeof *copy);
        *ret_ids = copy;
    }
exit:
    return status;
}

static ls_status read_batch(const judge *j, ls_batch *ret_batch)
{
    ls_status status = LS_OK;
    const ls_tensor_info *tokens;
    ls_batch batch = {0};
    LS_TRY(expected_tensor(j, "tokens", LS_I32, 0, &tokens));
    batch.B = (size_t)tokens->dims[0];
    batch.S = (size_t)tokens->dims[1];
    LS_TRY(find_ids(j, "tokens", batch.B * batch.S, &batch.tokens));
    LS_TRY(find_ids(j, "targets", batch.B * batch.S, &batch.targets));
    LS_TRY(find_ids(j, "segments", batch.B * batch.S, &batch.segments));
    LS_TRY(find_ids(j, "lengths", batch.B, &batch.lengths));
    LS_TRY(find_ids(j, "order", batch.B, &batch.order));
    *ret_batch = batch;
exit:
    return status;
}

static ls_status open_all(judge *j, const char *folder)
{
    ls_status status = LS_OK;
    char path[4096];
    struct stat about;
    ls_run run;
    uint64_t step;
    snprintf(path, sizeof path, "%s/model.json", folder);
    LS_TRY(ls_config_load(stat(path, &about) == 0 ? path : folder, &j->config));
    LS_TRY(ls_param_table_create(&j->table, &j->config));
    LS_TRY(ls_store_create(&j->store, j->table, NULL, NULL));
    ls_run_defaults(&run, &j->config);
    run.dtype = LS_REAL_DTYPE;
    run.load = folder;
    LS_TRY(ls_checkpoint_begin(&run, j->store, &step));
    LS_TRY(ls_checkpoint_open(&j->file, &run, j->table));
    LS_TRY(ls_serial_create(&j->serial, j->store,
                            LS_REAL_DTYPE == LS_F64 && ls_engine_available(LS_ENGINE_PLAIN)
                                ? LS_ENGINE_PLAIN
                                : LS_ENGINE_PORTABLE,
                            NULL));
    snprintf(path, sizeof path, "%s/expected.safetensors", folder);
    LS_TRY(ls_safetensors_open(&j->expected, path));
exit:
    return status;
}

/* ---- comparing ---- */

/* `count` values, `width` of each row of `pitch`. */
static void widen(double *to, const ls_real *from, size_t rows, size_t width, size_t pitch)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++) to[r * width + c] = (double)from[r * pitch + c];
}

static ls_status compare_forward(judge *j, const ls_batch *batch)
{
    ls_status status = LS_OK;
    const ls_tensor_info *info;
    const size_t V = j->config.vocab, padded = ls_axis_extent(ls_config_vocab_axis(&j->config));
    const size_t rows = batch->B * batch->S, losses = j->config.sentence_order ? 2 : 1;
    double *found = malloc(2 * rows * V * sizeof *found), *wanted = found + rows * V;
    ls_real loss, parts[2];
    if (!found) LS_FAIL(LS_ERR_MEMORY, "no memory");
    LS_TRY(ls_serial_forward(j->serial, batch, &loss));
    LS_TRY(expected_tensor(j, "logits", LS_F64, rows * V, &info));
    memcpy(wanted, info->data, rows * V * sizeof *wanted);
    widen(found, ls_serial_logits(j->serial), rows, V, padded);
    compare(j, "logits", found, wanted, rows * V, 0);
    LS_TRY(expected_tensor(j, "losses", LS_F64, losses, &info));
    memcpy(wanted, info->data, losses * sizeof *wanted);
    ls_serial_losses(j->serial, &parts[0], &parts[1]);
    widen(found, parts, 1, losses, losses);
    compare(j, "losses", found, wanted, losses, 0);
exit:
    free(found);
    return status;
}

/* The gradients of expected.safetensors are named and laid out as the weights are. */
static ls_status compare_gradients(judge *j)
{
    ls_status status = LS_OK;
    double *found = NULL, *wanted = NULL, largest = 0;
    size_t most = 0;
    for (size_t i = 0; i < j->table->count; i++)
        if (ls_param_elements(&j->table->params[i]) > most)
            most = ls_param_elements(&j->table->params[i]);
    found = malloc(most * sizeof *found);
    wanted = malloc(most * sizeof *wanted);
    ls_real *whole = malloc(most * sizeof *whole);
    if (!found || !wanted || !whole) LS_FAIL(LS_ERR_MEMORY, "no memory");
    for (size_t i = 0; i < j->table->count; i++) {
        const ls_param *param = &j->table->params[i];
        const ls_slot *slot = &j->store->slots[i];
        const ls_tensor_info *info = ls_checkpoint_find(&j->file, i, 0), *gradient;
        char name[256];
        snprintf(name, sizeof name, "grad.%s", info->name);
        LS_TRY(expected_tensor(j, name, LS_F64, info->elements, &gradient));
        ls_foreign_whole_in(j->file.map, i, sizeof *wanted, wanted, gradient->data);
        ls_param_shard_out(param, slot->shard, sizeof *whole, whole, slot->grad[0]);
        widen(found, whole, 1, ls_param_elements(param), ls_param_elements(param));
        /* What is added to all keys alike adds the same to every score of a row, which softmax does
         * not see: without rotary positions the gradient of a key's bias is 0 but for rounding, and
         * the weight's, just before it in the table, says how large that may be. */
        largest = compare(j, param->name, found, wanted, ls_param_elements(param),
                          param->role == LS_KEY_BIAS ? largest : 0);
    }
exit:
    free(found);
    free(wanted);
    free(whole);
    return status;
}

static ls_status judge_folder(judge *j, const char *folder)
{
    ls_status status = LS_OK;
    ls_batch batch;
    LS_TRY(open_all(j, folder));
    LS_TRY(read_batch(j, &batch));
    LS_TRY(compare_forward(j, &batch));
    LS_TRY(ls_serial_backward(j->serial));
    LS_TRY(compare_gradients(j));
    printf("%s: names of %s, %d tensors compared, %d different, off by %.2g at most\n", folder,
           ls_names_title(j->file.map->names), j->compared, j->different, j->worst);
    if (j->different > 0) status = LS_DIFFERENT;
exit:
    return status;
}

int main(int argc, char **argv)
{
    judge j = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: judge_checkpoint FOLDER\n");
        return 2;
    }
    ls_status status = judge_folder(&j, argv[1]);
    if (status != LS_OK && status != LS_DIFFERENT) fprintf(stderr, "%s\n", ls_error_text());
    ls_serial_destroy(&j.serial);
    ls_checkpoint_close(&j.file);
    ls_safetensors_close(&j.expected);
    ls_store_destroy(&j.store);
    ls_param_table_destroy(&j.table);
    return ls_exit_code(status);
}
