#!/usr/bin/env python3
"""Counts the results in meson's log of a test run: count.py TESTLOG.json MESON_STATUS

Prints the names of what failed and of what was skipped, cases inside a program too (its lines
"skipped: ..."), and, last, one line: N passed, N failed (, N skipped).
Exit status 0 only if something passed, nothing failed and meson itself ended with 0.
"""
import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


def main():
    path, meson_status = sys.argv[1], int(sys.argv[2])
    passed, failed, skipped, cases = [], [], [], []
    try:
        with open(path, encoding="utf-8") as log:
            for line in log:
                if not line.strip():
                    continue
                test = json.loads(line)
                result = test["result"]
                which = passed if result in PASSED else skipped if result in SKIPPED else failed
                which.append((test["name"], result))
                cases += [(test["name"], line[len("skipped: "):])
                          for line in test.get("stdout", "").splitlines()
                          if line.startswith("skipped: ")]
    except (OSError, ValueError, KeyError) as error:
        print(f"lockstep: no complete log of the tests: {error}", file=sys.stderr)
        failed.append(("the log of the tests", "MISSING"))
    for name, result in failed:
        print(f"lockstep: {result}: {name}")
    if meson_status != 0 and not failed:
        print(f"lockstep: meson test ended with {meson_status}")
        failed.append(("meson test", "ERROR"))
    for name, why in cases:
        print(f"lockstep: skipped in {name}: {why}")
    named = {name for name, _ in cases}
    for name, result in skipped:
        if name not in named:
            print(f"lockstep: {result}: {name}")
    count = len(cases) + sum(name not in named for name, _ in skipped)
    print(f"{len(passed)} passed, {len(failed)} failed" + (f", {count} skipped" if count else ""))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
