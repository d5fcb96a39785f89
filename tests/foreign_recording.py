#!/usr/bin/env python3
"""Plays recordings of another library: foreign_recording.py TRIPMETER

Writes recordings with the Python library `mcap`, of every compression and with and without chunks, plays each with
`TRIPMETER replay` over Unix sockets, and compares what was published with what was written: topics, sizes,
and times to the nanosecond. Prints a line per finding; exit code 1 if there is one. Needs tests/requirements.txt.
"""

import csv
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from mcap.writer import CompressionType, Writer

START_NS = 1_700_000_000_000_000_000
SPEED = 4
HEADER_BYTES = 16
KINDS = [
    (CompressionType.NONE, True),
    (CompressionType.LZ4, True),
    (CompressionType.ZSTD, True),
    (CompressionType.NONE, False),
]


def messages():
    """Topic, nanoseconds after the start, bytes: in the order of a recorder, with a message that comes late to it."""
    rng = random.Random(5)
    made = [("/odom", n * 5_000_000 + rng.randrange(2_000_000), 720) for n in range(80)]
    made += [("/points", n * 100_000_000 + 77, 40_000 + n) for n in range(4)]
    made += [("/estop", n * 150_000_000, 1) for n in range(3)]
    made.sort(key=lambda message: message[1])
    made[10], made[12] = made[12], made[10]
    return made


def write(path, compression, use_chunking):
    """Writes the messages to a file."""
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=10_000, compression=compression, use_chunking=use_chunking)
        writer.start("ros2", "foreign_recording.py")
        schema = writer.register_schema("example/msg/Bytes", "ros2msg", b"uint8[] data")
        channels = {}
        for sequence, (topic, offset_ns, size) in enumerate(messages()):
            if topic not in channels:
                channels[topic] = writer.register_channel(topic, "cdr", schema)
            time = START_NS + offset_ns
            writer.add_message(channels[topic], time, bytes(size), time, sequence)
        writer.finish()


def expected():
    """Of each topic in the order of its first message: size as sent, and when it was to be sent."""
    start = min(offset_ns for _, offset_ns, _ in messages())
    topics = {}
    for topic, offset_ns, size in messages():
        due = round((offset_ns - start) / SPEED)
        topics.setdefault(topic, []).append((due, max(size, HEADER_BYTES)))
    return {topic: sorted(rows, key=lambda row: row[0]) for topic, rows in topics.items()}


def published(folder):
    """The same as the results have it, and what did not arrive."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    names = [topic["name"] for topic in manifest["plan"]["recording"]["topics"]]
    topics, astray = {name: [] for name in names}, 0
    (table,) = folder.glob("samples/*.csv")
    with table.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            topics[row["stream"].removeprefix("topic=")].append((int(row["intended_ns"]), int(row["payload_bytes"])))
            astray += row["status"] != "ok"
    return manifest["plan"]["recording"], topics, astray


def near(found, wanted):
    """Whether the same was published: halves of a nanosecond may be rounded either way."""
    return list(found) == list(wanted) and all(
        len(found[topic]) == len(wanted[topic])
        and all(abs(a[0] - b[0]) <= 1 and a[1] == b[1] for a, b in zip(found[topic], wanted[topic]))
        for topic in wanted
    )


def check(tripmeter, folder, compression, use_chunking):
    """Findings of one kind of recording."""
    place = f"{compression.name}, {'chunks' if use_chunking else 'no chunks'}"
    path, results = folder / f"{compression.name}-{use_chunking}.mcap", folder / f"{compression.name}-{use_chunking}"
    write(path, compression, use_chunking)
    # A second attempt, after a disturbance, would have rows of its own beside the rows of the first.
    words = ["replay", path, "uds", "--no-floor", "-q", "--attempts", 1, "--speed", SPEED, "-o", results]
    run = subprocess.run([tripmeter, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
    if run.returncode != 0:
        return [f"{place}: exit code {run.returncode}: {run.stderr}"]
    recording, topics, astray = published(results)
    findings = [] if near(topics, expected()) else [f"{place}: published {topics}, not {expected()}"]
    if astray:
        findings.append(f"{place}: {astray} messages did not simply arrive")
    if recording["sha256"] != hashlib.sha256(path.read_bytes()).hexdigest():
        findings.append(f"{place}: SHA-256 {recording['sha256']} is not that of the file")
    return findings


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: foreign_recording.py TRIPMETER")
    findings = []
    with tempfile.TemporaryDirectory() as scratch:
        for compression, use_chunking in KINDS:
            findings += check(sys.argv[1], pathlib.Path(scratch), compression, use_chunking)
    for finding in findings:
        print(finding)
    print(f"foreign_recording: {len(KINDS)} recordings, {len(findings)} findings", file=sys.stderr)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
