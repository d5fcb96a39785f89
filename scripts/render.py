#!/usr/bin/env python3
"""Prints JSON as Markdown: scripts/render.py overhead FILE | process FILE | machine FOLDER | checks FILE.

`overhead` and `process` are the tables of JSON files of bench/overhead/run.py and bench/process/run.py; `machine` says in
one line where a results folder was made; `checks` is the table of what `tripmeter doctor --list --json` prints.
"""

import importlib.util
import json
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent / "bench"


def bench(name):
    """The module bench/NAME/run.py."""
    sys.path.insert(0, str(BENCH / name))
    spec = importlib.util.spec_from_file_location(f"{name}_run", BENCH / name / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def overhead(file):
    run, document = bench("overhead"), json.loads(file.read_text())
    options, summary = document["options"], document["summary"]
    if options["flatness"]:
        run.print_flatness(summary["systems"], summary["verdict"])
    else:
        run.print_pairs(summary, "Bare again" if options["control"] else "Tripmeter")
    print(f"\n{options['rounds']} rounds of {options['samples']} samples each; seed {options['seed']}.")


def process(file):
    bench("process").print_table(json.loads(file.read_text()))


def machine(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    environment = manifest["environment"]
    kind = "a virtual machine" if environment["virtual_machine"] else "hardware"
    processors = len(environment["cpus"])
    load = environment["before"]["load_1min"]
    print(f"Measured on {manifest['started'][:10]}: {environment['kernel']}, {environment['cpu_model']}, {kind} with "
          f"{processors} processor{'s' if processors != 1 else ''}, load {load:.1f} before the start; "
          f"tripmeter {manifest['tripmeter_version']}.")


def checks(file):
    def cell(text):
        return text.replace("|", "\\|")

    def code(text):
        return f"`{cell(text)}`" if text else ""

    print("| check | reads | levels | what would mend or better it |\n| --- | --- | --- | --- |")
    for check in json.loads(file.read_text()):
        print(f"| {code(check['name'])} | {cell(check['source'])} | {cell(check['limit'])} | {code(check['fix'])} |")


def main():
    views = {"overhead": overhead, "process": process, "machine": machine, "checks": checks}
    if len(sys.argv) != 3 or sys.argv[1] not in views:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 64
    views[sys.argv[1]](Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
