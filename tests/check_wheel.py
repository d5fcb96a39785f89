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
    if [(row["figure"], row["statistic"], float(row["value"])) for row in rows] != [
            (row["figure"], row["statistic"], row["value"]) for row in found]:
        findings.append(f"{frames}: metrics differ from metrics.csv")
    lines = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line["kind"] == "trial"]
    p50 = [line["streams"]["all"]["rtt_half_ns"]["p50"] for line in lines]
    of_p50 = [row for row in records(results.trials) if (row["figure"], row["statistic"]) == ("rtt_half_ns", "p50")]
    if not p50 or p50 != [row["value"] for row in of_p50] or not all(row["low"] <= row["value"] <= row["high"] for row in of_p50):
        findings.append(f"{frames}: trials differ from trials.jsonl")
    samples = records(results.samples)
    of_first = [row for row in samples if row["trial"] == lines[0]["trial"] and row["round"] == lines[0]["round"]
                and row["sub_experiment"] == lines[0]["sub_experiment"]]
    least = min((row["answered_ns"] - row["sent_ns"]) / 2 for row in of_first if row["status"] == "ok")
    if not math.isclose(least, lines[0]["streams"]["all"]["rtt_half_ns"]["min"], rel_tol=1e-9):
        findings.append(f"{frames}: samples differ from the figures of their trial")
    return findings + refusals(folder, frames)


def refusals(folder, frames):
    """What must not be read, and what must not count."""
    findings = []
    with tempfile.TemporaryDirectory() as place:
        copy = pathlib.Path(place) / "copy"
        shutil.copytree(folder, copy)
        lines = (copy / "trials.jsonl").read_text().splitlines(keepends=True)
        # As after a kill: the last payload has no line.
        last = max(index for index, line in enumerate(lines) if json.loads(line)["kind"] == "payload")
        (copy / "trials.jsonl").write_text("".join(lines[:last]) + '{"kind":"pay')
        left, whole = tripmeter.load(copy, frames), tripmeter.load(folder, frames)
        for name in ("metrics", "trials", "samples"):
            if not 0 < len(getattr(left, name)) < len(getattr(whole, name)):
                findings.append(f"{frames}: {name} of a payload that was not finished count")
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
        findings += check(pathlib.Path(folder), frames)
    print(*findings, sep="\n", end="\n" if findings else "")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
