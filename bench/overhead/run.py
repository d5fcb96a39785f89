#!/usr/bin/env python3
"""Compares Tripmeter with bare ping-pong loops (default), or checks how flat `shm` is over payloads (--flatness).

Standard library only. Tables go to stdout as Markdown, progress to stderr, all measurements to --output.
Exit code: 0 all targets met, 1 some not met, 69 something is missing, 75 some runs failed, 130 interrupted.
"""

import argparse
import csv
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from roudi import RouDi

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TRANSPORTS = {"uds": "uds/datagram", "mq": "mq", "shm": "shm", "iceoryx": "iceoryx", "iceoryx2": "iceoryx2"}
WAITS = {"uds": ("poll", "block"), "mq": ("poll", "block"), "shm": ("poll", "block"), "iceoryx": ("poll",)}
AIMS = {"uds": 1.03, "mq": 1.03, "shm": 1.10, "iceoryx": 1.03}
FLAT_SYSTEMS = ("shm", "iceoryx", "iceoryx2")
FLAT_AIM_PERCENT = 5.0
MODE_FACTOR = 1.5
PAIR_FACTOR = 1.25
RUN_TIMEOUT_S = 180
NEEDS_ROUDI = {"iceoryx"}


class RunFailed(Exception):
    """One run of a loop or of Tripmeter gave no figures."""


def parse_payload(text):
    """Bytes of `1k`, `4M` or `512`; k and M are powers of 1024."""
    units = {"k": 1 << 10, "M": 1 << 20}
    factor = units.get(text[-1:], 1)
    digits = text[:-1] if text[-1:] in units else text
    if not digits.isdigit() or int(digits) == 0:
        raise argparse.ArgumentTypeError(f"payload '{text}' is not a size such as 1k, 64k or 4M")
    return int(digits) * factor


def payload_name(payload_bytes):
    for unit, size in (("M", 1 << 20), ("k", 1 << 10)):
        if payload_bytes % size == 0:
            return f"{payload_bytes // size}{unit}"
    return str(payload_bytes)


