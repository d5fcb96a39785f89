#!/usr/bin/env python3
"""Measures and plots how time and memory grow with the size of an experiment.

    python3 bench/scale/run.py --tripmeter target/release/tripmeter --trips 1e9 --subs 10000 --experiments 1000 \\
        --output docs/results/scale.json
    python3 bench/scale/run.py --tripmeter target/release/tripmeter --trips 0 --subs 0 --experiments 0 --long 600 \\
        --output docs/results/scale.json
    python3 bench/scale/run.py --table docs/results/scale.json
    python3 bench/scale/run.py --plot docs/results/scale.json docs/plots/scale.svg

Sizes grow by ten up to the ones given. Three things are measured:
  trips        round trips of one payload over shm with `--raw none`: `ping`
  subs         sub-experiments of one plan, 10 round trips each: `run`, and then `show` of the results
  experiments  results folders, copies of one: `history`
Points that are already in the output file are measured again only with --again: an interrupted command can continue.
Time is that of the whole command, including about 1 ms of the shell that starts it. Memory is the peak of the command,
and of its largest worker. The kernel reports the peak of the largest process at the end (wait4); for the others, a
thread reads VmHWM every 20 ms.

--long SECONDS repeats rounds of a million round trips for that time (`ping --for`), and keeps samples of three rounds.
The run is killed (kill -9) at half the time and resumed. Meanwhile `show`, memory and files are measured repeatedly.

The plot needs bench/scale/requirements.txt. Exit code: 0 measured, 2 wrong usage, 70 a run failed.
"""

import argparse
import ctypes
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# Seconds between two readings of the memory of all processes.
LOOK_S = 0.02
FIRST = {"trips": 100_000, "subs": 10, "experiments": 10}
# Source: prctl(2)
PR_SET_CHILD_SUBREAPER = 36
KINDS = ["trips", "subs", "experiments"]
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


def adopt_orphans():
    """Makes this process the parent of orphaned processes of its shells."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("bench/scale: prctl(PR_SET_CHILD_SUBREAPER) failed")


def started(command, errors):
    """Starts a command through a shell that ends; returns the command's process ID. The kernel counts the memory of the
    forking process as the command's own, and a shell has less than any command."""
    words = ["sh", "-c", '"$@" >/dev/null & echo $!', "sh", *map(str, command)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors) as shell:
        return int(shell.stdout.readline())


class Looks:
    """Peak memory in kB of a process and of its largest worker, read by a thread until `end`."""

    def __init__(self, pid):
        self.pid, self.own, self.workers, self.is_over = pid, 0, 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.is_over.wait(LOOK_S):
            self.own = max(self.own, peak_kb(self.pid))
            self.workers = max([self.workers, *map(peak_kb, children(self.pid))])

    def end(self):
        self.is_over.set()
        self.thread.join()


def measured(command, has_workers=False):
    """Runs a command; returns its seconds, and the peak memory in kB of itself and of its largest child."""
    with tempfile.TemporaryFile() as errors:
        begin = time.monotonic()
        pid = started(command, errors)
        looks = Looks(pid) if has_workers else None
        _, status, usage = os.wait4(pid, 0)
        seconds = time.monotonic() - begin
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            errors.seek(0)
            said = errors.read().decode(errors="replace")
            sys.stderr.write(f"{' '.join(map(str, command))}: exit code {code}\n{said}")
            sys.exit(70)
    own, workers = usage.ru_maxrss, 0
    if looks:
        looks.end()
        own, workers = looks.own, looks.workers
        if workers > own:
            workers = max(workers, usage.ru_maxrss)
        else:
            own = max(own, usage.ru_maxrss)
    return {"seconds": round(seconds, 4), "own_kb": own, "worker_kb": workers}


def sizes(kind, most):
    size = FIRST[kind]
    while size <= most:
        yield size
        size *= 10


def trips(options, folder, count):
    command = [options.tripmeter, "ping", "shm", "--payloads", "64", "-n", str(count), "--raw", "none", "--attempts"]
    return {"trips": measured([*command, "1", "--no-spin", "--no-report", "-q", "-o", folder / "results"], True)}


