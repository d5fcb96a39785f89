#!/usr/bin/env python3
"""Checks a results folder with tools that are not Tripmeter's.

The manifest against its schema (jsonschema), and every histogram log, read by HdrHistogram's own Python library, against
the raw samples and against the figures of the manifest. Prints a line per finding; exits 1 if there is one.

Usage: check_results.py FOLDER
"""

import csv
import json
import statistics
import sys
from pathlib import Path

import jsonschema
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

SCHEMA = Path(__file__).resolve().parent.parent / "schema" / "manifest.schema.json"
CSV_HEADER = ["Sample", "Payload [Bytes]", "Latency [us]"]
LONGEST_NS = 3_600_000_000_000
DIGITS = 3
TOLERANCE = 10.0**-DIGITS


def raw_samples(file: Path) -> tuple[dict[int, list[float]], list[str]]:
    """Half round trips in microseconds by payload, and what is wrong with the file."""
    samples: dict[int, list[float]] = {}
    findings = []
    with file.open(newline="") as text:
        rows = csv.reader(text)
        if next(rows, None) != CSV_HEADER:
            findings.append(f"{file.name}: the first line is not {','.join(CSV_HEADER)}")
        for number, (sample, payload, latency) in enumerate(rows, start=1):
            if int(sample) != number:
                findings.append(f"{file.name}: sample {sample} in place {number}")
            if len(latency.partition(".")[2]) != 3:
                findings.append(f"{file.name}: latency {latency} has not three decimals")
            samples.setdefault(int(payload), []).append(float(latency))
    return samples, findings


def histograms(file: Path) -> dict[int, HdrHistogram]:
    """Round trips in nanoseconds by payload, from the tags of the log."""
    found = {}
    reader = HistogramLogReader(str(file), HdrHistogram(1, LONGEST_NS, DIGITS))
    while (histogram := reader.get_next_interval_histogram()) is not None:
        found[int(histogram.get_tag().removeprefix("payload_"))] = histogram
    return found


def differs(one: float, other: float) -> bool:
    """True if two figures differ by more than the histogram's digits and the CSV's last decimal explain."""
    return abs(one - other) > TOLERANCE * max(abs(one), abs(other)) + 2


def check_cell(name: str, cell: dict, histogram: HdrHistogram | None, latencies: list[float] | None) -> list[str]:
    """Findings of one payload; `latencies` is None without raw samples."""
    where = f"{name}, {cell['payload_bytes']} bytes"
    if histogram is None:
        return [f"{where}: not in the histogram log"]
    count, figures = cell["samples"], cell["rtt_ns"]
    findings = []
    if histogram.get_total_count() != count:
        findings.append(f"{where}: {histogram.get_total_count()} samples in the histogram, {count} in the manifest")
    pairs = [("max", histogram.get_max_value(), figures["max"]), ("min", histogram.get_min_value(), figures["min"])]
    if latencies is not None:
        if len(latencies) != count:
            findings.append(f"{where}: {len(latencies)} raw samples, {count} in the manifest")
        rtts = [2000 * latency for latency in latencies]
        pairs += [
            ("median", statistics.median(rtts), figures["median"]),
            ("mean", statistics.fmean(rtts), figures["mean"]),
            ("raw max", max(rtts), figures["max"]),
            # The histogram takes a sample, numpy's median the middle of two.
            ("median", histogram.get_value_at_percentile(50), statistics.median_low(rtts)),
        ]
    findings += [f"{where}: {what} {one} against {other}" for what, one, other in pairs if differs(one, other)]
    half = cell["rtt_half_ns"]
    findings += [f"{where}: {key} of rtt_half is not half" for key in half if half[key] * 2 != figures[key]]
    return findings


def check_result(folder: Path, result: dict) -> list[str]:
    """Findings of one sub-experiment in one round."""
    name = result["name"]
    raw = folder / f"measurements_{name}.csv"
    samples, findings = raw_samples(raw) if raw.exists() else (None, [])
    if not result["cells"]:
        return findings
    logged = histograms(folder / f"measurements_{name}.hlog")
    for cell in result["cells"]:
        payload = cell["payload_bytes"]
        latencies = None if samples is None else samples.get(payload, [])
        findings += check_cell(name, cell, logged.get(payload), latencies)
    return findings


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 64
    folder = Path(sys.argv[1])
    manifest = json.loads((folder / "manifest.json").read_text())
    validator = jsonschema.validators.validator_for(schema := json.loads(SCHEMA.read_text()))
    findings = [f"manifest.json: {error.json_path}: {error.message}" for error in validator(schema).iter_errors(manifest)]
    rounds = manifest["plan"]["rounds"]
    for result in manifest["sub_experiments"]:
        place = folder if rounds == 1 else folder / f"round-{result['round']:02}"
        findings += check_result(place, result)
    cells = sum(len(result["cells"]) for result in manifest["sub_experiments"])
    print(*findings, f"{folder}: {cells} cells checked, {len(findings)} findings", sep="\n")
    return 1 if findings or cells == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
