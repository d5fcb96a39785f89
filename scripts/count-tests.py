#!/usr/bin/env python3
"""Prints how many tests passed, failed and were skipped by a JUnit file: count-tests.py FILE [--slowest N].

A test that passed but says `SKIPPED: ` counts as skipped; what it skipped is printed to standard error. With
TRIPMETER_REQUIRE_ALL=1 that is a failure: exit code 1. A line `REDUCED: ` of a test is printed there, too: the test ran, but
this machine did not allow all of it. With --slowest the slowest tests are listed as well.
"""

import argparse
import os
import sys
import xml.etree.ElementTree as ElementTree

MARK = "SKIPPED: "
REDUCED = "REDUCED: "


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--slowest", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    passed = failed = skipped = 0
    times = []
    for case in ElementTree.parse(arguments.file).iter("testcase"):
        name = f"{case.get('classname')} {case.get('name')}"
        times.append((float(case.get("time", 0)), name))
        said = "".join(stream.text or "" for tag in ("system-out", "system-err") for stream in case.iter(tag))
        lines = {line.strip() for line in said.splitlines()}
        marks = sorted(line for line in lines if line.startswith(MARK))
        for line in sorted(line for line in lines if line.startswith(REDUCED)):
            print(f"{name}: {line}", file=sys.stderr)
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        elif marks:
            skipped += 1
            print(*marks, sep="\n", file=sys.stderr)
        else:
            passed += 1
    for seconds, name in sorted(times, reverse=True)[: arguments.slowest]:
        print(f"{seconds:7.1f} s {name}", file=sys.stderr)
    print(passed, failed, skipped)
    required = os.environ.get("TRIPMETER_REQUIRE_ALL") == "1"
    return 1 if failed or (required and skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
