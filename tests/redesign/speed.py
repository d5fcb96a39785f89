#!/usr/bin/env python3
"""Compares the speed of two release builds: speed.py OLD NEW [PAIRS].

Both measure the same workloads in pairs, in random order, on a machine that does nothing else. For each workload it prints
the median of the ratios new / old with a distribution-free interval at 95 %; latencies are better below 1, rates above.
"""

import csv
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

# Words of the command, and the figure and statistic that are compared.
WORKLOADS = {
    "ping shm": (["ping", "shm", "-n", "300000"], "rtt_half_ns", "p50"),
    "ping uds/stream": (["ping", "uds/stream", "-n", "60000"], "rtt_half_ns", "p50"),
    "ping inmem": (["ping", "inmem", "-n", "300000"], "rtt_half_ns", "p50"),
    "call shm": (["call", "shm", "-n", "200000"], "service_rtt_ns", "p50"),
    "throughput shm": (["throughput", "shm", "--duration", "0.6"], "received_rate_hz", "value"),
    "publish shm": (["publish", "shm", "--rate", "50000", "-n", "30000"], "service_ns", "p50"),
}
COMMON = ["--wait", "poll", "--payloads", "64", "--no-floor", "--no-spin", "--no-report", "--raw", "none", "-q", "--attempts", "1"]
LONGEST_S = 120
Z = 1.96


def measured(program, words, figure, statistic):
    """The figure of all messages in one run."""
    with tempfile.TemporaryDirectory() as place:
        results = pathlib.Path(place) / "results"
        subprocess.run([program, *words, *COMMON, "-o", results], stdout=subprocess.DEVNULL, check=True, timeout=LONGEST_S)
        with open(results / "metrics.csv", encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if (row["stream"], row["figure"], row["statistic"]) == ("all", figure, statistic):
                    return float(row["value"])
    raise SystemExit(f"{program}: {' '.join(words)} has no {figure}.{statistic}")


def main():
    """Measures all pairs and prints a line for each workload."""
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    programs, pairs = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) == 4 else 40
    ratios = {name: [] for name in WORKLOADS}
    for _ in range(pairs):
        for name, workload in WORKLOADS.items():
            values = {program: measured(program, *workload) for program in random.sample(programs, 2)}
            ratios[name].append(values[programs[1]] / values[programs[0]])
    for name, found in ratios.items():
        found.sort()
        least = max(0, int((pairs - Z * pairs**0.5) / 2))
        low, high = found[least], found[pairs - 1 - least]
        print(f"{name:16} new / old {statistics.median(found):.4f} ({low:.4f} to {high:.4f}, {pairs} pairs)")


if __name__ == "__main__":
    main()
