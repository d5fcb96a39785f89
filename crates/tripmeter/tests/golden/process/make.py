#!/usr/bin/env python3
"""Writes the golden files beside it, with the formulas of eProsima's latency_process_results.py; made with numpy 2.4.6.

raw.csv, summary.csv: samples and what `tripmeter eprosima process` must make of them, to the byte. figures.csv: figures to the last
bit, of samples that crates/stats makes itself by the same integer arithmetic.
"""

import csv
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
COUNTS = [1, 2, 3, 7, 8, 9, 16, 100, 127, 128, 129, 136, 255, 1000, 2047, 2048, 5000, 20011]


def figures(samples):
    """Max, Min, Mean, Median, Stdev, Mean jitter, Max jitter, 90%, 99%, 99.99%."""
    jitter = [abs(later - earlier) for earlier, later in zip(samples, samples[1:])]
    return [np.max(samples), np.min(samples), np.mean(samples), np.median(samples), np.std(samples),
            np.mean(jitter) if jitter else np.nan, np.max(jitter) if jitter else np.nan,
            np.percentile(samples, 90), np.percentile(samples, 99), np.percentile(samples, 99.99)]


def sample(kind, index):
    """A sample in microseconds; the same formulas are in crates/stats/src/latency.rs."""
    scrambled = (index * 7919) % 10007
    return {"saw": (scrambled + 500) / 1000, "tail": (scrambled * scrambled % 1000003 * scrambled + 1) / 1000000,
            "steps": (scrambled % 5 + 1) / 2}[kind]


def write_figures():
    with (HERE / "figures.csv").open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["kind", "count", "max", "min", "mean", "median", "stdev", "mean_jitter", "max_jitter", "p90", "p99",
                         "p9999"])
        for kind in ("saw", "tail", "steps"):
            for count in COUNTS:
                values = figures([sample(kind, index) for index in range(count)])
                writer.writerow([kind, count, *(repr(float(value)) for value in values)])


def write_summary():
    random = np.random.default_rng(3)
    payloads = {64: 700, 16: 500, 1048576: 1, 32: 300}
    texts = {payload: [f"{value:.{3 + payload % 48 // 16}f}" for value in random.lognormal(2, 0.5, count)]
             for payload, count in payloads.items()}
    raw, summary = ["Sample,Payload [Bytes],Latency [us]"], [
        "Bytes,Samples,Max,Min,Mean,Median,Stdev,Mean jitter,Max jitter,90%,99%,99.99%"]
    for payload, values in texts.items():
        raw += [f"{len(raw) + index},{payload},{value}" for index, value in enumerate(values)]
        row = figures([float(value) for value in values])
        summary.append(f"{payload},{len(values)}," + ",".join(f"{value:.3f}" for value in row))
    for name, lines in (("raw", raw), ("summary", summary)):
        (HERE / f"{name}.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_figures()
    write_summary()
