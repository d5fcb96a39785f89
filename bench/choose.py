#!/usr/bin/env python3
"""Simulates how often `choose` reports a difference between transports that are equal.

    python3 bench/choose.py --output docs/results/choose.md

Each run draws a latency for every transport and round; some transports are equal, the others twice as slow. It judges
their ratios to the first as `choose` does: sign tests, and Benjamini and Hochberg's procedure at 5 %. The table counts
runs in which an equal transport differs from the first, by this procedure and by single intervals at 95 %.

This is a second source of the figures in docs/choose.md: it shares no code with the program.
"""

import argparse
import math
import random
import statistics
from functools import lru_cache
from pathlib import Path

ALPHA = 0.05
# Standard deviation of the logarithm of a round's figure.
NOISE = 0.02
# Numbers of equal and of slower transports.
FIELDS = [(9, 0), (5, 4)]
ROUNDS = [6, 12, 20, 30, 60]


@lru_cache(maxsize=None)
def sign_test(fewer, count):
    """Two-sided p-value of the sign test with `fewer` of `count` values on the rarer side."""
    return min(1.0, 2 * sum(math.comb(count, k) for k in range(fewer + 1)) / 2**count)


def p_value(one, first):
    """P-value of "the median ratio is 1"; both have a value for each round."""
    below = sum(a <= b for a, b in zip(one, first))
    above = sum(a >= b for a, b in zip(one, first))
    return sign_test(min(below, above), len(one))


def lead(ranked):
    """Puts the transport first that is ahead of all others round by round."""
    for _ in ranked:
        ahead = (
            place
            for place in range(1, len(ranked))
            if p_value(ranked[place][1], ranked[0][1]) <= ALPHA
            and statistics.median(a / b for a, b in zip(ranked[place][1], ranked[0][1])) < 1
        )
        place = next(ahead, None)
        if place is None:
            break
        ranked.insert(0, ranked.pop(place))


def run(draw, equal, slower, rounds):
    """Returns whether an equal transport differs from the first: by single intervals, and by the procedure."""
    sides = [(place < equal, []) for place in range(equal + slower)]
    for is_fast, values in sides:
        values.extend((1 if is_fast else 2) * math.exp(draw.gauss(0, NOISE)) for _ in range(rounds))
    ranked = sorted(sides, key=lambda side: statistics.median(side[1]))
    lead(ranked)
    judged = sorted((p_value(values, ranked[0][1]), is_fast) for is_fast, values in ranked[1:])
    found = max((n for n, (p, _) in enumerate(judged, 1) if p <= ALPHA * n / len(judged)), default=0)
    level = ALPHA * max(found, 1) / len(judged)
    return tuple(any(is_fast and p <= at for p, is_fast in judged) for at in (ALPHA, level))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4000, help="simulated runs for each row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown file; standard output if left out")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    lines = [
        "| equal | slower | rounds | an equal one differs, single intervals | as `choose` judges |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for equal, slower in FIELDS:
        for rounds in ROUNDS:
            found = [run(draw, equal, slower, rounds) for _ in range(options.runs)]
            shares = (f"{100 * sum(one[by] for one in found) / len(found):.1f} %" for by in (0, 1))
            lines.append(f"| {equal} | {slower} | {rounds} | {' | '.join(shares)} |")
    text = "\n".join(lines) + "\n"
    options.output.write_text(text) if options.output else print(text, end="")


if __name__ == "__main__":
    main()
