#!/usr/bin/env python3
"""Time and memory of `tripmeter-archive` against the number of samples.

    python3 archive/bench/run.py --archive target/archive/release/tripmeter-archive --output docs/results/archive.md

Four runs of a million round trips are measured, and their samples archived as Parquet. Synthetic results repeat these files
(hard links): each such folder says so in its plan (`synthetic: repeats ...`) and has a day and a machine of its own, and each
week of a machine one of the four. They are pushed until the archive has 10^6, 10^7, ... samples, and each time the p99 by
machine and week is asked for, which must be that of the repeated samples, computed here from the CSV files.

Exit code: 0 good, 1 a p99 is wrong or memory was above --memory, 69 too little disk, 70 a command failed.
"""

import argparse
import collections
import csv
import datetime
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
QUERY = ROOT / "archive" / "queries" / "p99_by_machine_and_week.sql"
BASE_SAMPLES = 1_000_000
BASES = [("uds/stream", "64"), ("uds/stream", "1k"), ("pipe", "64"), ("uds/stream", "4k")]
MACHINES = ("lab-1", "lab-2")
# A Monday.
FIRST_DAY = datetime.date(2024, 1, 1)
# Bytes that stay free on the disk, and what a sample takes until that is measured.
DISK_RESERVE = 7 << 30
BYTES_OF_SAMPLE = 8
# Folders that are made and pushed at a time.
AT_A_TIME = 50


class Failed(Exception):
    """A command that failed."""


