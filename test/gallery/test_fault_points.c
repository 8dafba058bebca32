/* The second build of the parallel path: without a fault it is the serial run to the bit, with any
 * fault it is not, in every scene in which the gallery's table says that it shows; and a mistake of
 * the backward pass or of the update leaves what comes before as it was. */
#include <stdlib.h>

#include "gallery/gallery.h"
#include "verify/verify.h"
#include "train/run_fixture.h"
#include "run_tests.h"

enum { STEPS = 3, ROOM = 64 };

/* Batches from the gallery's text with targets left out, unevenly: means of means differ. */
static void give_batches(ls_run *run, ls_batch *given, int32_t *ids)
{
    size_t S = run->config.seq, n = run->batch * S;
    for (uint32_t step = 0; step < STEPS; step++, ids += 2 * n) {
        ls_text_batch(run->text, run->seed, step, 0, run->batch, S, ids, ids + n);
        for (size_t b = 0; b < run->batch; b++)
            for (size_t s = 0; s < 2 * b; s++) ids[n + b * S + s] = LS_IGNORE;
        given[step] = (ls_batch){.B = run->batch, .S = S, .tokens = ids, .targets = ids + n};
        given[step].seed = run->seed;
        given[step].step = step;
    }
    run->given = given;
    run->n_given = STEPS;
}

/* The run of a scene, far enough that biases are no zeros any more. */
static ls_run scene_run(const ls_gallery_scene *scene)
{
    static ls_batch given[STEPS];
    static int32_t ids[STEPS * 2 * 400];
    ls_run run;
    ls_status status = ls_gallery_run(scene, 99, &run);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    run.steps = STEPS;
    run.lr = 0.02;
    run.clip = 0.5;
    if (run.config.kind == LS_MODEL_TRANSFORMER && run.config.objective == LS_NEXT_TOKEN)
        give_batches(&run, given, ids);
    return run;
}

static const char *phase_of(const char *found)
{
    if (strncmp(found, "d.", 2) == 0 || strncmp(found, "grad", 4) == 0) return "gradient";
    if (strcmp(found, "norm") == 0 || strncmp(found, "param", 5) == 0) return "update";
    return NULL;
}

START_TEST(scene)
{
    const ls_gallery_scene *of = &ls_gallery_scenes[_i];
    ls_run run = scene_run(of), serial = run;
    ls_record *record = NULL;
    ls_departure departure;
    ls_status status;
    size_t shown = 0;

    serial.serial = true;
    status = ls_record_run(&record, &serial, NULL, NULL);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    for (int twice = 0; twice < 2; twice++) {
        ls_fault_chosen = LS_FAULT_NONE;
        status = ls_verify_run(record, &run, NULL, &departure, NULL);
        ck_assert_msg(status == LS_OK, "%s: no fault, status %d %s", of->name, status,
                      ls_error_text());
        for (size_t i = 0; i < LS_FAULTS_COUNT - 1; i++) {
            const ls_gallery_fault *fault = &ls_gallery_faults[i];
            const char *phase = phase_of(fault->found);
            if (!(fault->scenes >> _i & 1)) continue;
            shown++;
            ls_fault_chosen = fault->fault;
            status = ls_verify_run(record, &run, NULL, &departure, NULL);
            /* Replicas that differ are refused where they are brought together. */
            ck_assert_msg(status == LS_DIFFERENT || status == LS_ERR_RANK, "%s: %s, status %d %s",
                          of->name, fault->key, status, ls_error_text());
            if (status == LS_DIFFERENT && phase)
                ck_assert_msg(departure.step == 0 && strcmp(departure.phase, phase) == 0,
                              "%s: %s, step %d, %s of %s", of->name, fault->key,
                              (int)departure.step, departure.phase, departure.tensor);
            ls_error_clear();
        }
    }
    ck_assert(shown > 3);
    ls_record_destroy(&record);
}
END_TEST

START_TEST(table)
{
    for (size_t i = 0; i < LS_FAULTS_COUNT - 1; i++) {
        const ls_gallery_fault *fault = &ls_gallery_faults[i];
        ck_assert_int_eq((int)fault->fault, (int)i + 1);
        ck_assert(fault->scenes != 0 && fault->scenes >> LS_SCENES == 0);
        ck_assert(fault->causes[0] != LS_CAUSE_NONE);
        for (size_t other = 0; other < i; other++)
            ck_assert_str_ne(fault->key, ls_gallery_faults[other].key);
    }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("fault_points", 280);
    tcase_add_loop_test(tests, scene, 0, LS_SCENES);
    tcase_add_test(tests, table);
    return run_tests();
}
