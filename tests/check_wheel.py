#!/usr/bin/env python3
"""Checks the installed wheel: check_wheel.py RESULTS FRAMES...

Runs the program of this environment, reads a results folder by `tripmeter.load`, and compares counts and figures with the
files, read without it. FRAMES are pandas or polars. Prints a line per finding; exit code 1 if there is one.
"""

import csv
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

import tripmeter


# Names that a reader of tables may take for numbers or for nothing.
NAMES = ("1", "007", "1e5", "NA", "null", "inf", "true")
# What str.splitlines() takes for the end of a line, and JSON does not escape.
NO_ENDS = "\x85\u2028\u2029"


def json_lines(file):
    """Lines of JSON, which end in line feeds only."""
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]


def records(frame):
    """Rows of either library as dictionaries."""
    return frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_dict("records")


def check(folder, frames):
    """Findings of one library."""
    results = tripmeter.load(folder, frames)
    findings = []
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = records(results.metrics)
    texts = ("sub_experiment", "offered_load", "stream", "figure", "statistic")
    if not rows or [(*(row[name] for name in texts), float(row["value"])) for row in rows] != [
            (*(row[name] for name in texts), row["value"]) for row in found]:
        findings.append(f"{frames}: metrics differ from metrics.csv")
    lines = [line for line in json_lines(folder / "trials.jsonl") if line["kind"] == "trial"]
    p50 = [line["streams"]["all"]["rtt_half_ns"]["p50"] for line in lines]
    of_p50 = [row for row in records(results.trials) if (row["figure"], row["statistic"]) == ("rtt_half_ns", "p50")]
    if not p50 or p50 != [row["value"] for row in of_p50] or not all(row["low"] <= row["value"] <= row["high"] for row in of_p50):
        findings.append(f"{frames}: trials differ from trials.jsonl")
    if {row["sub_experiment"] for row in records(results.trials)} != {line["sub_experiment"] for line in lines}:
        findings.append(f"{frames}: names of trials differ from trials.jsonl")
    samples = records(results.samples)
    of_first = [row for row in samples if row["trial"] == lines[0]["trial"] and row["round"] == lines[0]["round"]
                and row["sub_experiment"] == lines[0]["sub_experiment"]]
    least = min((row["answered_ns"] - row["sent_ns"]) / 2 for row in of_first if row["status"] == "ok")
    if not math.isclose(least, lines[0]["streams"]["all"]["rtt_half_ns"]["min"], rel_tol=1e-9):
        findings.append(f"{frames}: samples differ from the figures of their trial")
    return findings


def named(folder, name, frames):
    """Findings of the same results of a sub-experiment of another name, which failed for reasons in any characters."""
    with tempfile.TemporaryDirectory() as place:
        # To a reader that takes paths for patterns this is another folder.
        copy = pathlib.Path(place) / "[f]\u2028x"
        shutil.copytree(folder, copy)
        for file in (copy / "samples").iterdir():
            file.rename(file.with_stem(name))
        lines = json_lines(copy / "trials.jsonl")
        for line in lines:
            key = "name" if line["kind"] == "sub-experiment" else "sub_experiment"
            old, line[key] = line[key], name
        lines.append(line | {"status": "failed", "error": f"no{NO_ENDS}folder"})
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (copy / "trials.jsonl").write_text(text, encoding="utf-8")
        rows = (copy / "metrics.csv").read_text()
        (copy / "metrics.csv").write_text(rows.replace(f"\n{old},", f"\n{name},"))
        return [f"named {name}: {finding}" for finding in check(copy, frames)]


def refusals(folder, frames):
    """What must not be read, and what must not count."""
    findings = []
    with tempfile.TemporaryDirectory() as place:
        copy = pathlib.Path(place) / "copy"
        shutil.copytree(folder, copy)
        lines = (copy / "trials.jsonl").read_bytes().split(b"\n")
        # As after a kill: the last payload has no line.
        last = max(index for index, line in enumerate(lines[:-1]) if json.loads(line)["kind"] == "payload")
        cut = '{"kind":"payload","sub_experiment":"\u00e4'.encode()[:-1]
        (copy / "trials.jsonl").write_bytes(b"\n".join([*lines[:last], cut]))
        # And its rows end within a number that makes them rows of another.
        first = next(line for line in map(json.loads, lines[:last]) if line["kind"] == "payload")
        cut = f'{first["sub_experiment"]},{first["round"]},{first["payload_bytes"]}'
        rows = (copy / "metrics.csv").read_text()
        (copy / "metrics.csv").write_text(rows + cut)
        left, whole = tripmeter.load(copy, frames), tripmeter.load(folder, frames)
        for name in ("metrics", "trials", "samples"):
            if not 0 < len(getattr(left, name)) < len(getattr(whole, name)):
                findings.append(f"{frames}: {name} of a payload that was not finished count")
        if not all(isinstance(row["figure"], str) and row["figure"] for row in records(left.metrics)):
            findings.append(f"{frames}: a row of metrics that was cut off counts")
        (copy / "trials.jsonl").write_bytes(lines[0] + b"\n")
        if any(len(getattr(tripmeter.load(copy, frames), name)) for name in ("metrics", "trials", "samples")):
            findings.append(f"{frames}: something of a run without finished payloads counts")
        manifest = json.loads((copy / "manifest.json").read_text())
        (copy / "manifest.json").write_text(json.dumps(manifest | {"schema_version": "9.0"}))
        for wrong in (copy, copy / "nowhere"):
            try:
                tripmeter.load(wrong, frames)
                findings.append(f"{frames}: {wrong.name} is read")
            except tripmeter.FormatError:
                pass
    return findings


def main(folder, libraries):
    """Prints what is wrong."""
    program = pathlib.Path(sys.executable).with_name("tripmeter")
    listed = subprocess.run([program, "list", "figures", "--json"], capture_output=True, text=True, check=True).stdout
    findings = [] if any(row["figure"] == "rtt_half_ns" for row in json.loads(listed)) else ["the program lists no figures"]
    for frames in libraries:
        findings += check(pathlib.Path(folder), frames) + refusals(pathlib.Path(folder), frames)
        for name in NAMES:
            findings += named(pathlib.Path(folder), name, frames)
    print(*findings, sep="\n", end="\n" if findings else "")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
