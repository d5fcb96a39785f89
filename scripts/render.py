#!/usr/bin/env python3
"""Prints parts of committed results as Markdown: scripts/render.py overhead FILE | machine FOLDER.

`overhead` is the table of a JSON file of bench/overhead/run.py; `machine` says in one line where a results folder was made.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench" / "overhead"))
import run  # noqa: E402


def overhead(file):
    document = json.loads(file.read_text())
    options, summary = document["options"], document["summary"]
    if options["flatness"]:
        run.print_flatness(summary["systems"], summary["verdict"])
    else:
        run.print_pairs(summary, "Bare again" if options["control"] else "Tripmeter")
    print(f"\n{options['pairs']} rounds of {options['samples']} samples each; seed {options['seed']}.")


def machine(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    environment = manifest["environment"]
    kind = "a virtual machine" if environment["virtual_machine"] else "hardware"
    processors = len(environment["cpus"])
    load = environment["before"]["load_1min"]
    print(f"Measured on {manifest['started'][:10]}: {environment['kernel']}, {environment['cpu_model']}, {kind} with "
          f"{processors} processor{'s' if processors != 1 else ''}, load {load:.1f} before the start; "
          f"tripmeter {manifest['tripmeter_version']}.")


def main():
    views = {"overhead": overhead, "machine": machine}
    if len(sys.argv) != 3 or sys.argv[1] not in views:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 64
    views[sys.argv[1]](Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
