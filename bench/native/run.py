#!/usr/bin/env python3
"""Compares Tripmeter with each system's own measuring tool, or a minimal loop on its interface, run in turns.

Standard library only. A table goes to stdout as Markdown, progress to stderr, all measurements to --output. Each file
of references/ is one system; new files are found automatically (see references/common.py).

  bench/native/run.py                          all systems whose plugin and tool are installed
  bench/native/run.py --systems cyclonedds --rounds 5 --payloads 1k 64k
  bench/native/run.py --table docs/results/native.json

Exit code: 0 everything measured, 69 something is missing, 75 some runs failed, 130 interrupted.
"""

import argparse
import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

from references.common import RunFailed, call, parse_payload, payload_name  # noqa: E402


def references(names):
    """The modules of references/, by system, in the order of their names."""
    found = sorted(file.stem for file in (HERE / "references").glob("*.py") if file.stem not in ("__init__", "common"))
    unknown = sorted(set(names or []) - set(found))
    if unknown:
        sys.exit(f"unknown system {', '.join(unknown)}; there are {', '.join(found)}")
    return {name: importlib.import_module(f"references.{name}") for name in found if not names or name in names}


# With these, glibc's malloc keeps freed memory instead of returning it to the system and faulting it in again
# (mallopt(3)). Otherwise large messages cost different times in programs that free in different orders.
KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}
SIDES = ("native_ns", "tripmeter_ns", "native_kept_ns", "tripmeter_kept_ns")


@contextlib.contextmanager
def environment(values):
    """Context in which started programs get these environment variables."""
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


