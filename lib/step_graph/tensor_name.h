/* tensor_name.h - names of tensors in files: "step0/layers.0.query", "step0/mb1/d.layers.0.query".
 */
#ifndef LS_STEP_GRAPH_TENSOR_NAME_H
#define LS_STEP_GRAPH_TENSOR_NAME_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

enum { LS_TENSOR_NAME = 176 };

typedef struct ls_tensor_name {
    bool has_step;
    uint64_t step;
    int micro_batch;  /* -1: not said */
    bool comm;        /* ends in ".partial", ".total", ...: what crossed ranks (observer.h) */
    const char *rest; /* inside the text that was parsed; with such an ending, if it has one */
} ls_tensor_name;

/* Takes a name apart; what is no prefix is part of `rest`. */
ls_tensor_name ls_tensor_name_parse(const char *text);
/* micro_batch: -1: none. */
void ls_tensor_name_write(char name[LS_TENSOR_NAME], uint64_t step, int micro_batch,
                          const char *rest);

#endif
