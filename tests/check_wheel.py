#!/usr/bin/env python3
"""Checks the installed wheel: check_wheel.py RESULTS FRAMES...

Runs the program of this environment, reads a results folder by `tripmeter.load`, and compares counts and figures with the
files, read without it. FRAMES are pandas or polars. Prints a line per finding; exit code 1 if there is one. RESULTS is of
one sub-experiment of round trips, with two payloads of 50 samples each: exit code 65 if it is not.
"""

import csv
import json
import math
import os
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
        # As after Ctrl-C: the last payload has a line, trials and figures, and is to be measured again.
        line = json.loads(lines[last])
        of = line["sub_experiment"], line["round"], line["payload_bytes"]
        stopped = json.dumps(line | {"unfinished": True}).encode()
        (copy / "trials.jsonl").write_bytes(b"\n".join([*lines[:last], stopped, *lines[last + 1:]]))
        (copy / "metrics.csv").write_text(rows)
        left = tripmeter.load(copy, frames)
        for name in ("metrics", "trials", "samples"):
            there, found = ([(row["sub_experiment"], row["round"], row["payload_bytes"]) for row in records(getattr(results, name))]
                            for results in (whole, left))
            if of not in there or found != [one for one in there if one != of]:
                findings.append(f"{frames}: {name} of an unfinished payload count")
        (copy / "trials.jsonl").write_bytes(lines[0] + b"\n")
        if any(len(getattr(tripmeter.load(copy, frames), name)) for name in ("metrics", "trials", "samples")):
            findings.append(f"{frames}: something of a run without finished payloads counts")
        for name in ("metrics", "trials", "samples"):
            empty, full = (getattr(of, name) for of in (tripmeter.load(copy, frames), whole))
            if list(empty.dtypes) != list(full.dtypes) or list(empty.columns) != list(full.columns):
                findings.append(f"{frames}: {name} without rows has other columns or types")
        manifest = json.loads((copy / "manifest.json").read_text())
        (copy / "manifest.json").write_text(json.dumps(manifest | {"schema_version": "9.0"}))
        for wrong in (copy, copy / "nowhere"):
            try:
                tripmeter.load(wrong, frames)
                findings.append(f"{frames}: {wrong.name} is read")
            except tripmeter.FormatError:
                pass
    return findings


def change(of, change_bytes):
    """A change of a file that changes its bytes."""
    return lambda copy: (copy / of).write_bytes(change_bytes((copy / of).read_bytes()))


def both(*damages):
    """One after the other."""
    def put(copy):
        for damage in damages:
            damage(copy)
    return put


def failed_elsewhere(copy):
    """Its sub-experiments are whole, but another has failed."""
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"status": "failed"}))


def link(name):
    """A change that moves a file or folder away and puts a link in its place."""
    def put(copy):
        there = copy.with_name(f"{copy.name}-elsewhere")
        (copy / name).rename(there)
        (copy / name).symlink_to(there)
    return put


def pipe(name):
    """A change that puts a pipe in the place of a file."""
    def put(copy):
        (copy / name).unlink()
        os.mkfifo(copy / name)
    return put


def parquet(table, of, end):
    """A change of the table of samples to Parquet of these rows up to a byte."""
    def put(copy):
        file = (copy / table).with_suffix(".parquet")
        rows = tripmeter.load(copy, "polars").samples.drop("sub_experiment")
        of(rows).write_parquet(file)
        file.write_bytes(file.read_bytes()[:end])
        (copy / table).unlink()
    return put


def of_trial(**fields):
    """A change of the first line of a trial."""
    def put(data):
        lines = data.split(b"\n")
        at = next(index for index, line in enumerate(lines[:-1]) if json.loads(line)["kind"] == "trial")
        lines[at] = json.dumps(json.loads(lines[at]) | fields).encode()
        return b"\n".join(lines)
    return change("trials.jsonl", put)


