/* dump_start.c - what the run begins with, as weights.safetensors.
 *
 * A training run begins with biases of 0 and scales of 1, and weights so small that attention is
 * nearly the mean of its values: half of the mistakes that one can make would change nothing. The
 * telling start draws every parameter so that each term counts:
 *
 *     matrices         normal / sqrt(inputs): what is normed, of size 1, stays so; queries and keys
 *                      too, so scores are of size 1
 *     embeddings       normal / sqrt(D): the logits of a tied head are of size 1
 *     biases, shifts   normal / 10
 *     scales           1 + normal / 5
 *     convolutions     normal sqrt(2 / terms of a sum)
 *     running means    normal / 2; running variances 1 + normal / 5, no less than 1/4
 *
 * Element i of a parameter takes normal number i of the stream that its initial value in training
 * is drawn from, rounded to binary32 in both precisions. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "lockstep/numerics/digest.h"
#include "lockstep/numerics/random.h"
#include "base/allocate.h"
#include "golden/dump_parts.h"
#include "train/checkpoint_file.h"
#include "train/checkpoint_metadata.h"

const char *ls_dump_source_name(ls_dump_source source)
{
    static const char *const names[] = {"telling", "training", "given"};
    return names[source];
}

ls_dump_source ls_dump_source_of(const dump *d)
{
    return d->options->start == LS_START_TELLING ? LS_DUMP_TELLING : LS_DUMP_TRAINING;
}

/* ---- drawn values ---- */

/* mean + deviation * normal. */
typedef struct draw {
    double mean, deviation;
} draw;

static draw telling(const ls_param *param)
{
    switch (param->role) {
    case LS_TOKEN_EMBEDDING:
    case LS_POSITION_EMBEDDING:
    case LS_TYPE_EMBEDDING:
    case LS_HEAD_WEIGHT:
        return (draw){0, 1 / sqrt((double)param->dims[1])};
    case LS_CONV_WEIGHT: /* a row is what one output adds up; a ReLU takes half of it away */
        return (draw){0, sqrt(2 / (double)param->dims[1])};
    case LS_BATCH_NORM_MEAN:
        return (draw){0, 0.5};
    case LS_BATCH_NORM_VARIANCE:
        return (draw){1, 0.2};
    default:
        if (param->init == LS_INIT_ONE) return (draw){1, 0.2};
        if (param->n_dims == 1) return (draw){0, 0.1};
        return (draw){0, 1 / sqrt((double)param->dims[0])};
    }
}

/* As ls_store_init. */
static draw training(const ls_param *param)
{
    return (draw){param->init == LS_INIT_ONE ? 1 : 0,
                  param->init == LS_INIT_NORMAL ? param->std : 0};
}

static void draw_param(const dump *d, size_t place, float *values)
{
    const ls_param *param = &d->table->params[place];
    const draw from = d->options->start == LS_START_TELLING ? telling(param) : training(param);
    const ls_stream stream = {d->run.seed, LS_RANDOM_INIT, (uint32_t)place, 0};
    const size_t n = ls_param_elements(param);
    for (size_t i = 0; i < n; i++) {
        double x = from.mean;
        if (from.deviation > 0) x += from.deviation * ls_random_normal(stream, i);
        if (param->role == LS_BATCH_NORM_VARIANCE) x = fmax(x, 0.25);
        values[i] = (float)x;
    }
}

/* ---- the file ---- */

static size_t most_elements(const ls_param_table *table)
{
    size_t most = 0;
    for (size_t i = 0; i < table->count; i++)
        if (ls_param_elements(&table->params[i]) > most)
            most = ls_param_elements(&table->params[i]);
    return most;
}

/* The metadata of a checkpoint, which it is. */
static ls_status describe(const dump *d, ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    char *model = NULL, text[32];
    LS_TRY(ls_safetensors_add_metadata(writer, "format", LS_CHECKPOINT_FORMAT));
    LS_TRY(ls_config_to_json(&d->run.config, &model));
    LS_TRY(ls_safetensors_add_metadata(writer, "model", model));
    LS_TRY(ls_safetensors_add_metadata(writer, "contract", ls_contract_name()));
    LS_TRY(ls_safetensors_add_metadata(writer, "contract_digest", ls_contract_digest()));
    LS_TRY(ls_safetensors_add_metadata(writer, "optimizer", ls_optimizer_name(d->run.optimizer)));
    snprintf(text, sizeof text, "%" PRIu64, d->run.seed);
    LS_TRY(ls_safetensors_add_metadata(writer, "seed", text));
    snprintf(text, sizeof text, "%" PRIu64, d->first_step);
    LS_TRY(ls_safetensors_add_metadata(writer, "step", text));
exit:
    free(model);
    return status;
}

