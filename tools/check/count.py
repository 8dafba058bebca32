#!/usr/bin/env python3
"""Counts the results in meson's log of a test run: count.py TESTLOG.json MESON_STATUS

Prints the names of what failed and, last, one line alone: N passed, N failed (, N skipped).
Exit status 0 only if something passed, nothing failed and meson itself ended with 0.
"""
import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


def main():
    path, meson_status = sys.argv[1], int(sys.argv[2])
    passed, failed, skipped = [], [], []
    try:
        with open(path, encoding="utf-8") as log:
            for line in log:
                if not line.strip():
                    continue
                test = json.loads(line)
                result = test["result"]
                which = passed if result in PASSED else skipped if result in SKIPPED else failed
                which.append((test["name"], result))
    except (OSError, ValueError, KeyError) as error:
        print(f"lockstep: no complete log of the tests: {error}", file=sys.stderr)
        failed.append(("the log of the tests", "MISSING"))
    for name, result in failed:
        print(f"lockstep: {result}: {name}")
    if meson_status != 0 and not failed:
        print(f"lockstep: meson test ended with {meson_status}")
        failed.append(("meson test", "ERROR"))
    print(f"{len(passed)} passed, {len(failed)} failed" +
          (f", {len(skipped)} skipped" if skipped else ""))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
