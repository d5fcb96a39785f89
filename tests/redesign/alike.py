#!/usr/bin/env python3
"""Compares what two builds measure: alike.py OLD NEW [NAME...].

Both run the commands of corpus.py, one after the other, with one attempt and no floor. Compared are the addresses in
metrics.csv, counts, which figures have an interval, rows of samples, states, texts and exit codes; times are blanked. A rate
that was missed is told, and no difference: that is the machine's. Exit code 1 if anything differs.
"""

import argparse
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import corpus

# Figures that injected faults decide. Of a throughput the time decides how many messages there are.
COUNTS = {"sent", "received", "lost", "late", "duplicated", "reordered", "damaged", "timed_out", "failed", "one_way_missing",
          "before_sent"}
STATES = ["sub_experiment", "payload_bytes", "samples", "samples_planned", "warmup", "warmup_damaged", "cut_short", "unfinished",
          "trial", "offered_load"]
# What a clock decides, by name of the command: the messages of a time, and where a search ends.
BY_CLOCK = re.compile(r"^throughput|-cap$")
NUMBER = re.compile(r"\d+(\.\d+)?")


def figures(folder, is_by_clock):
    """Address of each figure: its count, and whether it has an interval."""
    found = {}
    for row in csv.DictReader((folder / "metrics.csv").open()):
        address = tuple(value for name, value in row.items() if name not in ("value", "low", "high"))
        is_counted = row["figure"] in COUNTS and not is_by_clock
        found[address] = (row["value"] if is_counted else "", bool(row.get("low")), bool(row.get("high")))
    return found


def lines_of(folder):
    """What trials.jsonl says of states."""
    found, missed = [], 0
    for line in (folder / "trials.jsonl").read_text().splitlines():
        one = json.loads(line)
        missed += bool(one.get("rate_missed"))
        if one["kind"] in ("trial", "payload"):
            found.append([one["kind"], *(one.get(key) for key in STATES)])
        elif one["kind"] == "sub-experiment":
            found.append([one["kind"], one["name"], one["status"], NUMBER.sub("N", one.get("error") or "")])
    return found, missed


def samples(folder):
    """Rows of each file of samples."""
    return {file.name: sum(1 for _ in file.open("rb")) for file in sorted(folder.rglob("samples/*.csv"))}


def measured(program, name, folder):
    """What one side has of one command."""
    words = corpus.words_of(name, folder)
    if name != "explain":
        words += ["--attempts", "1", "--no-floor"]
    code, _, error = corpus.run(program, words)
    by_clock = BY_CLOCK.search(name)
    states, missed = lines_of(folder)
    return {
        "exit code": code,
        "standard error": NUMBER.sub("N", error.replace(str(folder), "")).splitlines(),
        "figures": figures(folder, by_clock),
        "states": [[NUMBER.sub("N", str(one)) if by_clock else one for one in line] for line in states],
        "rows of samples": {} if by_clock else samples(folder),
    }, missed


def differences(old, new):
    """Lines on what differs."""
    for key in old:
        if old[key] == new[key]:
            continue
        if isinstance(old[key], dict):
            for address in sorted(set(old[key]) | set(new[key]), key=str):
                one, other = old[key].get(address), new[key].get(address)
                if one != other:
                    yield f"{key}: {address}: {one} and {other}"
        else:
            yield f"{key}: {old[key]} and {new[key]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="commands of corpus.py (default: all)")
    arguments = parser.parse_args()
    sides, bad, total = [str(one.resolve()) for one in (arguments.old, arguments.new)], 0, 0
    for name in arguments.names or corpus.COMMANDS:
        with tempfile.TemporaryDirectory() as place:
            # Of one name, which is a part of texts.
            folders = [pathlib.Path(place, side, name) for side in ("old", "new")]
            for folder in folders:
                folder.parent.mkdir()
            try:
                (old, missed), (new, missed_now) = (measured(*one) for one in zip(sides, [name] * 2, folders, strict=True))
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                print(f"{name}: {error}")
                bad += 1
                continue
            found = list(differences(old, new))
            total += len(old["figures"])
            bad += len(found)
            note = f"; rates missed: {missed} and {missed_now}" if missed or missed_now else ""
            print(f"{name}: {len(old['figures'])} and {len(new['figures'])} figures, {len(found)} differences{note}")
            for line in found[:8]:
                print(f"    {line[:300]}")
    print(f"alike: {total} figures, {bad} differences")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
