#!/usr/bin/env python3
"""Plots idle latency beside latency under load, from results of `tripmeter run interference`.

    python3 bench/interference.py docs/results/interference docs/plots/interference.svg

Bars are medians over rounds of p50 and p99 of the smallest payload; lines from the lowest to the highest round. It needs
bench/scale/requirements.txt.
"""

import json
import statistics
import sys
from pathlib import Path

STATISTICS = {"p50": "#0072b2", "p99": "#d55e00"}


def trials(folder):
    """Trials that count: the last attempt of each payload."""
    found = {}
    for line in (folder / "trials.jsonl").read_text(encoding="utf-8").split("\n")[:-1]:
        line = json.loads(line)
        if line["kind"] == "trial":
            found[line["sub_experiment"], line["round"], line["payload_bytes"]] = line
    return found


def main():
    folder, target = map(Path, sys.argv[1:])
    plan = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["plan"]
    import matplotlib

    matplotlib.use("svg")
    # Reproducible output; text stays text, which keeps the file small.
    matplotlib.rcParams.update({"svg.hashsalt": "tripmeter", "svg.fonttype": "none"})
    from matplotlib import pyplot

    found, payload = trials(folder), min(plan["sub_experiments"][0]["payloads"])
    names, panels = [], {}
    for sub in plan["sub_experiments"]:
        transport = f"{sub['transport']['system']}/{sub['transport']['variant']}"
        if transport not in names:
            names.append(transport)
        panels.setdefault(sub.get("background", sub.get("load", "none")), {})[transport] = sub["name"]
    numbers = range(1, plan["rounds"] + 1)
    missing = [f"{sub['name']}, round {number}" for sub in plan["sub_experiments"] for number in numbers
               if (sub["name"], number, payload) not in found]
    if missing:
        sys.exit(f"interference.py: '{folder}' has no figures of {payload} bytes for {'; '.join(missing)}")
    figure, axes = pyplot.subplots(1, len(panels), figsize=(10, 3.2), layout="constrained", sharey=True, squeeze=False)
    axes = axes[0]
    for axis, (load, subs) in zip(axes, panels.items()):
        for at, (statistic, colour) in enumerate(STATISTICS.items()):
            rounds = [[found[subs[name], number, payload]["streams"]["all"]["rtt_half_ns"][statistic] / 1000
                       for number in numbers] for name in names]
            medians = list(map(statistics.median, rounds))
            ends = [[middle - min(of) for middle, of in zip(medians, rounds)],
                    [max(of) - middle for middle, of in zip(medians, rounds)]]
            places = [place + 0.4 * at - 0.2 for place in range(len(names))]
            axis.bar(places, medians, 0.4, yerr=ends, color=colour, label=statistic, error_kw={"linewidth": 0.8})
        axis.set(yscale="log", title="at rest" if load == "none" else f"load {load}")
        axis.set_xticks(range(len(names)), names, rotation=30, ha="right")
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel(f"half a round trip of {payload} bytes [µs]")
    axes[0].legend(fontsize="small")
    figure.savefig(target, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: interference.py RESULTS SVG")
    main()
