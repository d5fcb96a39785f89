#!/usr/bin/env python3
"""Makes runs as input for `tripmeter eprosima determine-requirements`, and times the command on them.

    bench/requirements/run.py --tripmeter target/release/tripmeter

makes 200 runs of ten sub-experiments with 11 payloads and 1,000 samples of each, 22 million rows in 2,000 files, in a
temporary folder (about 400 MB), runs `tripmeter eprosima determine-requirements` on them, and prints rows, bytes, seconds and peak memory
as JSON. With --keep DIR the runs are made there and kept; runs that are there already are used again.
"""

import argparse
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SUB_EXPERIMENTS = [
    f"{process}_{reliability}{transport}"
    for process, reliability, transport in [
        ("intraprocess", "best_effort", ""),
        ("intraprocess", "reliable", ""),
        *(
            ("interprocess", reliability, transport)
            for reliability in ["best_effort", "reliable"]
            for transport in ["", "_security", "_tcp", "_tcp_security"]
        ),
    ]
]
PAYLOADS = [1 << exponent for exponent in range(4, 15)]
# Each file has its own order and scale of these values: no two files are equal, and making them is fast.
SHAPES = [random.Random(7).lognormvariate(0, 0.3) for _ in range(100_003)]


def make_file(file, seed, samples):
    """Writes one file of samples atomically."""
    rng = random.Random(seed)
    rows = ["Sample,Payload [Bytes],Latency [us]\n"]
    number = 0
    for payload in PAYLOADS:
        scale = rng.uniform(5, 60) * (1 + payload / 8192)
        start, step = rng.randrange(len(SHAPES)), rng.randrange(1, len(SHAPES))
        for index in range(samples):
            number += 1
            rows.append("%d,%d,%.3f\n" % (number, payload, scale * SHAPES[(start + index * step) % len(SHAPES)]))
    half = file.with_suffix(".half")
    half.write_text("".join(rows))
    half.rename(file)


def make_run(job):
    folder, run, samples = job
    folder.mkdir(parents=True, exist_ok=True)
    for index, name in enumerate(SUB_EXPERIMENTS):
        file = folder / f"measurements_{name}.csv"
        if not file.exists():
            make_file(file, run * len(SUB_EXPERIMENTS) + index, samples)


def make(folder, runs, samples):
    """Writes all runs; returns their bytes."""
    jobs = [(folder / f"run-{run:04}", run, samples) for run in range(1, runs + 1)]
    with multiprocessing.Pool() as pool:
        for done, _ in enumerate(pool.imap_unordered(make_run, jobs), 1):
            if sys.stderr.isatty():
                print(f"\rmade {done} of {runs} runs", end="\n" if done == runs else "", file=sys.stderr)
    return sum(file.stat().st_size for file in folder.glob("run-*/*.csv"))


def measure(tripmeter, folder):
    """Runs the command; returns seconds and peak memory in bytes."""
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "requirements.csv"
        begin = time.perf_counter()
        command = [tripmeter, "eprosima", "determine-requirements", "-e", folder, "-o", output]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"tripmeter ended with {process.returncode}")
        rows = len(output.read_text().splitlines()) - 1
    if rows != len(SUB_EXPERIMENTS) * len(PAYLOADS):
        sys.exit(f"{rows} requirements instead of {len(SUB_EXPERIMENTS) * len(PAYLOADS)}")
    return seconds, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tripmeter", default="target/release/tripmeter", help="the program")
    parser.add_argument("--runs", type=int, default=200, help="default 200")
    parser.add_argument("--samples", type=int, default=1000, help="of each payload; default 1000")
    parser.add_argument("--repeats", type=int, default=3, help="of the measurement; default 3")
    parser.add_argument("--keep", type=Path, help="folder in which the runs are made and kept")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        size = make(folder, args.runs, args.samples)
        measured = [measure(args.tripmeter, folder) for _ in range(args.repeats)]
    rows = args.runs * len(SUB_EXPERIMENTS) * len(PAYLOADS) * args.samples
    seconds = sorted(seconds for seconds, _ in measured)
    figures = {
        "runs": args.runs,
        "files": args.runs * len(SUB_EXPERIMENTS),
        "rows": rows,
        "bytes": size,
        "processors": len(os.sched_getaffinity(0)),
        "seconds": [round(value, 3) for value in seconds],
        "rows_per_second": round(rows / seconds[len(seconds) // 2]),
        "peak_memory_bytes": max(memory for _, memory in measured),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
