#!/usr/bin/env python3
"""Measures how time and memory grow with the size of an experiment, and draws it.

    python3 bench/scale/run.py --tripmeter target/release/tripmeter --trips 1e9 --subs 10000 --experiments 1000 \\
        --output docs/results/scale.json
    python3 bench/scale/run.py --table docs/results/scale.json
    python3 bench/scale/run.py --plot docs/results/scale.json docs/plots/scale.svg

Sizes grow by ten up to the ones given. Three things are measured:
  trips        round trips of one payload over shm with `--raw none`: `ping`
  subs         sub-experiments of one plan, 10 round trips each: `run`, and then `show` of the results
  experiments  results folders, copies of one: `history`
Points that the output file has already are not measured again. Time is that of the whole command. Memory is the most that
the command, and the largest of its workers, had at a time: VmHWM, looked at every 20 ms, and for the larger of both what
the kernel says at the end.

The plot needs bench/scale/requirements.txt. Exit code: 0 measured, 2 wrong usage, 70 a run failed.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Between two looks at the memory of all processes.
LOOK_S = 0.02
FIRST = {"trips": 100_000, "subs": 10, "experiments": 10}
LABELS = {
    "trips": "round trips in one payload",
    "run": "sub-experiments in one plan: run",
    "show": "sub-experiments in one plan: show",
    "experiments": "experiments in one history",
}


def children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def peak_kb(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def measured(command):
    """Runs a command; returns its seconds, and the most kB of itself and of a child."""
    begin, own, workers = time.monotonic(), 0, 0
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        while True:
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
            if ended:
                break
            own = max(own, peak_kb(child.pid))
            workers = max([workers, *map(peak_kb, children(child.pid))])
            time.sleep(LOOK_S)
        seconds = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            errors.seek(0)
            said = errors.read().decode(errors="replace")
            sys.stderr.write(f"{' '.join(map(str, command))}: exit code {child.returncode}\n{said}")
            sys.exit(70)
    # Of the largest of all processes that were waited for; this one counts, too, as it was the command before its start.
    if usage.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
        if workers > own:
            workers = max(workers, usage.ru_maxrss)
        else:
            own = max(own, usage.ru_maxrss)
    return {"seconds": round(seconds, 3), "own_kb": own, "worker_kb": workers}


def sizes(kind, most):
    size = FIRST[kind]
    while size <= most:
        yield size
        size *= 10


def trips(options, folder, count):
    command = [options.tripmeter, "ping", "shm", "--payloads", "64", "-n", str(count), "--raw", "none", "--attempts"]
    return {"trips": measured([*command, "1", "--no-spin", "--no-report", "-q", "-o", folder / "results"])}


def subs(options, folder, count):
    plan = ["floor = false", "raw = ['none']", "samples = 10", "warmup = 0", "attempts = 1", "wait = 'block'"]
    plan += [f"[[sub_experiment]]\ntransport = 'shm'\nname = 's{n}'\npayloads = '{64 + n % 1000}'" for n in range(count)]
    (folder / "plan.toml").write_text("\n".join(plan) + "\n")
    flags = ["--no-spin", "--no-report", "-q", "-o", folder / "results"]
    run = measured([options.tripmeter, "run", folder / "plan.toml", *flags])
    return {"run": run, "show": measured([options.tripmeter, "show", folder / "results"])}


def experiments(options, folder, count):
    trips(options, folder, 1000)
    whole = folder / "all"
    whole.mkdir()
    for number in range(count):
        made = whole / f"{number:06}"
        made.mkdir()
        manifest = json.loads((folder / "results" / "manifest.json").read_text())
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_700_000_000 + 3600 * number))
        manifest["started"] = f"{stamp}+00:00"
        (made / "manifest.json").write_text(json.dumps(manifest))
        shutil.copy(folder / "results" / "trials.jsonl", made)
    return {"experiments": measured([options.tripmeter, "history", whole])}


def measure(options):
    """Measures what is not in the output yet, and writes it after each point."""
    version = subprocess.run([options.tripmeter, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    # What the machine is.
    made = {"version": version, "machine": {"kernel": platform.release(), "cpus": os.cpu_count()}, "points": []}
    if options.output.exists():
        before = json.loads(options.output.read_text())
        if {**before, "points": []} == made:
            made = before
    for kind, most, work in (
        ("trips", options.trips, trips),
        ("subs", options.subs, subs),
        ("experiments", options.experiments, experiments),
    ):
        for size in sizes(kind, most):
            if any(point["kind"] == kind and point["size"] == size for point in made["points"]):
                continue
            with tempfile.TemporaryDirectory() as folder:
                for of, found in work(options, Path(folder), size).items():
                    point = {"kind": kind, "of": of, "size": size, "date": time.strftime("%Y-%m-%d"), **found}
                    # How busy the machine was.
                    made["points"].append({**point, "load": round(os.getloadavg()[0], 1)})
                    print(made["points"][-1], file=sys.stderr)
            options.output.write_text(json.dumps(made, indent=1) + "\n")


def is_seen(kb):
    """False for what ended before it was looked at: no program of ours is that small."""
    return kb > 1000


def table(made):
    machine = made["machine"]
    dates = sorted({point["date"] for point in made["points"]})
    print(f"Measured on {' and '.join(dates)}: {made['version']}, Linux {machine['kernel']}, {machine['cpus']} CPUs.\n")
    print("| of | size | seconds | per unit | memory of the command | of its largest worker |")
    print("| --- | --- | --- | --- | --- | --- |")
    for point in made["points"]:
        each = point["seconds"] / point["size"] * 1e6
        workers = f"{point['worker_kb'] / 1000:.1f} MB" if point["worker_kb"] else "-"
        own = f"{point['own_kb'] / 1000:.1f} MB" if is_seen(point["own_kb"]) else "-"
        size, of = f"{point['size']:,}", LABELS[point["of"]]
        print(f"| {of} | {size} | {point['seconds']:.2f} | {each:.3g} µs | {own} | {workers} |")


def plot(made, file):
    """Seconds, and memory, over size, all axes logarithmic."""
    import matplotlib

    matplotlib.use("svg")
    # The same figures give the same file.
    matplotlib.rcParams["svg.hashsalt"] = "tripmeter"
    from matplotlib import pyplot

    _, panels = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    values = {
        "seconds": lambda one: one["seconds"],
        "memory of the largest process, MB": lambda one: max([0, *filter(is_seen, (one["own_kb"], one["worker_kb"]))]) / 1000,
    }
    for panel, (title, value) in zip(panels, values.items()):
        for of, label in LABELS.items():
            points = [one for one in made["points"] if one["of"] == of and value(one) > 0]
            panel.plot([one["size"] for one in points], [value(one) for one in points], marker="o", label=label)
        panel.set(xscale="log", yscale="log", title=title, xlabel="size")
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize="small")
    pyplot.savefig(file, format="svg", metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tripmeter", default="target/release/tripmeter")
    parser.add_argument("--trips", type=float, default=1e7)
    parser.add_argument("--subs", type=float, default=100)
    parser.add_argument("--experiments", type=float, default=1000)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--table", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, nargs=2, metavar=("FILE", "SVG"))
    options = parser.parse_args()
    if options.table:
        table(json.loads(options.table.read_text()))
    elif options.plot:
        plot(json.loads(options.plot[0].read_text()), options.plot[1])
    elif options.output:
        measure(options)
    else:
        parser.error("one of --output, --table and --plot is needed")


if __name__ == "__main__":
    main()