static ls_status declare(const dump *d, int arrays, ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    char name[sizeof d->table->params->name + 16];
    for (int array = 0; array < arrays; array++) {
        for (size_t i = 0; i < d->table->count; i++) {
            const ls_param *param = &d->table->params[i];
            if (array > 0 && param->state) continue; /* the optimizer has nothing of it */
            uint64_t dims[4];
            for (int k = 0; k < param->n_shape; k++) dims[k] = param->shape[k];
            snprintf(name, sizeof name, "%s%s", ls_checkpoint_prefixes[array], param->name);
            LS_TRY(ls_safetensors_declare(writer, name, d->run.dtype, param->n_shape, dims));
        }
    }
exit:
    return status;
}

/* Values handed over in memory, rounded to the run's precision. */
static void round_initial(const dump *d, int array, size_t place, void *values)
{
    const ls_initial *initial = d->run.initial;
    const double *const *arrays[] = {initial->values, initial->moment1, initial->moment2};
    const double *from = arrays[array] ? arrays[array][place] : NULL; /* NULL: zero */
    const size_t n = ls_param_elements(&d->table->params[place]);
    for (size_t i = 0; i < n; i++) {
        if (d->run.dtype == LS_F64)
            ((double *)values)[i] = from ? from[i] : 0;
        else
            ((float *)values)[i] = from ? (float)from[i] : 0;
    }
}

/* Whether all elements are the same, of which there are several. */
static bool is_constant(const void *values, size_t n, size_t bytes)
{
    return n > 1 && memcmp(values, (const char *)values + bytes, (n - 1) * bytes) == 0;
}

/* A parameter's array as `from` has it, or handed over, or drawn, and as the run's dtype. */
static ls_status write_array(dump *d, const ls_checkpoint_file *from, int array, size_t place,
                             void *narrow, void *values, ls_safetensors_writer *writer)
{
    const size_t n = ls_param_elements(&d->table->params[place]);
    ls_dtype dtype = LS_F32;
    if (d->run.initial) {
        round_initial(d, array, place, narrow);
        dtype = d->run.dtype;
    } else if (from) {
        const ls_tensor_info *info = ls_checkpoint_find(from, place, array);
        dtype = info->dtype;
        ls_foreign_whole_in(from->map, place, ls_dtype_bytes(dtype), narrow, info->data);
    } else {
        draw_param(d, place, narrow);
    }
    if (array == 0 && d->summary.start.weights == LS_DUMP_GIVEN)
        d->summary.start.constant += is_constant(narrow, n, ls_dtype_bytes(dtype));
    if (dtype != d->run.dtype) ls_widen(d->run.dtype, values, dtype, narrow, n);
    return ls_safetensors_write(writer, dtype == d->run.dtype ? narrow : values,
                                n * ls_dtype_bytes(d->run.dtype));
}

static ls_status write_weights(dump *d, const ls_checkpoint_file *from, const char *path)
{
    ls_status status = LS_OK;
    ls_safetensors_writer *writer = NULL;
    const ls_initial *initial = d->run.initial;
    const bool goes_on = initial && (initial->step > 0 || initial->moment1 || initial->moment2);
    const int arrays = initial ? (goes_on ? LS_CHECKPOINT_ARRAYS : 1) : from ? from->arrays : 1;
    double *narrow = NULL, *values = NULL; /* room for any type */
    LS_ROOM(narrow, most_elements(d->table));
    LS_ROOM(values, most_elements(d->table));
    LS_TRY(ls_safetensors_create(&writer, path));
    LS_TRY(describe(d, writer));
    LS_TRY(declare(d, arrays, writer));
    for (int array = 0; array < arrays; array++)
        for (size_t i = 0; i < d->table->count; i++) {
            LS_TRY(ls_dump_advance(d, (size_t)array * d->table->count + i,
                                   (size_t)arrays * d->table->count, "weights"));
            if (array > 0 && d->table->params[i].state) continue;
            LS_TRY(write_array(d, from, array, i, narrow, values, writer));
        }
    LS_TRY(ls_safetensors_commit(writer));
exit:
    ls_safetensors_destroy(&writer);
    free(narrow);
    free(values);
    return status;
}

ls_status ls_dump_write_start(dump *d)
{
    ls_status status = LS_OK;
    ls_checkpoint_file from = {0};
    const char *path;
    LS_TRY(ls_dump_path(d, "weights.safetensors", &path));
    ls_dump_told *told = &d->summary.start;
    told->weights = d->run.initial || d->run.load ? LS_DUMP_GIVEN : ls_dump_source_of(d);
    for (size_t i = 0; i < d->table->count; i++)
        told->biases += d->table->params[i].init == LS_INIT_ZERO && !d->table->params[i].state;
    if (d->run.initial) {
        d->run.load = NULL;
        d->first_step = d->run.initial->step;
    }
    if (d->run.load) {
        LS_TRY(ls_checkpoint_open(&from, &d->run, d->table));
        d->first_step = from.step;
        if (!d->run.seed_given) LS_TRY(ls_checkpoint_seed(d->run.load, d->run.seed, &d->run.seed));
    }
    LS_TRY(write_weights(d, d->run.load ? &from : NULL, path));
    LS_TRY(ls_dump_note(d, "weights.safetensors", path, true));
    d->run.load = path;
    d->run.initial = NULL;
    d->run.seed_given = true;
exit:
    ls_checkpoint_close(&from);
    return status;
}
