#!/usr/bin/env python3
"""Makes the files of this folder: inputs from a seed, and what must come of them by numpy and pandas.

    python3 -m pip install numpy==2.2.6 pandas==2.2.3
    python3 make.py

The formulas of eProsima's latency test specification are written here a second time: `tripmeter check`,
`requirements` and `compare` must write the same bytes.
"""

from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
COLUMNS = ["Bytes", "Samples", "Max", "Min", "Mean", "Median", "Stdev", "Mean jitter", "Max jitter", "90%", "99%", "99.99%"]
CHECKS = ["Median", "99%", "Max"]
# Not sorted: the order of first appearance must be kept.
PAYLOADS = [64, 16, 1024]
SUB_EXPERIMENTS = ["interprocess_reliable_tcp", "uds_stream_poll"]
RUNS = 5


def summary(random, scale):
    """A summary of samples as of a transport: a narrow body and a long tail."""
    rows = []
    for payload in PAYLOADS:
        samples = np.round(scale * (1 + payload / 4096) * random.lognormal(0, 0.3, 400), 3)
        jitter = np.abs(np.diff(samples))
        tails = np.percentile(samples, [90, 99, 99.99])
        body = [samples.max(), samples.min(), samples.mean(), np.median(samples), samples.std()]
        rows.append([payload, samples.size, *body, jitter.mean(), jitter.max(), *tails])
    return pd.DataFrame(rows, columns=COLUMNS).round(3)


def write(frame, *path):
    """Writes a file of this folder, floats with three decimals."""
    file = HERE.joinpath(*path)
    file.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(file, float_format="%.3f", index=False)


def read(*path):
    """Reads back what was written: every figure below is computed from rounded numbers."""
    return pd.read_csv(HERE.joinpath(*path))


def checks(requirements, experiment):
    """The report of one sub-experiment: all medians, then all 99th percentiles, then all maxima."""
    rows = []
    for check in CHECKS:
        for payload in requirements["Bytes"]:
            limit = np.float64(requirements.loc[requirements["Bytes"] == payload, check].iloc[0])
            measured = np.float64(experiment.loc[experiment["Bytes"] == payload, check].iloc[0])
            difference = limit - measured
            with np.errstate(all="ignore"):
                over = (-difference * 100) / limit
            status = "passed" if difference >= 0 else "failed"
            rows.append([check, payload, limit, measured, abs(difference), over, status])
    header = ["Check", "Bytes", "Requirement", "Experiment", "Difference", "Percentage over requirement", "Status"]
    return pd.DataFrame(rows, columns=header)


def requirements_of(runs):
    """The 99th percentile over all runs of each median, 99th percentile and maximum."""
    rows = []
    for name in SUB_EXPERIMENTS:
        frames = pd.concat([read("runs", run, f"measurements_{name}_summary.csv") for run in runs])
        for payload in frames["Bytes"].unique():
            of_payload = frames[frames["Bytes"] == payload]
            rows.append([name, payload, *(np.percentile(of_payload[check], 99) for check in CHECKS)])
    return pd.DataFrame(rows, columns=["Experiment type", "Bytes", *CHECKS])


def main():
    random = np.random.default_rng(20200327)
    runs = [f"2026-01-{day:02}_12-00-00" for day in range(1, RUNS + 1)]
    for run in runs:
        for scale, name in zip([40, 3], SUB_EXPERIMENTS):
            write(summary(random, scale), "runs", run, f"measurements_{name}_summary.csv")
    write(requirements_of(runs), "expected", "requirements.csv")

    # Limits that are met exactly, that are zero, and zero against zero.
    limits = read("expected", "requirements.csv")
    edge = read("runs", runs[0], f"measurements_{SUB_EXPERIMENTS[1]}_summary.csv")
    limits.loc[3, "Median"] = edge.loc[0, "Median"]
    limits.loc[4, "99%"] = 0
    limits.loc[5, "Max"] = 0
    edge.loc[2, "Max"] = 0
    write(limits, "limits.csv")
    write(edge, "experiment", f"measurements_{SUB_EXPERIMENTS[1]}_summary.csv")
    plain = read("runs", runs[1], f"measurements_{SUB_EXPERIMENTS[0]}_summary.csv")
    write(plain, "experiment", f"measurements_{SUB_EXPERIMENTS[0]}_summary.csv")

    for name in SUB_EXPERIMENTS:
        of_name = limits[limits["Experiment type"] == name]
        measured = read("experiment", f"measurements_{name}_summary.csv")
        write(checks(of_name, measured), "expected", f"checks_{name}.csv")
        reference = read("runs", runs[0], f"measurements_{name}_summary.csv").assign(Label=f"Reference: {runs[0]}")
        both = pd.concat([reference, measured.assign(Label="Result: experiment")])
        write(both, "expected", f"{name}_comparison.csv")


if __name__ == "__main__":
    main()
