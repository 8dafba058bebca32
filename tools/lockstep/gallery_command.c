/* gallery_command.c - hands over to lockstep-gallery, in which mistakes can be switched on: the
 * program itself has no place for one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include "command.h"
#include "base/allocate.h"

enum { PATH_ROOM = 4096 };
static const char name[] = "lockstep-gallery";

/* The folder that this program is in, with a slash at its end; "": unknown. */
static void own_folder(char folder[PATH_ROOM])
{
    char path[PATH_ROOM] = "";
#ifdef __APPLE__
    uint32_t room = PATH_ROOM;
    char given[PATH_ROOM];
    if (_NSGetExecutablePath(given, &room) != 0 || !realpath(given, path)) path[0] = '\0';
#else
    ssize_t length = readlink("/proc/self/exe", path, PATH_ROOM - 1);
    path[length > 0 ? length : 0] = '\0';
#endif
    char *end = strrchr(path, '/');
    if (end) end[1] = '\0';
    memcpy(folder, path, end ? strlen(path) + 1 : 1);
    if (!end) folder[0] = '\0';
}

ls_status gallery_command(const command_spec *command, int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    char folder[PATH_ROOM], path[PATH_ROOM + 64];
    const char **words = NULL;
    LS_ROOM(words, (size_t)argc + 3);
    words[0] = name;
    words[1] = command->name;
    for (int i = 0; i < argc; i++) words[2 + i] = argv[i];
    words[2 + argc] = NULL;
    fflush(stdout);

    /* Next to the program, as in the build tree; below the same prefix; where it was to be
     * installed.
     */
    own_folder(folder);
    const struct {
        const char *folder, *below;
    } places[] = {{folder, ""}, {folder, "../libexec/"}, {LOCKSTEP_LIBEXEC "/", ""}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (*places[i].folder == '\0') continue;
        snprintf(path, sizeof path, "%s%s%s", places[i].folder, places[i].below, name);
        /* The words stay as they are: execv promises that. */
        execv(path, (char *const *)(uintptr_t)words);
        if (errno != ENOENT && errno != ENOTDIR)
            LS_FAIL(LS_ERR_IO, "%s cannot be run: %s", ls_show(path), ls_show_errno(errno));
    }
    LS_FAIL(LS_ERR_INPUT,
            "%s is missing: it is installed with this program, in %s, and stands beside it in the "
            "build tree; meson compile %s makes it there",
            name, LOCKSTEP_LIBEXEC, name);
exit:
    free(words);
    return status;
}
