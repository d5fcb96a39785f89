#!/usr/bin/env python3
"""Prints the table of a JSON file that bench/overhead/run.py wrote: scripts/overhead-table.py FILE."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench" / "overhead"))
import run  # noqa: E402


def main():
    document = json.loads(Path(sys.argv[1]).read_text())
    options, summary = document["options"], document["summary"]
    if options["flatness"]:
        run.print_flatness(summary["systems"], summary["verdict"])
    else:
        run.print_pairs(summary, "Bare again" if options["control"] else "Tripmeter")
    print(f"\n{options['pairs']} rounds of {options['samples']} samples each; seed {options['seed']}.")


if __name__ == "__main__":
    main()
