#!/usr/bin/env python3
"""Files of scripts/fuzz.sh: counts of executions, the corpus, and dictionaries for libFuzzer.

fuzz.py words FOLDER                   a dictionary of the words in a folder of inputs
fuzz.py length TARGET                  maximum bytes of an input
fuzz.py left TARGET COUNT              executions still missing to reach COUNT
fuzz.py record TARGET LOG FOLDER       adds the executions of a log to docs/results/fuzz/executions.json
fuzz.py pack FOLDER ARCHIVE            packs the inputs of a folder into an archive of bounded size, the smallest first
fuzz.py table FILE                     the counts as Markdown
"""

import fcntl
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNTS = ROOT / "docs/results/fuzz/executions.json"
LOCK = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "fuzz/lock"
# All archives together stay below 2 MB.
MOST_PACKED_BYTES = 110_000
TARGET = re.compile(r'target!\(\s*"(\w+)",\s*"([^"]+)",\s*"([\w.]+)",\s*(\d+),')


def targets():
    """For each target by name: input format, source file and maximum bytes of an input."""
    text = (ROOT / "crates/fuzz/src/lib.rs").read_text()
    return {name: (reads, source, int(most)) for name, reads, source, most in TARGET.findall(text)}


def revision(target):
    """First 12 digits of the hash of a target's source file."""
    source = ROOT / "crates/fuzz/src" / targets()[target][1]
    return hashlib.sha256(source.read_bytes()).hexdigest()[:12]


def counts():
    """Executions counted so far, by target."""
    return json.loads(COUNTS.read_text()) if COUNTS.is_file() else {}


def counted(target):
    """Executions of a target with its current source."""
    entry = counts().get(target, {})
    return entry.get("executions", 0) if entry.get("source") == revision(target) else 0


def record(target, log, folder):
    """Adds a run. Executions with an older source of the target are dropped."""
    executed = re.search(r"stat::number_of_executed_units: *(\d+)", pathlib.Path(log).read_text(errors="replace"))
    COUNTS.parent.mkdir(parents=True, exist_ok=True)
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with open(LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        executions = counted(target) + (int(executed[1]) if executed else 0)
        all_counts = counts()
        inputs = sum(1 for _ in pathlib.Path(folder).iterdir())
        all_counts[target] = {"executions": executions, "source": revision(target), "inputs": inputs}
        # The file is replaced in one step, because another run may be reading it.
        written = COUNTS.with_suffix(f".{os.getpid()}")
        written.write_text(json.dumps(dict(sorted(all_counts.items())), indent=2) + "\n")
        written.replace(COUNTS)


def words(folder):
    """Prints words of three letters or more, as a dictionary for libFuzzer."""
    found = {}
    for file in sorted(pathlib.Path(folder).iterdir())[:2000]:
        for word in re.findall(rb"[A-Za-z_][A-Za-z0-9_-]{2,30}", file.read_bytes()):
            found[word] = found.get(word, 0) + 1
    often = sorted(found, key=lambda word: (-found[word], word))[:400]
    print("".join(f'"{word.decode()}"\n' for word in often), end="")


def pack(folder, archive):
    """Writes the archive; equal inputs make equal bytes."""
    files = sorted(pathlib.Path(folder).iterdir(), key=lambda file: (file.stat().st_size, file.name))
    while True:
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
            for file in files:
                entry = tarfile.TarInfo(file.name[:12])
                entry.size = file.stat().st_size
                tar.addfile(entry, io.BytesIO(file.read_bytes()))
        if packed.tell() <= MOST_PACKED_BYTES:
            break
        files = files[: int(len(files) * min(0.95, MOST_PACKED_BYTES / packed.tell()))]
    pathlib.Path(archive).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(archive).write_bytes(packed.getvalue())
    print(f"fuzz: {archive}: {len(files)} inputs, {packed.tell()} bytes")


def table(file):
    """Prints the table, with one row per target."""
    found = json.loads(pathlib.Path(file).read_text())
    print("| target | reads | executions | inputs that once failed |\n| --- | --- | ---: | ---: |")
    for name, (reads, _, _) in sorted(targets().items()):
        entry = found.get(name, {})
        faults = sum(1 for _ in (ROOT / "fuzz/regressions" / name).glob("*"))
        # Executions of an older source of the target do not count.
        executions = entry.get("executions", 0) if entry.get("source") == revision(name) else 0
        print(f"| `{name}` | {reads} | {executions:,} | {faults} |")


def main(command, *arguments):
    """Runs the command."""
    if command == "length":
        print(targets()[arguments[0]][2])
    elif command == "left":
        print(max(0, int(arguments[1]) - counted(arguments[0])))
    else:
        {"words": words, "record": record, "pack": pack, "table": table}[command](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