def run(command):
    """Runs a command; returns its output, and seconds, CPU seconds and MiB of memory at most."""
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        process = subprocess.Popen([str(part) for part in command], stdout=output, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise Failed(f"{command[0]} {command[1]} ended with {process.returncode}")
        output.seek(0)
        text = output.read().decode()
    return text, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(options, folder):
    """Measures the bases that are not there; returns their folders and how often each value of a round trip occurs."""
    found = []
    for number, (transport, payload) in enumerate(BASES):
        base = (options.bases or folder) / f"base-{number}"
        if not base.exists():
            command = [options.tripmeter, "ping", transport, "--payloads", payload, "-n", BASE_SAMPLES]
            run(command + ["--wait", "block", "--time-cap", 600, "--raw", "samples", "--no-floor", "--no-report", "-o", base])
        (file,) = base.glob("samples/*.csv")
        if not file.with_suffix(".parquet").exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                run([options.archive, "push", base, scratch])
                (written,) = Path(scratch).glob("samples/**/*.parquet")
                shutil.move(written, file.with_suffix(".parquet"))
        trials = collections.defaultdict(collections.Counter)
        with file.open() as rows:
            for row in csv.DictReader(rows):
                if row["status"] == "ok":
                    trials[int(row["trial"])][int(row["answered_ns"]) - int(row["sent_ns"])] += 1
        # Attempts before the last were set aside.
        found.append((base, trials[max(trials)]))
    return found


def place(copy):
    """The machine, the day, and the base of a copy: one base for each week of a machine."""
    machine, day = copy % len(MACHINES), copy // len(MACHINES)
    return machine, FIRST_DAY + datetime.timedelta(days=day), (day // 7 + 2 * machine) % len(BASES)


def repeat(base, folder, day, copy):
    """Makes a results folder that says that it is synthetic."""
    (folder / "samples").mkdir(parents=True)
    (file,) = base.glob("samples/*.parquet")
    os.link(file, folder / "samples" / file.name)
    shutil.copy(base / "trials.jsonl", folder)
    manifest = json.loads((base / "manifest.json").read_text())
    manifest["started"] = f"{day}T12:00:00+00:00"
    manifest["ended"] = f"{day}T12:01:00+00:00"
    manifest["plan"]["source"] = f"synthetic: repeats {base.name}, copy {copy}"
    (folder / "manifest.json").write_text(json.dumps(manifest))


def push(options, bases, folder, copies):
    """Pushes these copies; returns seconds and the most memory."""
    seconds, memory = 0.0, 0.0
    for begin in range(copies.start, copies.stop, AT_A_TIME):
        some = range(begin, min(begin + AT_A_TIME, copies.stop))
        for machine, name in enumerate(MACHINES):
            source = folder / "source"
            ours = [copy for copy in some if place(copy)[0] == machine]
            if not ours:
                continue
            for copy in ours:
                _, day, base = place(copy)
                repeat(bases[base][0], source / f"copy-{copy:05}", day, copy)
            _, took, _, most = run([options.archive, "push", source, folder / "archive", "--machine", name])
            seconds, memory = seconds + took, max(memory, most)
            shutil.rmtree(source)
    return seconds, memory


def quantile(counts, times, p):
    """The p quantile of values that all occur so many times more, interpolated."""
    position = p * (sum(counts.values()) * times - 1)
    wanted, ends, up_to = [math.floor(position), math.floor(position) + 1], [], 0
    for value, count in sorted(counts.items()):
        up_to += count * times
        while len(ends) < 2 and up_to > wanted[len(ends)]:
            ends.append(value)
    low, high = ends[0], ends[-1]
    return low + (high - low) * (position - math.floor(position))


def wrong(bases, copies, answer):
    """Rows of the answer that are not right, and how many there should be."""
    weeks = collections.Counter()
    of = {}
    for copy in range(copies):
        machine, day, base = place(copy)
        week = (MACHINES[machine], str(day - datetime.timedelta(days=day.weekday())))
        weeks[week] += 1
        of[week] = base
    rows = {(row["machine"], row["week"]): row for row in csv.DictReader(answer.splitlines())}
    bad = []
    for week, times in weeks.items():
        counts = bases[of[week]][1]
        expected = (sum(counts.values()) * times, quantile(counts, times, 0.99))
        found = rows.pop(week, None)
        if found is None or int(found["samples"]) != expected[0] or abs(float(found["p99_ns"]) - expected[1]) > 0.01:
            bad.append(f"{week}: {found} is not {expected}")
    return bad + [f"{week} is not expected" for week in rows], len(weeks)


def bytes_below(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def steps(options, folder):
    """Fills the archive; yields a row for each size, and what was wrong."""
    bases = measure(options, folder)
    archive, done, seconds, memory, per_sample = folder / "archive", 0, 0.0, 0.0, BYTES_OF_SAMPLE
    size = BASE_SAMPLES
    while size <= options.largest:
        copies = size // BASE_SAMPLES
        need = (size - done * BASE_SAMPLES) * per_sample + DISK_RESERVE
        free = shutil.disk_usage(folder).free
        if free < need:
            print(f"bench: {size} samples need {need >> 20:.0f} MiB, and {free >> 20} are free", file=sys.stderr)
            return
        took, most = push(options, bases, folder, range(done, copies))
        done, seconds, memory = copies, seconds + took, max(memory, most)
        written = bytes_below(archive)
        per_sample = math.ceil(written / size) + 1
        command = [options.archive, "query", archive, QUERY.read_text(), "--csv", "--memory", options.memory]
        answer, of_query, cpu, of_memory = run(command)
        bad, weeks = wrong(bases, copies, answer)
        yield (size, copies, written, seconds, memory, of_query, cpu, of_memory, weeks), bad
        size *= 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tripmeter", default=ROOT / "target/release/tripmeter", type=Path)
    parser.add_argument("--archive", default=ROOT / "target/archive/release/tripmeter-archive", type=Path)
    parser.add_argument("--largest", default=10**9, type=int, help="most samples")
    parser.add_argument("--memory", default="2G", help="of the query")
    parser.add_argument("--folder", type=Path, help="scratch folder [default: a temporary one]")
    parser.add_argument("--bases", type=Path, help="folder of the runs that are repeated, on the same disk; kept")
    parser.add_argument("--output", type=Path, help="the table as Markdown")
    options = parser.parse_args()
    most = int(options.memory[:-1]) * {"G": 1024, "M": 1}[options.memory[-1]]
    with tempfile.TemporaryDirectory(prefix="tripmeter-archive-", dir=options.folder) as scratch:
        lines, code = [], 0
        head = ["samples", "runs", "archive [MB]", "bytes each", "push [s]", "push, memory [MiB]"]
        head += ["p99 by machine and week [s]", "its CPU [s]", "its memory [MiB]", "rows, all exact"]
        lines.append("| " + " | ".join(head) + " |")
        lines.append("|" + " ---: |" * len(head))
        for (size, runs, written, push_s, push_mib, query_s, cpu_s, query_mib, weeks), bad in steps(options, Path(scratch)):
            cells = [f"{size:,}", f"{runs:,}", f"{written / 1e6:.1f}", f"{written / size:.2f}", f"{push_s:.1f}"]
            cells += [f"{push_mib:.0f}", f"{query_s:.1f}", f"{cpu_s:.1f}", f"{query_mib:.0f}", str(weeks - len(bad))]
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
            for line in bad[:5]:
                print(f"bench: wrong: {line}", file=sys.stderr)
            code = max(code, int(bool(bad) or query_mib > most))
            if options.output:
                options.output.write_text("\n".join(lines) + f"\n\n{about(options)}\n")
    return code if len(lines) > 2 else 69


def about(options):
    """What the table was made on."""
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    program = "optimised by release" if "release" in str(options.archive) else "of the development profile"
    return (
        f"{datetime.date.today()}, {os.cpu_count()} CPUs ({models[0] if models else platform.machine()}), "
        f"`--memory {options.memory}`, a program {program}. Memory is the most that was resident."
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(70)
