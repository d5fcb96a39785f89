#!/usr/bin/env python3
"""Compares `tripmeter eprosima process` with pandas and numpy on the same files, without plots on either side.

    python3 -m venv venv && venv/bin/pip install -r bench/process/requirements.txt
    venv/bin/python bench/process/run.py --tripmeter target/release/tripmeter --output docs/results/process.json

One file of 1.1 million rows, and an experiment of ten such files. Both programs run in turn, in random order, on files that
are in the page cache. Times are of whole processes; for pandas also without the start of the interpreter and the imports,
compared with tripmeter's whole process. The summaries of both must be the same to the byte.

Exit code: 0 all aims met, 1 some not met, 69 something is missing, 70 the summaries differ.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Name, number of files, and the target: how many times faster tripmeter must be as a whole process.
CASES = {"one": ("one file", 1, 20), "ten": ("experiment of ten files", 10, 15)}
# Times of the baseline that are compared with tripmeter's whole process; the targets apply to the first.
TIMES = ("wall_s", "inside_s")


def timed(command):
    """Runs a command; returns its output, wall and CPU seconds, and peak memory in bytes."""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{command[0]}: exit code {child.returncode}")
    return output, {"wall_s": wall_s, "cpu_s": usage.ru_utime + usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024}


def run_tripmeter(options, files):
    if len(files) == 1:
        places = ["-c", files[0], "-o", files[0].with_name(files[0].stem + "_summary.csv")]
    else:
        places = [files[0].parent]
    return timed([str(options.tripmeter), "eprosima", "process", *map(str, places)])[1]


def run_baseline(_, files):
    """One run of pandas and numpy, with the seconds after their import."""
    output, figures = timed([sys.executable, str(HERE / "baseline.py"), *map(str, files)])
    return figures | {"inside_s": float(output)}


SIDES = {"tripmeter": run_tripmeter, "baseline": run_baseline}


def check_same(files):
    """Exits if the summaries of both differ."""
    for file in files:
        ours = file.with_name(file.stem + "_summary.csv").read_bytes()
        if ours != file.with_name(f"baseline_{file.name}").read_bytes():
            print(f"the summaries of '{file}' differ", file=sys.stderr)
            sys.exit(70)


def measure(options, shuffle, files):
    """The rounds of one case: a list of figures by side."""
    for side in SIDES.values():
        side(options, files)
    check_same(files)
    rounds = []
    for index in range(options.rounds):
        order = shuffle.sample(sorted(SIDES), len(SIDES))
        figures = {side: SIDES[side](options, files) for side in order}
        rounds.append({side: figures[side] for side in SIDES})
        print(f"round {index + 1} of {options.rounds}: " + ", ".join(
            f"{side} {figures['wall_s'] * 1000:.1f} ms" for side, figures in rounds[-1].items()), file=sys.stderr)
    return rounds


def generate(options, folder, files):
    """Makes the files in a separate process: the memory of a parent would count as a child's peak."""
    command = [sys.executable, HERE / "generate.py", folder, "--files", files, "--payloads", options.payloads,
               "--samples", options.samples, "--numbers", options.numbers]
    made = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [Path(line) for line in made.splitlines()]


def ratios(rounds, key):
    """Sorted ratios of the baseline's time to tripmeter's, one per round."""
    return sorted(entry["baseline"][key] / entry["tripmeter"]["wall_s"] for entry in rounds)


def print_table(document):
    print("| | pandas, numpy | tripmeter | times faster, whole process | without interpreter start | peak memory | aim |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for case, rounds in document["rounds"].items():
        name, files, aim = CASES[case]
        middle = {side: statistics.median(entry[side]["wall_s"] for entry in rounds) for side in SIDES}
        inside = statistics.median(entry["baseline"]["inside_s"] for entry in rounds)
        peak = {side: max(entry[side]["peak_bytes"] for entry in rounds) / 2**20 for side in SIDES}
        cells = [f"{statistics.median(found):.1f} ({found[0]:.1f} to {found[-1]:.1f})"
                 for found in (ratios(rounds, key) for key in TIMES)]
        rows = files * document["options"]["payloads"] * document["options"]["samples"]
        print(f"| {name}, {rows / 1e6:.1f} million rows | {middle['baseline'] * 1000:.0f} ms, {inside * 1000:.0f} ms without "
              f"start | {middle['tripmeter'] * 1000:.1f} ms | {' | '.join(cells)} | {peak['baseline']:.0f} and "
              f"{peak['tripmeter']:.0f} MiB | {aim} |")
    machine, versions = document["machine"], document["versions"]
    print(f"\nMedian of {document['options']['rounds']} rounds (least to most), {machine['cpus']} CPUs "
          f"({machine['cpu_model']}), load {machine['load_1min']:.1f} before the start; {versions['tripmeter']}, Python "
          f"{versions['python']}, pandas {versions['pandas']}, numpy {versions['numpy']}.")


def met(document):
    """Prints the median ratios of whole processes and their targets; true if all are reached."""
    is_met = True
    for case, rounds in document["rounds"].items():
        name, _, aim = CASES[case]
        times = statistics.median(ratios(rounds, "wall_s"))
        is_met &= times >= aim
        print(f"{name}, whole process: {times:.1f} times faster, aim {aim}: {'met' if times >= aim else 'NOT MET'}",
              file=sys.stderr)
    return is_met


def cpu_model():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tripmeter", type=Path, default=ROOT / "target/release/tripmeter")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--payloads", type=int, default=11)
    parser.add_argument("--samples", type=int, default=100_000, help="per payload")
    parser.add_argument("--numbers", choices=["ours", "latencytest"], default="ours")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random order")
    parser.add_argument("--output", type=Path, help="file for everything measured, as JSON")
    return parser.parse_args()


def main():
    options = arguments()
    try:
        versions = {name: importlib.metadata.version(name) for name in ("pandas", "numpy")}
        said = subprocess.run([options.tripmeter, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, importlib.metadata.PackageNotFoundError) as error:
        print(f"something is missing: {error}", file=sys.stderr)
        return 69
    machine = {"cpus": len(os.sched_getaffinity(0)), "cpu_model": cpu_model(), "load_1min": os.getloadavg()[0]}
    rounds = {}
    with tempfile.TemporaryDirectory(prefix="tripmeter-process-") as scratch:
        for case, (_, files, _) in CASES.items():
            rounds[case] = measure(options, random.Random(options.seed), generate(options, Path(scratch) / case, files))
    document = {
        "options": {key: getattr(options, key) for key in ("rounds", "payloads", "samples", "numbers", "seed")},
        "versions": versions | {"python": platform.python_version(), "tripmeter": said},
        "machine": machine, "rounds": rounds,
    }
    if options.output:
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    print_table(document)
    return 0 if met(document) else 1


if __name__ == "__main__":
    sys.exit(main())