def damages(folder, frames):
    """Damaged files, which are errors that name file and place."""
    findings = []
    table = next((folder / "samples").glob("*.csv")).relative_to(folder)
    rows, trials = ((folder / name).read_bytes().count(b"\n") for name in (table, "trials.jsonl"))
    foreign = {"kind": "trial", "sub_experiment": "x"}
    # What is done to a copy, what is asked for then, and words of the error.
    cases = [
        ("a last sample cut off", change(table, lambda data: data[:-3]), "samples", [table, f"line {rows} "]),
        ("40 lines of samples", change(table, lambda data: b"".join(data.splitlines(True)[:41])), "samples",
         [table, "has 40 rows", "says 50"]),
        ("no sample", change(table, lambda data: data[:data.find(b"\n") + 1]), "samples", [table, "has 0 rows", "says 50"]),
        ("an empty table of samples", change(table, lambda data: b""), "samples", [table, "has 0 rows"]),
        ("a table without a column", change(table, lambda data: data.replace(b"status", b"x", 1)), "samples",
         [table, "status"]),
        ("a sample that is no number", change(table, lambda data: data.replace(b",ok,,", b",ok,,x", 1)), "samples", [table]),
        ("no table of samples", lambda copy: (copy / table).unlink(), "samples", [table, "50 rows"]),
        ("a table of samples that is a link", link(table), "samples", [table, "link"]),
        ("a table of samples that is a pipe", pipe(table), "samples", [table, "regular file"]),
        ("a folder of samples that is a link", link("samples"), "samples", [table, "link"]),
        ("a last row of metrics cut off", change("metrics.csv", lambda data: data[:-3]), "metrics",
         ["metrics.csv", "cut off"]),
        ("20 lines of metrics", change("metrics.csv", lambda data: b"".join(data.splitlines(True)[:20])), "metrics",
         ["metrics.csv", "has 0 rows", "says 1"]),
        ("20 lines of metrics of a run that failed elsewhere", both(
            change("metrics.csv", lambda data: b"".join(data.splitlines(True)[:20])), failed_elsewhere), "metrics",
         ["metrics.csv", "has 0 rows", "says 1"]),
        ("metrics that are a link", link("metrics.csv"), "metrics", ["metrics.csv", "link"]),
        ("no metrics", lambda copy: (copy / "metrics.csv").unlink(), "metrics", ["metrics.csv"]),
        ("no trials", lambda copy: (copy / "trials.jsonl").unlink(), "trials", ["trials.jsonl", "manifest.json says"]),
        ("trials that are a pipe", pipe("trials.jsonl"), "trials", ["trials.jsonl", "regular file"]),
        ("a figure that is text", of_trial(streams={"all": {"sent": "many"}}), "trials", ["trials.jsonl", "line 3 "]),
        ("a path for a name", of_trial(sub_experiment="../x"), "samples", ["trials.jsonl", "line 3 "]),
        ("a manifest that is a link", link("manifest.json"), None, ["manifest.json", "link"]),
        ("a manifest cut off", change("manifest.json", lambda data: data[:-3]), None, ["manifest.json"]),
        ("a manifest of another", change("manifest.json", lambda data: b"[]"), None, ["manifest.json"]),
        ("no manifest", lambda copy: (copy / "manifest.json").unlink(), None, ["manifest.json"]),
    ]
    cases += [(f"a line {text!r}", change("trials.jsonl", lambda data, text=text: data + text + b"\n"), "trials",
               ["trials.jsonl", f"line {trials + 1} "])
              for text in (b"{", b"7", b"null", b"\xff", b"{}", b"[" * 100_000, json.dumps(foreign).encode())]
    if frames == "polars":
        # Pandas needs a library of its own for Parquet.
        cases += [(f"Parquet {what}", parquet(table, of, end), "samples", [table.with_suffix(".parquet"), *words])
                  for what, of, end, words in (
                      ("with fewer rows", lambda rows: rows.head(60), None, ["has 10 rows", "says 50"]),
                      ("without a column", lambda rows: rows.drop("status"), None, []),
                      ("with other types", lambda rows: rows.with_columns(sent_ns="status"), None, []),
                      ("cut off", lambda rows: rows, -9, []), ("without a byte", lambda rows: rows, 0, []))]
    for what, damage, name, words in cases:
        with tempfile.TemporaryDirectory() as place:
            copy = pathlib.Path(place) / "copy"
            shutil.copytree(folder, copy)
            damage(copy)
            try:
                results = tripmeter.load(copy, frames)
                if name:
                    getattr(results, name)
                findings.append(f"{frames}: {what} is read")
            except tripmeter.FormatError as error:
                findings += [f"{frames}: {what}: no '{word}' in: {error}" for word in words if str(word) not in str(error)]
    return findings


