#!/usr/bin/env python3
"""Checks a results folder with tools that are not ours: check_results.py DIR...

manifest.json, audit.json and each line of trials.jsonl are validated against their schemas in schema/. Figures of every
trial are computed again from samples/<name>.csv, and of round trips from measurements_<name>.csv; every histogram log is
read by the library HdrHistogram, and its count, minimum, median and maximum are compared with the figures, to three digits.
Rows of Parquet are read by DuckDB, and must equal the CSV. Prints a line per finding; exit code 1 if there is one. Needs tests/requirements.txt.
"""

import csv
import io
import json
import pathlib
import statistics
import sys

import duckdb
import jsonschema
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

SCHEMAS = pathlib.Path(__file__).resolve().parent.parent / "schema"
CSV_HEADER = ["Sample", "Payload [Bytes]", "Latency [us]"]
SAMPLES_HEADER = ["round", "trial", "payload_bytes", "stream", "sequence", "status", "intended_ns", "sent_ns",
                  "received_ns", "answered_ns"]
# From which time to which a figure is the time, by the stream of the figure.
TIMES = {"rtt_half_ns": ("sent_ns", "answered_ns"), "call_ns": ("sent_ns", "answered_ns"),
         "response_ns": ("intended_ns", "received_ns"), "service_ns": ("sent_ns", "received_ns"),
         "response_rtt_ns": ("intended_ns", "answered_ns"), "service_rtt_ns": ("sent_ns", "answered_ns"),
         "one_way_ns": ("sent_ns", "received_ns")}
CAME = ("ok", "reordered", "duplicated")
HOUR_NS = 3_600_000_000_000


def figures_of_samples(rtt_ns):
    """Count, minimum, median and maximum."""
    return len(rtt_ns), min(rtt_ns), statistics.median(rtt_ns), max(rtt_ns)


def figures_of_histogram(histogram):
    """The same of a histogram."""
    median = histogram.get_value_at_percentile(50)
    return histogram.get_total_count(), histogram.get_min_value(), median, histogram.get_max_value()


def figures_of_trial(trial, stream, figure):
    """The same of a figure of a trial, of round trips of the whole of them; None if it has none."""
    of = trial["streams"].get(stream, {}).get(figure)
    factor = 2 if figure == "rtt_half_ns" else 1
    return None if of is None else (of["n"], *(factor * of[statistic] for statistic in ("min", "p50", "max")))


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


def measurements(path):
    """Round trips in nanoseconds by payload, as eProsima's CSV has them, and findings."""
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


def samples(path):
    """Rows of samples by trial, and findings. A run that was killed may have cut the last line: a row of no finished trial."""
    found, findings = {}, []
    text = path.read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text[:text.rfind("\n") + 1]))
    if rows.fieldnames != SAMPLES_HEADER:
        findings.append(f"{path}: header {rows.fieldnames}, not {SAMPLES_HEADER}")
    for row in rows:
        found.setdefault(int(row["trial"]), []).append(row)
    return found, findings


def parquet(table):
    """Whether Parquet has other rows, or in another order."""
    path = table.with_suffix(".parquet")
    if not path.exists():
        return [f"{path}: is not there"]
    types = {name: "VARCHAR" if name in ("stream", "status") else "BIGINT" for name in SAMPLES_HEADER}
    found = duckdb.read_parquet(str(path))
    if dict(zip(found.columns, map(str, found.types))) != types:
        return [f"{path}: columns {found.columns} of types {found.types}"]
    wanted = duckdb.read_csv(str(table), header=True, dtype=types, all_varchar=False).fetchall()
    return [] if found.fetchall() == wanted else [f"{path}: not the rows of {table}"]


def check_trial(place, line, rows):
    """Findings of one trial by its rows."""
    findings = []
    if any((int(row["round"]), int(row["payload_bytes"]) <= line["payload_bytes"]) != (line["round"], True) for row in rows):
        findings.append(f"{place}: rows of another round or payload")
    numbers = {}
    for row in rows:
        before = numbers.get(row["stream"], 0)
        numbers[row["stream"]] = int(row["sequence"])
        if int(row["sequence"]) <= before or (row["answered_ns"] and int(row["answered_ns"]) < int(row["sent_ns"])):
            findings.append(f"{place}: row {row} is out of order")
            break
    for stream, figures in line["streams"].items():
        # What came to one of several followers has no rows of its own.
        if stream.startswith("follower=") and stream != "follower=last":
            continue
        of = [row for row in rows if stream in ("all", "follower=last", row["stream"])]
        for figure in figures.keys() & TIMES.keys():
            begin, end = TIMES[figure]
            times = [int(row[end]) - int(row[begin]) for row in of if row["status"] in CAME and row[begin] and row[end]]
            wanted, kept = figures_of_trial(line, stream, figure), figures_of_samples(times) if times else None
            if kept is None or differ(kept, wanted, to_rounding):
                findings.append(f"{place}: {figure} of {stream}: samples {kept}, figures {wanted}")
    return findings


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


