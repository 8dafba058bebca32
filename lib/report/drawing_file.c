#include "report/drawing_file.h"

#include <stdlib.h>

#include "io/new_file.h"
#include "lockstep/pipeline/drawing.h"

ls_status ls_drawing_file(const char *path, ls_draw draw, const void *context)
{
    ls_status status = LS_OK;
    ls_new_file *file = NULL;
    char *bytes = NULL;
    size_t count = 0;
    FILE *memory = open_memstream(&bytes, &count);
    if (memory == NULL) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to draw");
    status = draw(memory, context);
    if (fclose(memory) != 0 && status == LS_OK)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to draw");
    LS_TRY(status);
    LS_TRY(ls_new_file_create(&file, path));
    LS_TRY(ls_new_file_write(file, bytes, count));
    LS_TRY(ls_new_file_commit(file));
exit:
    ls_new_file_destroy(&file);
    free(bytes);
    return status;
}

typedef struct titled {
    const ls_timeline *timeline;
    const char *title;
} titled;

static ls_status draw_timeline(FILE *file, const void *context)
{
    const titled *t = context;
    return ls_svg_timeline(file, t->timeline, t->title);
}

ls_status ls_timeline_file(const char *path, const ls_timeline *timeline, const char *title)
{
    return ls_drawing_file(path, draw_timeline, &(titled){timeline, title});
}
