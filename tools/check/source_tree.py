"""What the checks share: the files of the project and how a check reports."""
import os
import sys

TOP_LEVEL = ["lib", "include", "apps", "test", "tools", ".ci"]


def files(root):
    """Every file of the project, as paths below root, in order."""
    found = [name for name in os.listdir(root)
             if os.path.isfile(os.path.join(root, name)) and name != ".git"]
    for top in TOP_LEVEL:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def finish(name, faults, looked_at):
    """Prints the faults; the exit status of the check. A check that looked at nothing fails."""
    if looked_at == 0:
        faults = faults + ["found nothing to look at"]
    for fault in faults:
        print(f"{name}: {fault}")
    if not faults:
        print(f"{name}: {looked_at} looked at, no fault")
    sys.exit(1 if faults else 0)