def compare(place, trial, histogram, rtt_ns):
    """Findings of the histogram of round trips or calls; `rtt_ns` has the round trips, if eProsima's CSV was kept."""
    figure = "call_ns" if "call_ns" in trial["streams"]["all"] else "rtt_half_ns"
    wanted, logged = figures_of_trial(trial, "all", figure), figures_of_histogram(histogram)
    if rtt_ns is None:
        # Of an even number, a histogram has one of the two in the middle.
        exact, logged = (wanted[0], wanted[1], wanted[3]), (logged[0], logged[1], logged[3])
        return [f"{place}: histogram {logged}, figures {exact}"] if differ(logged, exact, to_three_digits) else []
    findings = []
    kept = figures_of_samples(rtt_ns)
    if differ(kept, wanted, to_rounding):
        findings.append(f"{place}: CSV {kept}, figures {wanted}")
    low, high = middle_pair(rtt_ns)
    is_median = any(to_three_digits(logged[2], near) for near in (low, high, kept[2]))
    if not is_median or differ((logged[0], logged[1], logged[3]), (kept[0], kept[1], kept[3]), to_three_digits):
        findings.append(f"{place}: histogram {logged}, CSV {kept}")
    return findings


def check_result(folder, state, trials, raw, is_rotated):
    """Findings of one sub-experiment; `trials` are those that count, and those that were set aside. The files of samples of a
    round `is_rotated` away once newer ones are there."""
    log, findings = folder / "histograms" / f"{state['name']}.hlog", []
    counting, every = trials
    closed = [trial for trial in counting if trial["load"]["kind"] == "closed"
              and trial["streams"].get("all", {}).keys() & {"rtt_half_ns", "call_ns"}]
    by_payload = None
    csv_file = folder / f"measurements_{state['name']}.csv"
    is_gone = is_rotated and not csv_file.exists()
    if "eprosima" in raw and closed and "rtt_half_ns" in closed[0]["streams"]["all"] and not is_gone:
        by_payload, findings = measurements(csv_file)
    by_tag = {}
    if closed:
        by_tag, more = histograms(log)
        findings += more
    for trial in closed:
        payload = trial["payload_bytes"]
        place = f"{log}, {payload} bytes"
        if f"payload_{payload}" not in by_tag:
            findings.append(f"{place}: no histogram")
        elif by_payload is not None and payload not in by_payload:
            findings.append(f"{place}: no rows of eProsima's")
        else:
            findings += compare(place, trial, by_tag[f"payload_{payload}"], by_payload and by_payload[payload])
    table = folder / "samples" / f"{state['name']}.csv"
    if "samples" in raw and any(set(of) & TIMES.keys() for trial in every for of in trial["streams"].values()):
        if not table.exists():
            return findings + ([] if is_rotated else [f"{table}: is not there"])
        by_trial, more = samples(table)
        findings += more + (parquet(table) if "parquet" in raw else [])
        # A search keeps no rows.
        for trial in (trial for trial in every if trial["load"]["kind"] != "search"):
            findings += check_trial(f"{table}, trial {trial['trial']}", trial, by_trial.get(trial["trial"], []))
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
    states, attempts, trials = {}, {}, {}
    for line in lines:
        if line["kind"] == "sub-experiment":
            states[line["name"], line["round"]] = line
            continue
        address = line["sub_experiment"], line["round"], line["payload_bytes"], line["attempt"]
        if line["kind"] == "payload":
            # The trials before it count, in the place of the trials of an earlier line of the same attempt.
            attempts[address] = trials.pop(address, [])
        else:
            trials.setdefault(address, []).append(line)
    if manifest["results"] > len(states):
        findings.append(f"{folder}: {len(states)} states of sub-experiments, not {manifest['results']}")
    raw, rounds = manifest["plan"]["raw"], manifest["plan"]["rounds"]
    # Rounds up to this one have no samples any more, or will have none.
    rotated = max((number for _, number in states), default=0) - (manifest["plan"].get("keep_samples") or rounds)
    known = set()
    for (name, number), state in states.items():
        place = folder if rounds == 1 and not manifest["plan"].get("round_folders") else folder / f"round-{number:02}"
        known.add(place / "histograms" / f"{name}.hlog")
        of = {address[2:]: found for address, found in attempts.items() if address[:2] == (name, number)}
        known |= {place / "histograms" / "attempts" / f"{name}_attempt-{attempt}.hlog" for _, attempt in of}
        last = {payload: attempt for payload, attempt in sorted(of)}
        counting = [trial for payload, attempt in last.items() for trial in of[payload, attempt]]
        every = [trial for found in of.values() for trial in found]
        if len(last) < state["payloads"]:
            findings.append(f"{folder}: {len(last)} payloads of {name}, not {state['payloads']}")
        findings += check_result(place, state, (counting, every), raw, number <= rotated)
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