def confined_halves(options, arguments, scratch):
    """Starts leader and follower, each with all its threads on one CPU. Returns the leader's output."""
    separate = {**os.environ, "TMPDIR": scratch}
    follower = subprocess.Popen(["taskset", "-c", str(options.follower_cpu), str(options.tripmeter), "follow"],
                                env=separate, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return call(["taskset", "-c", str(options.leader_cpu), str(options.tripmeter), "ping", *arguments, "--rendezvous",
                     "--leader-cpu", "none", "--follower-cpu", "none"], env=separate)
    finally:
        try:
            follower.wait(timeout=10)
        except subprocess.TimeoutExpired:
            follower.kill()
            follower.wait()


def run_tripmeter(options, cell, payload_bytes):
    """Median rtt_half of one run of Tripmeter, in nanoseconds."""
    with tempfile.TemporaryDirectory(prefix="tripmeter-native-") as scratch:
        arguments = [
            cell["transport"], "--wait", cell["wait"], "--touch", "none",
            "--payloads", payload_name(payload_bytes), "-n", str(options.samples), "--warmup", str(options.warmup),
            "--no-floor", "--raw", "none", "-o", str(Path(scratch) / "results"), "--json", "--quiet",
        ]
        if cell["confined"]:
            output = confined_halves(options, arguments, scratch)
        else:
            output = call([str(options.tripmeter), "ping", *arguments,
                           "--leader-cpu", str(options.leader_cpu), "--follower-cpu", str(options.follower_cpu)])
    document = json.loads(output)
    try:
        [result] = document.get("manifest", document)["sub_experiments"]
        [measured] = result["cells"]
        return measured["trials"][0]["streams"]["all"]["rtt_half_ns"]["p50"]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise RunFailed(f"tripmeter's JSON has no such cell ({error!r})") from None


def measure_pair(options, module, cell, rng):
    """Runs the reference and Tripmeter, each also with freed memory kept, in random order."""
    record = {**cell, "error": None}
    try:
        for side in rng.sample(SIDES, len(SIDES)):
            with environment(KEEPING if "kept" in side else {}):
                run = run_tripmeter if side.startswith("tripmeter") else module.run
                record[side] = run(options, cell, cell["payload_bytes"])
    except RunFailed as failure:
        record["error"] = str(failure)
        print(f"failed: {failure}", file=sys.stderr)
    return record


def is_chosen(options, cell):
    return cell["transport"] in (options.transports or [cell["transport"]]) and \
        cell["wait"] in (options.waits or [cell["wait"]])


@contextlib.contextmanager
def surroundings(options, modules):
    """Context for all runs with what the references need, such as a daemon."""
    with contextlib.ExitStack() as stack:
        for module in modules.values():
            if hasattr(module, "surroundings"):
                stack.enter_context(module.surroundings(options))
        yield


def measure(options, modules, rng):
    """Measures every cell once per round, in random order. Returns the records, and how many were planned."""
    cells = [{**cell, "system": name, "payload_bytes": payload} for name, module in modules.items()
             for cell in module.CELLS for payload in options.payloads if is_chosen(options, cell)]
    records, total = [], options.rounds * len(cells)
    print(f"{options.rounds} rounds of {len(cells)} pairs", file=sys.stderr, flush=True)
    try:
        for number in range(1, options.rounds + 1):
            for cell in rng.sample(cells, len(cells)):
                records.append({"round": number, **measure_pair(options, modules[cell["system"]], cell, rng)})
                print(f"{len(records)} of {total} pairs", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    return records, total


def ratio_of(pairs, kind):
    """Ratio of Tripmeter to the reference over the pairs: median, least and greatest."""
    ratios = [pair[f"tripmeter_{kind}"] / pair[f"native_{kind}"] for pair in pairs]
    return {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}


def summarise(records):
    """One row per cell: medians over rounds, and the range of the pairs' ratios."""
    def key(record):
        return record["system"], record["transport"], record["wait"], record["native"], record["payload_bytes"]

    rows = []
    for cell in sorted({key(record) for record in records}):
        pairs = [record for record in records if key(record) == cell]
        good = [record for record in pairs if record["error"] is None]
        row = dict(zip(("system", "transport", "wait", "native", "payload_bytes"), cell))
        row |= {"pairs": len(good), "failed": len(pairs) - len(good), "ratio": None}
        if good:
            row |= {side: statistics.median(pair[side] for pair in good) for side in SIDES}
            row |= {"ratio": ratio_of(good, "ns"), "kept_ratio": ratio_of(good, "kept_ns")}
        rows.append(row)
    return rows


def shown(row, kind, ratio):
    return (f"{row[f'native_{kind}'] / 1000:.3f} | {row[f'tripmeter_{kind}'] / 1000:.3f} | {ratio['median']:.2f} | "
            f"{ratio['min']:.2f}..{ratio['max']:.2f}")


def print_table(document):
    print("| Transport | Wait | Payload | Against | Its own [µs] | Tripmeter [µs] | Ratio | Range "
          "| Kept: its own [µs] | Tripmeter [µs] | Ratio | Range | Pairs |\n"
          "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in document["summary"]:
        figures = " | ".join("-" * 8)
        if row["ratio"]:
            figures = f"{shown(row, 'ns', row['ratio'])} | {shown(row, 'kept_ns', row['kept_ratio'])}"
        failed = f" + {row['failed']} failed" if row["failed"] else ""
        print(f"| {row['transport']} | {row['wait']} | {payload_name(row['payload_bytes'])} | {row['native']} | "
              f"{figures} | {row['pairs']}{failed} |")
    options = document["options"]
    print(f"\nMedians of half a round trip over {options['rounds']} rounds; ratio: Tripmeter's over its own, pair by "
          f"pair. Kept: both with a malloc that keeps what is freed. {options['samples']} samples of Tripmeter each, "
          f"touch none; seed {options['seed']}.")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", nargs="+", help="default: all whose plugin and tool are installed")
    parser.add_argument("--transports", nargs="+", help="of these systems; default: all")
    parser.add_argument("--waits", nargs="+", help="of these transports; default: all")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3.0, help="for a tool that counts time instead of samples")
    parser.add_argument("--payloads", nargs="+", type=parse_payload, default=[1 << 10, 64 << 10, 1 << 20])
    parser.add_argument("--leader-cpu", type=int, default=0)
    parser.add_argument("--follower-cpu", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--tripmeter", type=Path, default=ROOT / "target" / "release" / "tripmeter")
    parser.add_argument("--output", type=Path, help="JSON file for everything measured")
    parser.add_argument("--table", type=Path, metavar="FILE", help="measure nothing, print the table of such a file")
    options = parser.parse_args()
    if min(options.rounds, options.samples) < 1 or options.warmup < 0 or options.seconds < 2:
        parser.error("--rounds and --samples must be at least 1, --warmup at least 0, --seconds at least 2")
    return options


def main():
    options = parse_options()
    if options.table:
        print_table(json.loads(options.table.read_text()))
        return 0
    if shutil.which(str(options.tripmeter)) is None:
        print(f"tripmeter not found at {options.tripmeter}; build it (cargo build --release) or name it with "
              "--tripmeter", file=sys.stderr)
        return 69
    modules = references(options.systems)
    for name, module in list(modules.items()):
        missing = module.missing()
        if missing:
            print(f"skipped: {name}: {missing}", file=sys.stderr)
            del modules[name]
        else:
            module.build()
    if not modules or options.systems and len(modules) < len(set(options.systems)):
        return 69
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with surroundings(options, modules):
        records, total = measure(options, modules, random.Random(options.seed))
    settings = {name: value for name, value in vars(options).items() if not isinstance(value, Path)}
    document = {"schema_version": 1, "options": settings, "summary": summarise(records), "records": records}
    print_table(document)
    if options.output:
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    if len(records) < total:
        return 130
    return 75 if any(record["error"] for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