def legitimate(folder, frames):
    """What is missing or cut off, and may be."""
    findings = []
    with tempfile.TemporaryDirectory() as place:
        copy, given = pathlib.Path(place) / "copy", pathlib.Path(place) / "given"
        shutil.copytree(folder, copy)
        given.symlink_to(copy)
        if frames == "polars":
            table = next((folder / "samples").glob("*.csv")).relative_to(folder)
            shutil.copytree(folder, copy.with_name("parquet"))
            parquet(table, lambda rows: rows, None)(copy.with_name("parquet"))
            findings += [f"as Parquet: {finding}" for finding in check(copy.with_name("parquet"), frames)]
        findings += [f"by a link of the user: {finding}" for finding in check(given, frames)]
        manifest, lines = json.loads((copy / "manifest.json").read_text()), json_lines(copy / "trials.jsonl")
        # Of two rounds one has no samples any more.
        manifest["plan"] |= {"rounds": 2, "keep_samples": 1}
        (copy / "manifest.json").write_text(json.dumps(manifest))
        text = "".join(json.dumps(line) + "\n" for line in [*lines, *(line | {"round": 2} for line in lines)])
        (copy / "trials.jsonl").write_text(text)
        (copy / "round-02").mkdir()
        (copy / "samples").rename(copy / "round-02/samples")
        table = next((copy / "round-02/samples").glob("*.csv"))
        table.write_text(table.read_text().replace("\n1,", "\n2,") + "2,9,1024,all,1,ok,,5")
        rows = tripmeter.load(copy, frames).samples
        if {row["round"] for row in records(rows)} != {2} or len(rows) != len(tripmeter.load(folder, frames).samples):
            findings.append(f"{frames}: samples of the newest round, with a row cut off that does not count, are not read")
        # A run that was killed before its first payload.
        shutil.rmtree(copy / "round-02")
        (copy / "metrics.csv").unlink()
        (copy / "trials.jsonl").unlink()
        (copy / "manifest.json").write_text(json.dumps(manifest | {"status": "running", "results": 0}))
        for name in ("metrics", "trials", "samples"):
            empty, full = (getattr(tripmeter.load(of, frames), name) for of in (copy, folder))
            if len(empty) or list(empty.dtypes) != list(full.dtypes) or list(empty.columns) != list(full.columns):
                findings.append(f"{frames}: {name} of a run killed at its begin has rows, or other columns or types")
    return findings


def is_fit(folder):
    """Whether its rows are as many as `damages` takes for granted."""
    try:
        samples = [line["samples"] for line in json_lines(folder / "trials.jsonl") if line["kind"] == "payload"]
        tables = [file.read_bytes().count(b"\n") for file in (folder / "samples").glob("*.csv")]
        return samples == [50, 50] and tables == [101] and b",rtt_half_ns," in (folder / "metrics.csv").read_bytes()
    except (OSError, ValueError, LookupError):
        return False


def main(folder, libraries):
    """Prints what is wrong."""
    if not is_fit(pathlib.Path(folder)):
        print(f"check_wheel: '{folder}' is not of one sub-experiment of round trips with two payloads of 50 samples each, as "
              "`tripmeter ping uds/stream -n 50 --payloads 64,1k --no-floor -o RESULTS` measures it", file=sys.stderr)
        return 65
    program = pathlib.Path(sys.executable).with_name("tripmeter")
    listed = subprocess.run([program, "list", "figures", "--json"], capture_output=True, text=True, check=True).stdout
    findings = [] if any(row["figure"] == "rtt_half_ns" for row in json.loads(listed)) else ["the program lists no figures"]
    for frames in libraries:
        for look in (check, refusals, damages, legitimate):
            findings += look(pathlib.Path(folder), frames)
        for name in NAMES:
            findings += named(pathlib.Path(folder), name, frames)
    print(*findings, sep="\n", end="\n" if findings else "")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
