#!/usr/bin/env python3
"""Shows that pattern `publish` is not limited by our own threads: 1, 10, 100 and 1000 topics at 1 kHz in total.

Prints one row per transport and number of topics: the rate offered and achieved on each topic, how late messages were
sent, and the CPU use of both processes. Exit code 1 if a rate was missed or a message lost.

The table in docs/method.md is `bench/channel/run.py | tee docs/results/channel.md`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOTAL_HZ = 1000
TOPICS = [1, 10, 100, 1000]


def measure(arguments, transport, topics):
    """Runs Tripmeter once; returns its trial."""
    rate = TOTAL_HZ / topics
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.tripmeter, "publish", "-q", "--json", "--no-floor", transport]
        command += ["--payloads", arguments.payload, "--topics", str(topics), "--rate", f"{rate:g}", "--wait", "block"]
        command += ["-n", str(max(1, round(rate * arguments.seconds))), "--warmup", "1", "--raw", "none"]
        command += ["-o", str(Path(folder) / "results")]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["sub_experiments"][0]["cells"][0]["trials"][0]


def percent(used):
    return 100 * used["cpu_time_ns"] / used["cost_window_ns"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tripmeter", default=str(ROOT / "target/release/tripmeter"))
    parser.add_argument("--transports", default="uds,shm")
    parser.add_argument("--payload", default="1k")
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    print("| transport | topics | offered [/s] | kept, mean [/s] | kept, slowest [/s] | late p50 [µs] | late p99 [µs] | lost |"
          " CPU publisher [%] | CPU subscriber [%] |")
    print("| --- |" + " ---: |" * 9, flush=True)
    bad = False
    for transport in arguments.transports.split(","):
        for topics in TOPICS:
            trial = measure(arguments, transport, topics)
            streams, rate_missed = trial["streams"], trial.get("rate_missed", False)
            all_topics, late = streams["all"], streams["all"]["lateness_ns"]
            lost = all_topics["sent"] - all_topics["received"]
            bad |= rate_missed or lost > 0
            missed = " RATE MISSED" if rate_missed else ""
            print(
                f"| {transport} | {topics} | {all_topics['offered_rate_hz']:.1f}"
                f" | {all_topics['achieved_rate_hz']:.3f}{missed}"
                f" | {all_topics['slowest_rate_hz']:.3f} | {late['p50'] / 1000:.1f} | {late['p99'] / 1000:.1f} | {lost}"
                f" | {percent(streams['process=leader']):.1f} | {percent(streams['process=follower']):.1f} |",
                flush=True,
            )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