def median_within_step(samples):
    """Median, interpolated within its step of the clock as in bare.h."""
    samples = sorted(samples)
    count = len(samples)
    value = samples[count // 2]
    first = last = count // 2
    while first > 0 and samples[first - 1] == value:
        first -= 1
    while last + 1 < count and samples[last + 1] == value:
        last += 1
    low = (samples[first - 1] + value) / 2 if first > 0 else value
    high = (value + samples[last + 1]) / 2 if last + 1 < count else value
    return low + (high - low) * (count / 2 - first) / (last + 1 - first)


def call(command):
    """Output of a command that must succeed in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"{command[0]}: no end after {RUN_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise RunFailed(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def run_bare(options, cell):
    system, wait, payload_bytes = cell
    if system in NEEDS_ROUDI:
        options.roudi.ensure()
    output = call([
        str(HERE / "build" / f"bare_{system}"), "--wait", wait, "--payload", str(payload_bytes),
        "--samples", str(options.samples), "--warmup", str(options.warmup),
        "--leader-cpu", str(options.leader_cpu), "--follower-cpu", str(options.follower_cpu),
    ])
    result = json.loads(output.strip().splitlines()[-1])
    rtt, probes = result["rtt_ns"], result["core_to_core_ns"]
    return {"median_ns": rtt["p50_within_step"], "raw_median_ns": rtt["p50"], "min_ns": rtt["min"],
            "core_to_core_ns": [probes["before"], probes["after"]]}


def raw_round_trips_ns(folder):
    """All samples that Tripmeter wrote into its results folder, as round trips, by trial."""
    files = list(folder.glob("samples/*.csv"))
    if len(files) != 1:
        raise RunFailed(f"tripmeter wrote {len(files)} files samples/*.csv, not 1")
    samples = {}
    with files[0].open(newline="") as lines:
        for row in csv.DictReader(lines):
            samples.setdefault(int(row["trial"]), []).append(float(int(row["answered_ns"]) - int(row["sent_ns"])))
    return samples


def figures_of(options, cell, samples):
    """Figures of one cell of Tripmeter's manifest with its samples."""
    try:
        probes = [cell["core_to_core_ns"][when]["median_ns"] for when in ("before", "after")]
        figures = cell["trials"][0]["streams"]["all"]
        lost, half = figures["lost"], figures["rtt_half_ns"]
    except (KeyError, IndexError, TypeError) as error:
        raise RunFailed(f"tripmeter's JSON has no finished cell ({error!r})") from None
    if lost or len(samples) != options.samples:
        raise RunFailed(f"tripmeter recorded {len(samples)} of {options.samples} samples, {lost} messages lost")
    return {"median_ns": median_within_step(samples), "raw_median_ns": 2 * half["p50"], "min_ns": 2 * half["min"],
            "core_to_core_ns": probes}


def run_tripmeter(options, system, wait, payloads):
    """Runs Tripmeter once, with one pair of processes over all payloads; returns figures in their order."""
    if system in NEEDS_ROUDI:
        options.roudi.ensure()
    with tempfile.TemporaryDirectory(prefix="tripmeter-overhead-") as scratch:
        folder = Path(scratch) / "results"
        output = call([
            str(options.tripmeter), "ping", TRANSPORTS[system],
            "--payloads", ",".join(map(payload_name, payloads)), "-n", str(options.samples),
            "--wait", wait, "--touch", "none", "--warmup", str(options.warmup),
            "--leader-cpu", str(options.leader_cpu), "--follower-cpu", str(options.follower_cpu),
            "--no-floor", "-o", str(folder), "--json", "--quiet",
        ])
        samples = raw_round_trips_ns(folder)
    document = json.loads(output)
    try:
        cells = {cell["payload_bytes"]: cell
                 for cell in document.get("manifest", document)["sub_experiments"][0]["cells"]}
        return [figures_of(options, cells[payload], samples.get(cells[payload]["trials"][0]["trial"], []))
                for payload in payloads]
    except (KeyError, IndexError, TypeError) as error:
        raise RunFailed(f"tripmeter's JSON has no such cell ({error!r})") from None


class Progress:
    """One line on stderr, with an estimate."""

    def __init__(self, total):
        self.total, self.done, self.start = total, 0, time.monotonic()

    def step(self):
        self.done += 1
        left = (time.monotonic() - self.start) / self.done * (self.total - self.done)
        if sys.stderr.isatty() or self.done % 50 == 0 or self.done == self.total:
            end = "\r" if sys.stderr.isatty() and self.done < self.total else "\n"
            print(f"{self.done} of {self.total} runs, {left:.0f} s left  ", end=end, file=sys.stderr, flush=True)


def measure(options, runs, cells, rng):
    """Measures every cell once per round, in random order: several pairs of runs, each pair in random order."""
    progress = Progress(options.rounds * len(cells) * options.repeats * len(runs))
    records = []
    try:
        for number in range(1, options.rounds + 1):
            for cell in rng.sample(cells, len(cells)):
                records += [{"round": number, **measure_pair(runs, cell, rng, progress)}
                            for _ in range(options.repeats)]
    except KeyboardInterrupt:
        print(f"\ninterrupted; {len(records)} of {options.rounds * len(cells) * options.repeats} pairs are there",
              file=sys.stderr)
    return records


def measure_pair(runs, cell, rng, progress):
    record = {"system": cell[0], "wait": cell[1], "payload_bytes": cell[2], "error": None}
    for name in rng.sample(sorted(runs), len(runs)):
        try:
            record[name] = runs[name](cell)
        except RunFailed as failure:
            record["error"] = str(failure)
            print(f"failed: {failure}", file=sys.stderr)
        progress.step()
    return record


def mark_pairs(records, names):
    """Sets `mode_changed` of pairs whose core-to-core probes differ."""
    for record in records:
        if record["error"] is None:
            probes = [probe for name in names for probe in record[name]["core_to_core_ns"]]
            record["mode_changed"] = max(probes) > PAIR_FACTOR * min(probes)


def mark_cells(records):
    """Sets `mode_changed` of cells with a core-to-core probe far from the median of all; returns the median."""
    good = [record for record in records if record["error"] is None]
    probes = [probe for record in good for probe in record["tripmeter"]["core_to_core_ns"]]
    centre = statistics.median(probes) if probes else 0.0
    for record in good:
        own = record["tripmeter"]["core_to_core_ns"]
        record["mode_changed"] = not all(centre / MODE_FACTOR <= probe <= centre * MODE_FACTOR for probe in own)
    return centre


def of_cell(records, cell):
    """Kept records of the cell, number left out because of a changed probe, number failed."""
    own = [r for r in records if (r["system"], r["wait"], r["payload_bytes"]) == cell]
    kept = [r for r in own if r["error"] is None and not r["mode_changed"]]
    failed = sum(r["error"] is not None for r in own)
    return kept, len(own) - len(kept) - failed, failed


def by_round(records, value):
    """Per round the median of the value over its records."""
    rounds = {}
    for record in records:
        rounds.setdefault(record["round"], []).append(value(record))
    return [statistics.median(values) for values in rounds.values()]


def median_of_rounds(records, value):
    """Median over rounds of the median within a round; None if there is no record."""
    return statistics.median(by_round(records, value)) if records else None


def summarise_pairs(records, cells):
    """One row per cell: medians over rounds of the kept pairs, and the range of the rounds' ratios."""
    rows = []
    for cell in cells:
        kept, left_out, failed = of_cell(records, cell)
        row = {"system": cell[0], "wait": cell[1], "payload_bytes": cell[2], "pairs_kept": len(kept),
               "pairs_left_out": left_out, "pairs_failed": failed, "aim": AIMS[cell[0]], "met": None}
        if kept:
            ratios = by_round(kept, lambda pair: pair["tripmeter"]["median_ns"] / pair["bare"]["median_ns"])
            row["rounds"] = len(ratios)
            row["bare_rtt_half_ns"] = median_of_rounds(kept, lambda pair: pair["bare"]["median_ns"] / 2)
            row["tripmeter_rtt_half_ns"] = median_of_rounds(kept, lambda pair: pair["tripmeter"]["median_ns"] / 2)
            row["ratio"] = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
            row["met"] = row["ratio"]["median"] <= row["aim"]
        rows.append(row)
    return rows


def print_pairs(rows, other):
    print(f"| System | Wait | Payload | Bare [µs] | {other} [µs] | Ratio | Range | Kept | Left out | Aim | Met |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for row in rows:
        figures = "- | - | - | -"
        if row["met"] is not None:
            ratio = row["ratio"]
            figures = (f"{row['bare_rtt_half_ns'] / 1000:.3f} | {row['tripmeter_rtt_half_ns'] / 1000:.3f} | "
                       f"{ratio['median']:.3f} | {ratio['min']:.3f}..{ratio['max']:.3f}")
        left_out = f"{row['pairs_left_out']}" + (f" + {row['pairs_failed']} failed" if row["pairs_failed"] else "")
        met = {True: "yes", False: "no", None: "not measured"}[row["met"]]
        print(f"| {row['system']} | {row['wait']} | {payload_name(row['payload_bytes'])} | {figures} | "
              f"{row['pairs_kept']} | {left_out} | {row['aim']:.2f} | {met} |")


def relative_to_sweep(records):
    """Sets `relative` of kept records: their median divided by the median of the kept cells of the same sweep."""
    sweeps = {}
    for record in records:
        if record["error"] is None and not record["mode_changed"]:
            sweeps.setdefault((record["system"], record["round"], record["sweep"]), []).append(record)
    for cells in sweeps.values():
        centre = statistics.median(cell["tripmeter"]["median_ns"] for cell in cells)
        for cell in cells:
            cell["relative"] = cell["tripmeter"]["median_ns"] / centre


def spread_percent(values):
    """Percentage by which the largest value exceeds the smallest; None if a value is missing."""
    return None if None in values else 100 * (max(values) / min(values) - 1)


def summarise_flatness(records, payloads):
    """Per system the medians over rounds at each payload, and their spreads over payloads."""
    relative_to_sweep(records)
    table = {}
    for system in FLAT_SYSTEMS:
        points = []
        for payload_bytes in payloads:
            kept, left_out, failed = of_cell(records, (system, "poll", payload_bytes))
            points.append({"payload_bytes": payload_bytes, "kept": len(kept), "left_out": left_out, "failed": failed,
                           "rtt_half_ns": median_of_rounds(kept, lambda record: record["tripmeter"]["median_ns"] / 2),
                           "relative": median_of_rounds(kept, lambda record: record["relative"])})
        table[system] = {"points": points,
                         "spread_percent": spread_percent([point["relative"] for point in points]),
                         "plain_spread_percent": spread_percent([point["rtt_half_ns"] for point in points])}
    return table


def judge_flatness(table):
    """`flat` and `fastest`, each True, False, or None if something was not measured."""
    spread = table["shm"]["spread_percent"]
    rows = zip(*(table[system]["points"] for system in FLAT_SYSTEMS))
    values = [[point["rtt_half_ns"] for point in row] for row in rows]
    measured = all(value is not None for row in values for value in row)
    return {"flat": None if spread is None else spread <= FLAT_AIM_PERCENT,
            "fastest": all(row[0] < min(row[1:]) for row in values) if measured else None}


def print_flatness(table, verdict):
    heads = [f"{system} [µs] | to its sweep | kept / left out" for system in FLAT_SYSTEMS]
    print("| Payload | " + " | ".join(heads) + " |")
    print("| ---: |" + " ---: | ---: | ---: |" * len(FLAT_SYSTEMS))
    for row in zip(*(table[system]["points"] for system in FLAT_SYSTEMS)):
        fields = []
        for point in row:
            values = "- | -"
            if point["kept"]:
                values = f"{point['rtt_half_ns'] / 1000:.3f} | {point['relative']:.3f}"
            failed = f" + {point['failed']} failed" if point["failed"] else ""
            fields.append(f"{values} | {point['kept']} / {point['left_out']}{failed}")
        print(f"| {payload_name(row[0]['payload_bytes'])} | " + " | ".join(fields) + " |")
    print()
    for system in FLAT_SYSTEMS:
        texts = ["not measured" if spread is None else f"{spread:.1f} %"
                 for spread in (table[system]["spread_percent"], table[system]["plain_spread_percent"])]
        print(f"- {system}: largest over smallest, less 1: {texts[0]} to its sweep, {texts[1]} in µs")
    words = {True: "yes", False: "no", None: "not measured"}
    print(f"- shm flat within {FLAT_AIM_PERCENT:.0f} %: {words[verdict['flat']]}")
    print(f"- shm faster than {' and '.join(FLAT_SYSTEMS[1:])} at every payload: {words[verdict['fastest']]}")
    print("\nA sweep is one pair of processes over all payloads, in random order. `to its sweep` is a payload's figure "
          "over the median of its sweep: what the machine does to a whole sweep cancels, a payload's own share stays.")


def to_json(document):
    head = json.dumps({**document, "records": []}, indent=1)
    lines = ",\n  ".join(json.dumps(record) for record in document["records"])
    return head.replace('"records": []', f'"records": [\n  {lines}\n ]')


def report(options, records, of_round, summary, verdicts):
    """Notes below the table, the JSON file, and the exit code."""
    failed = sum(record["error"] is not None for record in records)
    print(f"\nMedians of rtt_half over {options.rounds} rounds of {options.samples} samples each, after "
          f"{options.warmup} trips of warm-up; leader on CPU {options.leader_cpu}, "
          f"follower on CPU {options.follower_cpu}; seed {options.seed}.")
    if options.output:
        settings = {name: str(value) if isinstance(value, Path) else value
                    for name, value in vars(options).items() if name != "roudi"}
        document = {"schema_version": 2, "options": settings, "summary": summary, "records": records}
        options.output.write_text(to_json(document) + "\n")
    if len(records) < options.rounds * of_round:
        return 130
    if failed:
        return 75
    return 0 if all(verdict is True for verdict in verdicts) else 1


def build_loops():
    done = subprocess.run(["make", "-C", str(HERE), "--no-print-directory"], stdout=sys.stderr)
    if done.returncode != 0:
        sys.exit("the bare loops do not build; see above")


def overhead(options, rng):
    """Compares Tripmeter with the bare loops; returns the exit code."""
    build_loops()
    systems = [system for system in options.systems if (HERE / "build" / f"bare_{system}").exists()]
    for system in sorted(set(options.systems) - set(systems)):
        print(f"skipped: {system}: its bare loop is not built", file=sys.stderr)
    cells = [(system, wait, payload) for system in systems for wait in WAITS[system] if wait in options.waits
             for payload in options.payloads]
    def measured(cell):
        return run_tripmeter(options, cell[0], cell[1], [cell[2]])[0]

    other = run_bare if options.control else lambda _, cell: measured(cell)
    runs = {"bare": lambda cell: run_bare(options, cell), "tripmeter": lambda cell: other(options, cell)}
    with RouDi(max(options.payloads)) as options.roudi:
        records = measure(options, runs, cells, rng)
    mark_pairs(records, list(runs))
    rows = summarise_pairs(records, cells)
    print_pairs(rows, "Bare again" if options.control else "Tripmeter")
    print(f"\nLeft out: the core-to-core probes (round trip of one cache line) before and after the two runs of a pair "
          f"differ by more than a factor {PAIR_FACTOR}.")
    return report(options, records, options.repeats * len(cells), rows, [row["met"] for row in rows])


def measure_sweep(options, rng, system, payloads):
    """Records of one run of Tripmeter over all payloads in random order."""
    order = rng.sample(payloads, len(payloads))
    error, figures = None, [None] * len(order)
    try:
        figures = run_tripmeter(options, system, "poll", order)
    except RunFailed as failure:
        error = str(failure)
        print(f"failed: {failure}", file=sys.stderr)
    return [{"system": system, "wait": "poll", "payload_bytes": payload, "error": error, "tripmeter": of_payload}
            for payload, of_payload in zip(order, figures)]


def measure_sweeps(options, rng, payloads):
    """Per round every system's sweeps, all in random order."""
    sweeps = [(system, number) for system in FLAT_SYSTEMS for number in range(1, options.repeats + 1)]
    progress = Progress(options.rounds * len(sweeps))
    records = []
    try:
        for round_number in range(1, options.rounds + 1):
            for system, number in rng.sample(sweeps, len(sweeps)):
                records += [{"round": round_number, "sweep": number, **record}
                            for record in measure_sweep(options, rng, system, payloads)]
                progress.step()
    except KeyboardInterrupt:
        print(f"\ninterrupted after {len(records) // len(payloads)} sweeps", file=sys.stderr)
    return records


def flatness(options, rng):
    """Compares `shm` with the other zero-copy systems over payloads, through Tripmeter only; returns the exit code."""
    payloads = [1 << power for power in range(10, 23)]
    with RouDi(max(payloads)) as options.roudi:
        records = measure_sweeps(options, rng, payloads)
    centre = mark_cells(records)
    table = summarise_flatness(records, payloads)
    verdict = judge_flatness(table)
    print_flatness(table, verdict)
    cells = options.repeats * len(FLAT_SYSTEMS) * len(payloads)
    print(f"\nLeft out: a core-to-core probe (round trip of one cache line) before or after the cell was further than a "
          f"factor {MODE_FACTOR} from {centre:.0f} ns, the median of all.")
    return report(options, records, cells, {"systems": table, "verdict": verdict}, verdict.values())


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flatness", action="store_true", help="shm, iceoryx, iceoryx2 from 1 kB to 4 MB instead")
    parser.add_argument("--control", action="store_true",
                        help="compare the bare loops with themselves: the machine's noise around a ratio of 1.000")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--repeats", type=int, default=5,
                        help="pairs per cell and round, or with --flatness sweeps per system and round (default 5)")
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--systems", nargs="+", choices=sorted(WAITS), default=list(WAITS))
    parser.add_argument("--waits", nargs="+", choices=("poll", "block"), default=["poll", "block"])
    parser.add_argument("--payloads", nargs="+", type=parse_payload, default=[1 << 10, 64 << 10])
    parser.add_argument("--leader-cpu", type=int, default=0)
    parser.add_argument("--follower-cpu", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--tripmeter", type=Path, default=ROOT / "target" / "release" / "tripmeter")
    parser.add_argument("--output", type=Path, help="JSON file for everything measured")
    options = parser.parse_args()
    if min(options.rounds, options.repeats, options.samples) < 1 or options.warmup < 0:
        parser.error("--rounds, --repeats and --samples must be at least 1, --warmup at least 0")
    return options


def main():
    options = parse_options()
    if not options.control and shutil.which(str(options.tripmeter)) is None:
        print(f"tripmeter not found at {options.tripmeter}; build it (cargo build --release) or name it with "
              "--tripmeter", file=sys.stderr)
        return 69
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rng = random.Random(options.seed)
    return flatness(options, rng) if options.flatness else overhead(options, rng)


if __name__ == "__main__":
    sys.exit(main())
