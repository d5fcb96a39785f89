#!/usr/bin/env python3
"""Writes files of raw measurements: generate.py FOLDER [--files N] [--payloads N] [--samples N] [--numbers ours|latencytest].

Latencies are lognormal with a drift, a second mode and rare stalls, so that neither order nor shape is trivial. The same
arguments give the same bytes.
"""

import argparse
from pathlib import Path

import numpy as np

HEADER = "Sample,Payload [Bytes],Latency [us]\n"
# Tripmeter writes three decimals; LatencyTest, through a C++ stream, six significant digits.
FORMATS = {"ours": "%.3f", "latencytest": "%g"}


def latencies_us(random, payload_bytes, samples):
    base = 5 + payload_bytes / 4096
    values = base * random.lognormal(0, 0.08, samples)
    values += np.where(random.random(samples) < 0.1, 0.4 * base, 0)
    values += np.linspace(0.5, 0, samples)
    stalls = random.random(samples) < 0.002
    values[stalls] *= random.pareto(1.5, stalls.sum()) + 1
    return values


def write(file, seed, payloads, samples, number):
    """One file: payloads 16, 32, 64, … bytes, one after the other."""
    random = np.random.default_rng(seed)
    with file.open("w") as out:
        out.write(HEADER)
        for index in range(payloads):
            payload_bytes = 16 << index
            row = f"%d,{payload_bytes},{number}\n"
            values = latencies_us(random, payload_bytes, samples).tolist()
            first = index * samples + 1
            out.write("".join([row % pair for pair in enumerate(values, first)]))


def generate(folder, files, payloads, samples, numbers):
    """Paths of the files; writes those that do not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for seed in range(files):
        file = folder / f"measurements_{numbers}_{payloads}x{samples}_{seed:03}.csv"
        if not file.exists():
            partial = file.with_suffix(".partial")
            write(partial, seed, payloads, samples, FORMATS[numbers])
            partial.rename(file)
        made.append(file)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--payloads", type=int, default=11)
    parser.add_argument("--samples", type=int, default=100_000, help="per payload")
    parser.add_argument("--numbers", choices=FORMATS, default="ours")
    arguments = parser.parse_args()
    for file in generate(arguments.folder, arguments.files, arguments.payloads, arguments.samples, arguments.numbers):
        print(file)


if __name__ == "__main__":
    main()