def subs(options, folder, count):
    plan = ["floor = false", "raw = ['none']", "samples = 10", "warmup = 0", "attempts = 1", "wait = 'block'"]
    plan += [f"[[sub_experiment]]\ntransport = 'shm'\nname = 's{n}'\npayloads = '{64 + n}'" for n in range(count)]
    (folder / "plan.toml").write_text("\n".join(plan) + "\n")
    flags = ["--no-spin", "--no-report", "-q", "-o", folder / "results"]
    run = measured([options.tripmeter, "run", folder / "plan.toml", *flags], True)
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


def bytes_of(folder):
    """Bytes of all files in a folder, bytes of its sample files, and their number."""
    whole, samples, files = 0, 0, 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                size = os.stat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                continue
            whole += size
            if os.path.basename(place) == "samples":
                samples, files = samples + size, files + 1
    return {"bytes": whole, "sample_bytes": samples, "sample_files": files}


def finished(results):
    """Complete lines of trials.jsonl, one per finished payload."""
    try:
        lines = (results / "trials.jsonl").read_text().split("\n")[:-1]
    except OSError:
        return []
    return [line for line in lines if json.loads(line)["kind"] == "payload"]


def memory_kb(pid):
    """Current memory of a process in kB."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)


def long_run(options, folder):
    """Repeats a run for some time, kills it at half of it, resumes it, and measures it all the time."""
    results, begin, looks = folder / "results", time.monotonic(), []
    asked = ["ping", "shm", "--payloads", "64", "-n", "1000000", "--no-floor", "--attempts", "1", "--no-spin"]
    asked += ["--for", f"{options.long}s", "--keep-samples", "3"]
    with (folder / "progress").open("w+b") as said:
        def watch(pid, until):
            """Measures the process until it ends, or until that time; returns its exit code if it has ended."""
            while time.monotonic() - begin < until:
                ended, status, _ = os.wait4(pid, os.WNOHANG)
                if ended:
                    return os.waitstatus_to_exitcode(status)
                time.sleep(options.long / 30)
                if not finished(results):
                    continue
                own, worker = memory_kb(pid), max([0, *map(peak_kb, children(pid))])
                if not worker:
                    # No worker runs between two rounds, and at the end.
                    continue
                show = measured([options.tripmeter, "show", results])
                at = round(time.monotonic() - begin, 1)
                looks.append({"at_s": at, "rounds": len(finished(results)), "own_kb": own, "worker_kb": worker,
                              "show_seconds": show["seconds"], "show_kb": show["own_kb"], **bytes_of(results)})
                print(looks[-1], file=sys.stderr)
            return None

        pid = started([options.tripmeter, *asked, "-o", results], said)
        if watch(pid, options.long / 2) is not None:
            sys.exit("bench/scale: the long run ended before it was to be killed")
        os.kill(pid, signal.SIGKILL)
        killed_at = round(time.monotonic() - begin, 1)
        os.waitpid(pid, 0)
        before = finished(results)
        # Waits for its workers, which end by themselves.
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                break
        pid = started([options.tripmeter, "run", "--resume", results, "--no-spin"], said)
        code = watch(pid, 10 * options.long)
        said.seek(0)
        estimates = [line for line in said.read().decode(errors="replace").splitlines() if line.endswith(" left")]
    whole = finished(results)
    if not looks:
        sys.exit("bench/scale: no worker was found during the long run; measure for longer (--long)")
    if code != 0 or whole[: len(before)] != before:
        sys.exit(f"bench/scale: exit code {code} of the resumed run, or finished rounds have changed")
    samples = sum(json.loads(line)["samples"] for line in whole)
    return {"date": time.strftime("%Y-%m-%d"), "asked": " ".join(asked), "killed_at_s": killed_at,
            "rounds_before": len(before), "rounds": len(whole), "samples": samples,
            "seconds": round(time.monotonic() - begin, 1), "an_estimate": estimates[len(estimates) // 4] if estimates else None,
            "looks": looks, "load": round(os.getloadavg()[0], 1)}


def measure(options):
    """Measures what is not in the output yet, and writes it after each point."""
    adopt_orphans()
    version = subprocess.run([options.tripmeter, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    # Points of another version or machine are discarded.
    made = {"version": version, "machine": {"kernel": platform.release(), "cpus": os.cpu_count()}, "points": []}
    if options.output.exists():
        before = json.loads(options.output.read_text())
        if {key: before.get(key) for key in ("version", "machine")} == {key: made[key] for key in ("version", "machine")}:
            made = before

    def write():
        made["points"].sort(key=lambda point: (KINDS.index(point["kind"]), point["size"]))
        whole = options.output.with_suffix(".being-written")
        whole.write_text(json.dumps(made, indent=1) + "\n")
        whole.replace(options.output)

    for kind, most, work in zip(KINDS, (options.trips, options.subs, options.experiments), (trips, subs, experiments)):
        for size in sizes(kind, most):
            known = [point for point in made["points"] if (point["kind"], point["size"]) == (kind, size)]
            if known and not options.again:
                continue
            with tempfile.TemporaryDirectory() as folder:
                points = []
                for of, found in work(options, Path(folder), size).items():
                    point = {"kind": kind, "of": of, "size": size, "date": time.strftime("%Y-%m-%d"), **found}
                    # How busy the machine was.
                    points.append({**point, "load": round(os.getloadavg()[0], 1)})
                    print(points[-1], file=sys.stderr)
            made["points"] = [point for point in made["points"] if point not in known] + points
            write()
    if options.long and (options.again or made.get("long", {}).get("for_s") != options.long):
        with tempfile.TemporaryDirectory() as folder:
            made["long"] = {"for_s": options.long, **long_run(options, Path(folder))}
        write()


def is_seen(kb):
    """False if the process ended before its memory was read, as in points of an earlier version of this file."""
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
        print(f"| {of} | {size} | {point['seconds']:.3f} | {each:,.3g} µs | {own} | {workers} |")


def long_table(made):
    """Prints the table of the long run, at six points in time."""
    found = made["long"]
    looks = found["looks"]
    if not looks:
        sys.exit("bench/scale: the long run has no looks; measure it again (--long)")
    first, last = looks[0], looks[-1]
    print(f"\nA long run, measured on {found['date']}: `tripmeter {found['asked']}`, killed (`kill -9`) after "
          f"{found['killed_at_s']:.0f} s and resumed: {found['rounds']:,} rounds, {found['samples']:,} round trips, in "
          f"{found['seconds']:.0f} s. The {found['rounds_before']:,} rounds from before the kill are as they were.\n")
    print("| after | rounds | memory of the command | of its workers | `show` meanwhile | its memory | files of samples | all else |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for at in range(6):
        look = looks[at * (len(looks) - 1) // 5]
        kept = f"{look['sample_files']}, {look['sample_bytes'] / 1e6:.0f} MB"
        print(f"| {look['at_s']:.0f} s | {look['rounds']:,} | {look['own_kb'] / 1000:.1f} MB | {look['worker_kb'] / 1000:.1f} MB "
              f"| {look['show_seconds']:.3f} s | {look['show_kb'] / 1000:.1f} MB | {kept} "
              f"| {(look['bytes'] - look['sample_bytes']) / 1e6:.1f} MB |")
    rounds = max(last["rounds"] - first["rounds"], 1)
    growth = [(last[key] - first[key]) * scale / rounds for key, scale in (("own_kb", 1), ("show_kb", 1))]
    disk = [look["bytes"] - look["sample_bytes"] for look in (first, last)]
    print(f"\nOf each round, {growth[0]:.0f} kB stay in the command, {growth[1]:.0f} kB in `show`, and "
          f"{(disk[1] - disk[0]) / 1000 / rounds:.0f} kB on the disk beside its samples.")


def plot(made, file):
    """Plots seconds and memory over size, on logarithmic axes."""
    import matplotlib

    matplotlib.use("svg")
    # Reproducible output.
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
    parser.add_argument("--long", type=int, default=0, metavar="SECONDS")
    parser.add_argument("--again", action="store_true", help="measure points that the output has already, too")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--table", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, nargs=2, metavar=("FILE", "SVG"))
    options = parser.parse_args()
    if options.table:
        made = json.loads(options.table.read_text())
        table(made)
        if "long" in made:
            long_table(made)
    elif options.plot:
        plot(json.loads(options.plot[0].read_text()), options.plot[1])
    elif options.output:
        measure(options)
    else:
        parser.error("one of --output, --table and --plot is needed")


if __name__ == "__main__":
    main()
