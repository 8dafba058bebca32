#include "step_graph/tensor_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/model/step_tensors.h"

/* Reads WORD, digits (no more zeros than needed) and a slash; NULL: it does not begin so. */
static const char *numbered(const char *text, const char *word, uint64_t most, uint64_t *ret_number)
{
    const size_t length = strlen(word);
    uint64_t number = 0;
    if (strncmp(text, word, length) != 0) return NULL;
    text += length;
    if (text[0] == '0' && text[1] != '/') return NULL;
    const char *first = text;
    for (; *text >= '0' && *text <= '9'; text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        if (number > (most - digit) / 10) return NULL;
        number = 10 * number + digit;
    }
    if (text == first || *text != '/') return NULL;
    *ret_number = number;
    return text + 1;
}

ls_tensor_name ls_tensor_name_parse(const char *text)
{
    ls_tensor_name name = {false, 0, -1, false, text};
    uint64_t number;
    const char *behind = numbered(name.rest, "step", UINT64_MAX, &number);
    if (behind) {
        name.has_step = true;
        name.step = number;
        name.rest = behind;
    }
    behind = numbered(name.rest, "mb", INT32_MAX, &number);
    if (behind) {
        name.micro_batch = (int)number;
        name.rest = behind;
    }
    const char *ending = strrchr(name.rest, '.');
    for (int c = LS_COMM_NONE + 1; ending && c < LS_COMM_KINDS; c++)
        name.comm |= strcmp(ending + 1, ls_comm_kind_name((ls_comm_kind)c)) == 0;
    return name;
}

void ls_tensor_name_write(char name[LS_TENSOR_NAME], uint64_t step, int micro_batch,
                          const char *rest)
{
    if (micro_batch < 0)
        snprintf(name, LS_TENSOR_NAME, "step%" PRIu64 "/%s", step, rest);
    else
        snprintf(name, LS_TENSOR_NAME, "step%" PRIu64 "/mb%d/%s", step, micro_batch, rest);
}
