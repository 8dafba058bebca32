/* 00_front_door.c - the library in one page: trains a small GPT on 4 ranks, saves it, goes on from
 * the file in another layout, and verifies that layout bit for bit against one thread.
 *
 *     cc 00_front_door.c $(pkg-config --cflags --libs lockstep) && ./a.out */
#include <lockstep/lockstep.h>
#include <stdio.h>

static ls_status print_step(void *context, uint64_t step, double loss, double norm)
{
    (void)norm;
    printf("%s step %2d  loss %.6f\n", (const char *)context, (int)step, loss);
    return LS_OK;
}

static ls_status train_and_verify(ls_job *job, char *first, char *second)
{
    ls_status status = LS_OK;

    /* Two stages of two tensor-parallel ranks each; five steps. */
    LS_TRY(ls_job_set(job, "model", "gpt2-nano"));
    LS_TRY(ls_job_set(job, "tp", "2"));
    LS_TRY(ls_job_set(job, "pp", "2"));
    LS_TRY(ls_job_set(job, "micro-batches", "4"));
    LS_TRY(ls_job_set(job, "steps", "5"));
    LS_TRY(ls_job_set(job, "save", "front_door.safetensors"));
    ls_job_on_step(job, print_step, first);
    LS_TRY(ls_job_train(job));

    /* The checkpoint loads in any layout: five more steps on three ranks. */
    LS_TRY(ls_job_set(job, "load", "front_door.safetensors"));
    LS_TRY(ls_job_set(job, "save", NULL));
    LS_TRY(ls_job_set(job, "tp", "3"));
    LS_TRY(ls_job_set(job, "pp", NULL));
    LS_TRY(ls_job_set(job, "steps", "10"));
    ls_job_on_step(job, print_step, second);
    LS_TRY(ls_job_train(job));
    printf("digest %s\n", ls_job_word(job, "digest"));

    /* Every loss, gradient and parameter of those steps, on one thread and on three ranks. */
    ls_job_on_step(job, NULL, NULL);
    LS_TRY(ls_job_verify(job));
    printf("%.0f of %.0f layouts bit-exact\n", ls_job_number(job, "bit_exact"),
           ls_job_number(job, "layouts"));
exit:
    return status;
}

int main(void)
{
    char first[] = "tp 2 x pp 2:", second[] = "tp 3:";
    ls_job *job = NULL;
    ls_status status = ls_job_create(&job);
    if (status == LS_OK) status = train_and_verify(job, first, second);
    if (status == LS_DIFFERENT) fprintf(stderr, "%s\n", ls_job_word(job, "difference"));
    if (status > LS_DIFFERENT) fprintf(stderr, "%s\n", ls_error_text());
    ls_job_destroy(&job);
    return ls_exit_code(status);
}
