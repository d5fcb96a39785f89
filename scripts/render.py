#!/usr/bin/env python3
"""Prints JSON as Markdown: scripts/render.py overhead FILE | process FILE | machine FOLDER | selftest FOLDER | checks FILE.

`overhead` and `process` print the tables in JSON files of bench/overhead/run.py and bench/process/run.py. `machine` prints
one line on the machine of a results folder. `selftest` prints the results of a kept campaign of `tripmeter selftest --full`,
and nothing if none is kept yet. `checks` prints a table from the output of `tripmeter doctor --list --json`.
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
    print_machine(manifest["started"], manifest["environment"], manifest["tripmeter_version"])


def print_machine(time, environment, version):
    kind = "a virtual machine" if environment["virtual_machine"] else "hardware"
    processors = len(environment["cpus"])
    load = environment["before"]["load_1min"]
    print(f"Measured on {time[:10]}: {environment['kernel']}, {environment['cpu_model']}, {kind} with "
          f"{processors} CPU{'s' if processors != 1 else ''}, load {load:.1f} before the start; "
          f"tripmeter {version}.")


def selftest(folder):
    if not (folder / "selftest.json").exists():
        return
    made = json.loads((folder / "selftest.json").read_text())
    if str(made["schema_version"]).split(".")[0] != "1":
        sys.exit(f"render: selftest.json has schema version {made['schema_version']}, this script reads 1")
    lines = [json.loads(line) for line in (folder / "comparisons.jsonl").read_text().split("\n")[1:-1]]
    print("| comparisons | made | called by p50 | by p99 | required | injected | estimated | detectable | rounds | time | |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for one in made["comparisons"]:
        print_phase(one, [line for line in lines if line["phase"] == one["phase"]])
    print("\nMedians over the comparisons: injected, estimated (the ratio B / A less 1), detectable (the smallest increase of the "
          "p50 that this many rounds detect 95 % of the time), rounds and time. Behind numbers of calls: the interval of their share "
          "at 95 % (Clopper and Pearson).\n")
    for one in made["overhead"]:
        low, high = one["more_interval_ns"]
        print(f"- own overhead, `{one['transport']}`: {one['rtt_median_ns'] / 1e3:.3f} µs per round trip, bare loop "
              f"{one['bare_rtt_median_ns'] / 1e3:.3f} µs; {one['more_ns']:+.0f} ns ({low:.0f}..{high:.0f}) in "
              f"{one['pairs']} pairs, limit {one['limit_ns']:.0f} ns: {mark(one)}")
    for one in made["truth"]:
        print(f"- truth, {one['what']}: {mark(one)}")
    print()
    print_machine(made["ended"], made["environment"], made["tripmeter_version"])
    for file in sorted(folder.glob("abandoned-*.jsonl")):
        print_abandoned(file)


def print_abandoned(file):
    """Line for a campaign that ended before it was complete; its verdicts are kept, too."""
    phases = {}
    for line in [json.loads(line) for line in file.read_text().split("\n")[1:-1]]:
        phases.setdefault(line["phase"], []).append(line["verdicts"])

    def called(verdicts, figure):
        return sum(one.get(figure, {}).get("verdict") in ("regressed", "improved") for one in verdicts)

    parts = [f"`{phase}` {len(verdicts)} made, {called(verdicts, 'median')} called by the p50, {called(verdicts, 'p99')} "
             "by the p99" for phase, verdicts in phases.items()]
    print(f"\nAn earlier campaign, ended before it was whole (`{file.name}`): {'; '.join(parts)}.")


def mark(one):
    return "good" if one["good"] else "**bad**"


def print_phase(one, lines):
    """One row; the counts in selftest.json are checked against the lines of the comparisons."""
    same = one["at_least"] is None
    wanted = {"regressed", "improved"} if same else {"regressed"}
    for figure, called in one["called"].items():
        counted = sum(line["verdicts"].get(figure, {}).get("verdict") in wanted for line in lines)
        if counted != called or len(lines) != one["comparisons"]:
            sys.exit(f"render: {one['phase']}: selftest.json says that {called} were called by the {figure}, "
                     f"comparisons.jsonl {counted}")

    def share(value):
        return "" if value is None else f"{value * 100:+.1f} %"

    def called(figure):
        low, high = one.get("clopper_pearson", one.get("rate_interval"))[figure]
        return f"{one['called'][figure]} ({low * 100:.1f}..{high * 100:.1f} %)"

    required = f"at most {one['at_most']}" if same else f"at least {one['at_least']}"
    failed = f"; {one['failed']} with failures" if one["failed"] else ""
    seen = share(one["seen_from"] - 1) if one["seen_from"] else "-"
    print(f"| {one['what']} | {one['comparisons']}{failed} | {called('median')} | {called('p99') if same else ''} | {required} "
          f"| {share(one['injected'])} | {share(one['estimated'])} | {seen} | {one['rounds']:.0f} | {one['seconds']:.1f} s "
          f"| {mark(one)} |")


def checks(file):
    def cell(text):
        return text.replace("|", "\\|")

    def code(text):
        return f"`{cell(text)}`" if text else ""

    print("| check | reads | levels | what would fix it |\n| --- | --- | --- | --- |")
    for check in json.loads(file.read_text()):
        print(f"| {code(check['name'])} | {cell(check['source'])} | {cell(check['limit'])} | {code(check['fix'])} |")


def main():
    views = {"overhead": overhead, "process": process, "machine": machine, "selftest": selftest, "checks": checks}
    if len(sys.argv) != 3 or sys.argv[1] not in views:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 64
    views[sys.argv[1]](Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
