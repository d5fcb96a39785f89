#!/usr/bin/env python3
"""Compares medians with and without `--live`, in interleaved pairs of runs on a pseudo-terminal.

    python3 bench/live.py --tripmeter target/release/tripmeter --output docs/results/live.md

Each pair measures every payload of every transport once with the live view and once with the progress bar, in random
order. The ratio is the median over pairs of with / without; its interval of at least 95 % is from order statistics.

Verdict of a median: equivalent if the interval lies within 2 % of 1, differs if it lies outside, else "cannot be told".

Exit code: 0 none differs, 1 some do, 69 something is missing, 70 a run failed.
"""

import argparse
import csv
import fcntl
import math
import os
import pty
import random
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

# Ratios within this distance of 1 are equivalent.
MARGIN = 0.02
# Time limit of a run in seconds.
LONGEST = 300


def run(options, transport, is_live, folder):
    """Runs once on a terminal; returns the median of each payload in nanoseconds."""
    command = [options.tripmeter, "ping", transport, "--payloads", options.payloads, "-n", str(options.samples)]
    command += ["--time-cap", str(options.time_cap), "--raw", "none", "--no-floor", "--no-spin", "--no-report"]
    command += ["-o", folder, *["--live"][: int(is_live)]]
    keyboard, line = pty.openpty()
    fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    child = subprocess.Popen(command, stdin=line, stdout=line, stderr=line, env=os.environ | {"TERM": "xterm"})
    os.close(line)
    shown, end = b"", time.monotonic() + LONGEST
    while child.poll() is None or select.select([keyboard], [], [], 0)[0]:
        if time.monotonic() > end:
            child.kill()
        if select.select([keyboard], [], [], 0.1)[0]:
            try:
                shown += os.read(keyboard, 65536)
            except OSError:  # All programs have closed it.
                break
    os.close(keyboard)
    if child.wait() != 0:
        last = shown[-2000:].decode(errors="replace")
        sys.stderr.write(f"{' '.join(command)}: exit code {child.returncode}\n{last}\n")
        sys.exit(70)
    if (b"\x1b[?1049h" in shown) != is_live:
        sys.exit(f"{transport}: the view was {'not ' if is_live else ''}there")
    with open(Path(folder) / "metrics.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["stream"], row["figure"]) == ("all", "rtt_half_ns")]
    return {int(row["payload_bytes"]): float(row["value"]) for row in rows if row["statistic"] == "p50"}


def interval(values):
    """Confidence interval of the median, at least 95 %; None if there are too few values."""
    values, below = sorted(values), 0.0
    for index in range(len(values) // 2):
        below += math.comb(len(values), index) / 2 ** len(values)
        if below > 0.025:
            return (values[index - 1], values[-index]) if index > 0 else None
    return None


def table(pairs):
    """The table as Markdown, and whether no median differs."""
    lines = [
        "| transport | payload [B] | pairs | without, median [µs] | with `--live` [µs] | ratio | 95 % | |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    is_same = True
    for (transport, payload), both in sorted(pairs.items()):
        ratios = [with_view / without for without, with_view in both]
        without, with_view = (statistics.median(side) / 1000 for side in zip(*both))
        found = interval(ratios)
        text = f"{found[0]:.3f} to {found[1]:.3f}" if found else "too few pairs"
        low, high = found or (0.0, math.inf)
        differs = low > 1 + MARGIN or high < 1 - MARGIN
        is_equivalent = low >= 1 - MARGIN and high <= 1 + MARGIN
        verdict = "differs" if differs else "equivalent" if is_equivalent else "cannot be told"
        is_same &= not differs
        ratio = statistics.median(ratios)
        figures = f"{without:.3f} | {with_view:.3f} | {ratio:.3f} | {text}"
        lines.append(f"| {transport} | {payload} | {len(both)} | {figures} | {verdict} |")
    return "\n".join(lines) + "\n", is_same


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tripmeter", default="target/release/tripmeter")
    parser.add_argument("--transports", nargs="+", default=["shm", "uds", "tcp"])
    parser.add_argument("--payloads", default="1k,64k")
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--time-cap", type=float, default=2, help="seconds of a payload")
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown file; standard output if left out")
    options = parser.parse_args()
    if not os.access(options.tripmeter, os.X_OK):
        sys.stderr.write(f"'{options.tripmeter}' does not exist; build it, or name it with --tripmeter\n")
        sys.exit(69)
    order, pairs = random.Random(options.seed), {}
    for pair in range(options.pairs):
        for transport in order.sample(options.transports, len(options.transports)):
            sides = {}
            for is_live in order.sample([False, True], 2):
                with tempfile.TemporaryDirectory() as folder:
                    sides[is_live] = run(options, transport, is_live, str(Path(folder) / "results"))
            for payload, median in sides[False].items():
                pairs.setdefault((transport, payload), []).append((median, sides[True][payload]))
        print(f"pair {pair + 1} of {options.pairs}", file=sys.stderr, flush=True)
    text, is_same = table(pairs)
    options.output.write_text(text) if options.output else print(text, end="")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
