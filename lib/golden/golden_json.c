#include "golden/golden_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_text.h"
#include "lockstep/base/show.h"
#include "base/append.h"

static const json_t *get(const ls_json_at *at, const char *key)
{
    return json_object_get(at->object, key);
}

ls_status ls_json_refuse(const ls_json_at *at, const char *key, const char *allowed)
{
    const json_t *value = get(at, key);
    if (!value)
        return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__, "%s: %s%s is missing; it is %s",
                               ls_show(at->file), at->path, key, allowed);
    return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__, "%s: %s%s %s: must be %s",
                           ls_show(at->file), at->path, key, ls_json_show(value), allowed);
}

ls_status ls_json_string(const ls_json_at *at, const char *key, const char **ret)
{
    const json_t *value = get(at, key);
    if (!json_is_string(value)) return ls_json_refuse(at, key, "a string");
    *ret = json_string_value(value);
    return LS_OK;
}

ls_status ls_json_count(const ls_json_at *at, const char *key, uint64_t least, uint64_t most,
                        uint64_t *ret)
{
    const json_t *value = get(at, key);
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number < least ||
        (uint64_t)number > most) {
        char allowed[96];
        snprintf(allowed, sizeof allowed, "a whole number from %" PRIu64 " to %" PRIu64, least,
                 most);
        return ls_json_refuse(at, key, allowed);
    }
    *ret = (uint64_t)number;
    return LS_OK;
}

ls_status ls_json_int(const ls_json_at *at, const char *key, int least, int most, int *ret)
{
    ls_status status = LS_OK;
    uint64_t number = 0;
    LS_TRY(ls_json_count(at, key, (uint64_t)least, (uint64_t)most, &number));
    *ret = (int)number;
exit:
    return status;
}

ls_status ls_json_real(const ls_json_at *at, const char *key, double *ret)
{
    const json_t *value = get(at, key);
    const double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= 0) || !isfinite(number))
        return ls_json_refuse(at, key, "a number from 0 on");
    *ret = number;
    return LS_OK;
}

ls_status ls_json_real_or_null(const ls_json_at *at, const char *key, double absent, double *ret)
{
    const json_t *value = get(at, key);
    if (json_is_null(value)) {
        *ret = absent;
        return LS_OK;
    }
    if (!json_is_number(value) || !(json_number_value(value) >= 0))
        return ls_json_refuse(at, key, "a number from 0 on, or null where nothing is known");
    *ret = json_number_value(value);
    return LS_OK;
}

ls_status ls_json_flag(const ls_json_at *at, const char *key, bool *ret)
{
    const json_t *value = get(at, key);
    if (!json_is_boolean(value)) return ls_json_refuse(at, key, "true or false");
    *ret = json_is_true(value);
    return LS_OK;
}

ls_status ls_json_choice(const ls_json_at *at, const char *key, const char *const *words,
                         int n_words, int *ret)
{
    const char *word = json_string_value(get(at, key));
    char allowed[200] = "";
    size_t used = 0;
    for (int i = 0; word && i < n_words; i++) {
        if (strcmp(word, words[i]) != 0) continue;
        *ret = i;
        return LS_OK;
    }
    for (int i = 0; i < n_words && used < sizeof allowed; i++)
        used = ls_append(allowed, sizeof allowed, used, "%s\"%s\"",
                         ls_or((size_t)i, (size_t)n_words), words[i]);
    return ls_json_refuse(at, key, allowed);
}

ls_status ls_json_object(const ls_json_at *at, const char *key, const json_t **ret)
{
    const json_t *value = get(at, key);
    if (!json_is_object(value)) return ls_json_refuse(at, key, "an object {...}");
    *ret = value;
    return LS_OK;
}

ls_status ls_json_array(const ls_json_at *at, const char *key, const json_t **ret)
{
    const json_t *value = get(at, key);
    if (!json_is_array(value)) return ls_json_refuse(at, key, "an array [...]");
    *ret = value;
    return LS_OK;
}

ls_status ls_json_sha256(const ls_json_at *at, const char *key, const char **ret)
{
    const char *text = json_string_value(get(at, key));
    if (!text || strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64)
        return ls_json_refuse(at, key, "a SHA-256 of 64 lower-case hexadecimal digits");
    *ret = text;
    return LS_OK;
}
