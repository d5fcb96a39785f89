#!/usr/bin/env python3
"""Compares the machine code of the measuring loops in two release builds: loops.py OLD NEW.

A loop is each instance of the functions in LOOPS, over all links, clocks and waits. Addresses are left out, and hashes of
names. Exits with 1 and prints the loops that differ, with their numbers of
instructions; `--print NAME` prints the first instance that differs, as a diff. Needs objdump (Debian: binutils).
"""

import argparse
import collections
import difflib
import re
import subprocess
import sys

HEAD = re.compile(r"^<(.*)>:$")
# All that runs while messages are in flight.
LOOPS = re.compile(r"^tripmeter_engine::measure::(callback|calls|echo|logging|publish|sink|stream|trips)::")
HASH = re.compile(r"::h[0-9a-f]{16}\b")
ADDRESS = re.compile(r"\b(0x)?[0-9a-f]{4,}\b")


def loops(program: str) -> dict[str, list[list[str]]]:
    """Instructions of each loop, by its name, in a stable order of instances."""
    command = ["objdump", "-d", "--demangle=rust", "--no-show-raw-insn", "--no-addresses", program]
    found: dict[str, list[list[str]]] = collections.defaultdict(list)
    body: list[str] | None = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or []:
            head = HEAD.match(line)
            if head:
                name = HASH.sub("", head[1])
                body = [] if LOOPS.search(name) else None
                if body is not None:
                    found[name].append(body)
            elif body is not None and line.strip():
                body.append(ADDRESS.sub("A", HASH.sub("", line.strip())))
    if process.returncode:
        sys.exit(f"loops.py: objdump of {program} ended with {process.returncode}")
    return {name: sorted(bodies) for name, bodies in found.items()}


def main() -> int:
    """Prints the loops that differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--print", metavar="NAME", help="print the difference of the first loop whose name has this in it")
    args = parser.parse_args()
    old, new = loops(args.old), loops(args.new)
    if not old or not new:
        sys.exit("loops.py: no loop was found; give programs with symbols, of a release build")
    differing = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    for name in differing:
        counts = [collections.Counter(map(tuple, bodies.get(name, []))) for bodies in (old, new)]
        gone, come = (sorted(map(len, (counts[i] - counts[1 - i]).elements())) for i in (0, 1))
        print(f"{name}: instances of {gone} instructions are of {come}")
    for name in [name for name in differing if args.print and args.print in name][:1]:
        before = next((body for body in old.get(name, []) if body not in new.get(name, [])), [])
        after = next((body for body in new.get(name, []) if body not in old.get(name, [])), [])
        print("\n".join(difflib.unified_diff(before, after, "old", "new", lineterm="")))
    print(f"{len(old)} loops, {len(differing)} differ")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
