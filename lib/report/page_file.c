#include "report/page_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/new_file.h"
#include "io/unfinished.h"
#include "lockstep/base/show.h"
#include "base/allocate.h"

struct ls_page {
    char *folder;
    ls_new_file *file;
    bool made_folder; /* and nothing is in it yet */
    int listed;       /* then its place among the unfinished */
};

/* 0; 1 with errno; -1: the program is ending. */
static int make_folder(ls_page *page)
{
    sigset_t mask;
    if (!ls_names_hold(&mask)) return -1;
    page->made_folder = mkdir(page->folder, 0777) == 0;
    const int error = errno;
    if (page->made_folder) page->listed = ls_unfinished_list(page->folder);
    ls_names_release(&mask);
    errno = error;
    return page->made_folder ? 0 : 1;
}

ls_status ls_page_open(ls_page **ret_page, const char *folder)
{
    ls_status status = LS_OK;
    struct stat there;
    char *path = NULL;
    size_t size = strlen(folder) + sizeof "/index.html";
    ls_page *page = NULL;
    LS_NEW(page, 1);
    page->listed = -1;
    LS_COPY(page->folder, folder);
    LS_ROOM(path, size);
    snprintf(path, size, "%s/index.html", page->folder);
    const int made = make_folder(page);
    if (made < 0)
        LS_FAIL(LS_ERR_IO, "--report %s: cannot be written: the program is ending",
                ls_show(folder));
    if (made > 0 && errno != EEXIST)
        LS_FAIL(LS_ERR_IO, "--report %s: the folder cannot be made: %s", ls_show(folder),
                ls_show_errno(errno));
    if (made > 0 && stat(folder, &there) == 0 && !S_ISDIR(there.st_mode))
        LS_FAIL(LS_ERR_INPUT, "--report %s: a file of this name is there; a folder is needed",
                ls_show(folder));
    LS_TRY(ls_new_file_create(&page->file, path));
    *ret_page = page;
    page = NULL;
exit:
    free(path);
    ls_page_close(&page);
    return status;
}

ls_status ls_page_commit(ls_page *page, const ls_report *report)
{
    ls_status status = LS_OK;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) LS_NO_MEMORY("the report's page");
    LS_TRY(ls_page_write(stream, report));
    int failed = ferror(stream);
    if (fclose(stream) != 0) failed = 1;
    stream = NULL;
    if (failed != 0) LS_NO_MEMORY("the report's page");
    LS_TRY(ls_new_file_write(page->file, text, size));
    LS_TRY(ls_new_file_commit(page->file));
    page->made_folder = false;
exit:
    if (stream != NULL) fclose(stream);
    free(text);
    return status;
}

void ls_page_close(ls_page **page)
{
    ls_page *p = *page;
    if (p == NULL) return;
    ls_new_file_destroy(&p->file);
    if (p->made_folder) rmdir(p->folder);
    if (ls_unfinished_take_off(p->listed, p->folder)) free(p->folder);
    free(p);
    *page = NULL;
}
