#!/usr/bin/env python3
"""Checks a results folder with tools that are not ours: check_results.py DIR...

manifest.json, audit.json and each line of trials.jsonl are validated against their schemas in schema/; every histogram log is read by the library HdrHistogram, and
its count, minimum, median and maximum are compared with the CSV and with the manifest, to three digits. Prints a line per
finding; exit code 1 if there is one. Needs tests/requirements.txt.
"""

import csv
import json
import pathlib
import statistics
import sys

import jsonschema
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

SCHEMAS = pathlib.Path(__file__).resolve().parent.parent / "schema"
CSV_HEADER = ["Sample", "Payload [Bytes]", "Latency [us]"]
HOUR_NS = 3_600_000_000_000


def figures_of_samples(rtt_ns):
    """Count, minimum, median and maximum."""
    return len(rtt_ns), min(rtt_ns), statistics.median(rtt_ns), max(rtt_ns)


def figures_of_histogram(histogram):
    """The same of a histogram."""
    median = histogram.get_value_at_percentile(50)
    return histogram.get_total_count(), histogram.get_min_value(), median, histogram.get_max_value()


def figures_of_cell(cell):
    """The same of a cell of round trips, which has half of each."""
    half_ns = cell["trials"][0]["streams"]["all"]["rtt_half_ns"]
    return half_ns["n"], *(2 * half_ns[statistic] for statistic in ("min", "p50", "max"))


def histograms(path):
    """The histograms of a log by tag, and findings."""
    found, findings = {}, []
    reader = HistogramLogReader(str(path), HdrHistogram(1, HOUR_NS, 3))
    while histogram := reader.get_next_interval_histogram():
        tag = histogram.get_tag()
        if tag in found:
            findings.append(f"{path}: tag {tag} twice")
        found[tag] = histogram
    reader.close()
    return found, findings


def samples(path):
    """Round trips in nanoseconds by payload, as the CSV has them, and findings."""
    found, findings = {}, []
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        if (header := next(rows, None)) != CSV_HEADER:
            findings.append(f"{path}: header {header}, not {CSV_HEADER}")
        for number, row in enumerate(rows, 1):
            if len(row) != 3 or row[0] != str(number):
                findings.append(f"{path}: row {number} is {row}")
                break
            found.setdefault(int(row[1]), []).append(2000 * float(row[2]))
    return found, findings


def differ(one, other, is_near):
    """Whether figures differ: counts at all, the others by more than three digits and the rounding of halves allow."""
    return one[0] != other[0] or not all(map(is_near, one[1:], other[1:]))


def to_three_digits(a, b):
    return abs(a - b) <= 1.001e-3 * max(abs(a), abs(b)) + 2


def to_rounding(a, b):
    return abs(a - b) <= 2


def middle_pair(rtt_ns):
    """The samples around the median: a histogram names one of them where their number is even."""
    ordered = sorted(rtt_ns)
    return ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]


def compare(place, cell, histogram, rtt_ns):
    """Findings of one payload; `rtt_ns` is None where raw samples were not kept."""
    wanted, logged = figures_of_cell(cell), figures_of_histogram(histogram)
    if rtt_ns is None:
        return [f"{place}: histogram {logged}, manifest {wanted}"] if differ(logged, wanted, to_three_digits) else []
    findings = []
    kept = figures_of_samples(rtt_ns)
    if differ(kept, wanted, to_rounding):
        findings.append(f"{place}: CSV {kept}, manifest {wanted}")
    low, high = middle_pair(rtt_ns)
    is_median = any(to_three_digits(logged[2], near) for near in (low, high, kept[2]))
    if not is_median or differ((logged[0], logged[1], logged[3]), (kept[0], kept[1], kept[3]), to_three_digits):
        findings.append(f"{place}: histogram {logged}, CSV {kept}")
    return findings


def check_result(folder, result, has_raw):
    """Findings of one sub-experiment."""
    stem = folder / f"measurements_{result['name']}"
    log, table = stem.with_name(stem.name + ".hlog"), stem.with_name(stem.name + ".csv")
    if not result["cells"] and not log.exists():
        return []
    if missing := [path for path in [log] + ([table] if has_raw else []) if not path.exists()]:
        return [f"{path}: is not there" for path in missing]
    by_tag, findings = histograms(log)
    by_payload, more = samples(table) if has_raw else ({}, [])
    findings += more
    for cell in result["cells"]:
        payload = cell["payload_bytes"]
        place = f"{log}, {payload} bytes"
        rtt_ns = by_payload.get(payload) if has_raw else None
        if cell["samples"] == 0:
            continue
        if f"payload_{payload}" not in by_tag:
            findings.append(f"{place}: no histogram")
        elif has_raw and rtt_ns is None:
            findings.append(f"{place}: no rows in {table}")
        else:
            findings += compare(place, cell, by_tag[f"payload_{payload}"], rtt_ns)
    return findings


def invalid(name, documents):
    """What of documents differs from their schema."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    errors = [error for document in documents for error in validator.iter_errors(document)]
    return [f"{name}: {error.json_path}: {error.message}" for error in errors]


def check(folder):
    """Findings of a results folder."""
    try:
        read = {name: (folder / name).read_text(encoding="utf-8") for name in ("manifest.json", "trials.jsonl", "audit.json")}
        manifest, audit = json.loads(read["manifest.json"]), json.loads(read["audit.json"])
        lines = [json.loads(line) for line in read["trials.jsonl"].split("\n")[:-1]]
    except (OSError, ValueError) as error:
        return [f"{folder}: {error}"]
    findings = invalid("manifest", [manifest]) + invalid("trials", lines) + invalid("audit", [audit])
    if findings:
        return [f"{folder}: {finding}" for finding in findings]
    for result in manifest["sub_experiments"]:
        of = [line for line in lines if (line["sub_experiment"], line["round"]) == (result["name"], result["round"])]
        # A later line of the same payload takes the place of an earlier one.
        result["cells"] = list({line["payload_bytes"]: line for line in of}.values())
    has_raw, rounds = manifest["plan"]["raw"] == "csv", manifest["plan"]["rounds"]
    known = set()
    for result in manifest["sub_experiments"]:
        place = folder if rounds == 1 else folder / f"round-{result['round']:02}"
        known.add(place / f"measurements_{result['name']}.hlog")
        for attempt in range(1, 1 + max((len(cell.get("earlier_attempts", [])) for cell in result["cells"]), default=0)):
            known.add(place / "attempts" / f"measurements_{result['name']}_attempt-{attempt}.hlog")
        findings += check_result(place, result, has_raw)
    return findings + [f"{path}: is of no sub-experiment" for path in sorted(folder.rglob("*.hlog")) if path not in known]


def main():
    folders = [pathlib.Path(argument) for argument in sys.argv[1:]]
    if not folders:
        sys.exit("usage: check_results.py DIR...")
    findings = [finding for folder in folders for finding in check(folder)]
    for finding in findings:
        print(finding)
    print(f"check_results: {len(folders)} folders, {len(findings)} findings", file=sys.stderr)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
