/* status.h - how a function of Lockstep fails.
 *
 * Every function that can fail returns an ls_status. The text that goes with it is in a record of
 * the calling thread. LS_FAIL, where a failure begins, writes the record; LS_TRY, which passes the
 * failure on, leaves it as it is. So after a failed call the record holds the text of that failure,
 * also when the thread has handled others before. After a call that returned LS_OK it says nothing.
 * A function has one exit label:
 *
 *     ls_status status = LS_OK;
 *     LS_TRY(ls_one_thing());
 *     if (n == 0) LS_FAIL(LS_ERR_INPUT, "--seq 0: a sequence has at least one token");
 *   exit:
 *     ...release...
 *     return status;
 *
 * A text is one line: what was named, what was found, what is allowed. */
#ifndef LS_BASE_STATUS_H
#define LS_BASE_STATUS_H

#include "lockstep/base/api.h"

LS_BEGIN_DECLS

typedef enum ls_status {
    LS_OK = 0,
    LS_DIFFERENT,       /* a comparison found a difference; not a failure of the run          */
    LS_ERR_INPUT,       /* bad option, file, shape or layout: the caller can mend it          */
    LS_ERR_MEMORY,      /* the machine has no more memory                                     */
    LS_ERR_IO,          /* the operating system refused a file                                */
    LS_ERR_RANK,        /* ranks called different collectives, or one failed or came too late */
    LS_ERR_ABORTED,     /* another rank failed first; this one was woken and gave up          */
    LS_ERR_INTERRUPTED, /* Ctrl-C                                                             */
    LS_ERR_INTERNAL     /* a promise inside the library was broken: a defect of Lockstep      */
} ls_status;

/* The exit status of a program that ends with `status`:
 * 0 done, 1 different, 2 bad input (files and memory too), 3 a rank failed, 130 interrupted. */
LS_API int ls_exit_code(ls_status status);

/* Text of this thread's last failure since ls_error_clear, without a line end; "" if none. */
LS_API const char *ls_error_text(void);

/* Where that failure was recorded, "file.c:123"; "" if none. */
LS_API const char *ls_error_place(void);

/* Forgets this thread's record. */
LS_API void ls_error_clear(void);

/* Records a failure in place of the one before and returns `status`. Use through LS_FAIL. The text
 * may be made of ls_error_text(). */
LS_API ls_status ls_error_record(ls_status status, const char *file, int line, const char *format,
                                 ...) LS_PRINTF(4, 5);

#define LS_TRY(call)                                                                               \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != LS_OK) goto exit;                                                            \
    } while (0)

#define LS_FAIL(code, ...)                                                                         \
    do {                                                                                           \
        status = ls_error_record((code), __FILE__, __LINE__, __VA_ARGS__);                         \
        goto exit;                                                                                 \
    } while (0)

LS_END_DECLS

#endif
