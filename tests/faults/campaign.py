#!/usr/bin/env python3
"""The fault campaign: see scripts/faults.sh."""

import argparse
import collections
import concurrent.futures
import gzip
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import draw
import kinds

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
KEPT = REPOSITORY / "docs" / "results" / "faults" / "trials.jsonl.gz"
TRIALS, SEED = 50, 1
LONGEST_S = 1800


def build(tripmeter, transports):
    """A name for the program and the plugins that are used, and for their sources and the campaign's."""
    files = subprocess.run(["git", "ls-files", "-z", "crates", "transports", "Cargo.lock", "tests/faults", "tests/plugins"],
                           cwd=REPOSITORY, capture_output=True, check=True).stdout.decode().split("\0")
    of_program = [name for name in files if name and "/tests/" not in name.removeprefix("tests/") and not name.endswith(".md")]
    digest = hashlib.sha256()
    for name in sorted(of_program):
        digest.update(name.encode() + b"\0" + hashlib.sha256((REPOSITORY / name).read_bytes()).digest())
    for file in [tripmeter, *sorted(file for file in transports.rglob("*") if file.is_file())]:
        with file.open("rb") as opened:
            digest.update(file.name.encode() + b"\0" + hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()[:12]


def read(file):
    """Trials in a file, compressed or not."""
    if not file.exists():
        return []
    opened = gzip.open(file, "rt") if file.suffix == ".gz" else file.open()
    with opened as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def address(trial):
    """What names a trial."""
    return trial["build"], trial["seed"], trial["system"], trial["index"]


def faulty(target, transports):
    """The folder of plugins around the true ones."""
    folder = target / "faulty"
    (folder / "true").mkdir(parents=True, exist_ok=True)
    subprocess.run(["make", "-s", "-C", str(REPOSITORY / "tests/plugins"), f"OUT={folder / 'true'}", "faulty"], check=True)
    around = (folder / "true" / "faulty.so").read_bytes()
    for plugin in transports.iterdir():
        link = folder / "true" / plugin.name
        link.unlink(missing_ok=True)
        link.symlink_to(plugin)
        if plugin.suffix == ".so":
            (folder / plugin.name).write_bytes(around)
    return folder


def variants(tripmeter, transports):
    """See draw.variants."""
    listed = subprocess.run([REPOSITORY / "scripts/isolated.sh", tripmeter, "list", "--json"], check=True, text=True,
                            capture_output=True, env={**os.environ, "TRIPMETER_TRANSPORTS": str(transports)}).stdout
    return draw.variants(json.loads(listed))


def one(specification):
    """The line of a trial."""
    words = [REPOSITORY / "scripts/isolated.sh", sys.executable, HERE / "trial.py", json.dumps(specification)]
    try:
        made = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_S, stdin=subprocess.DEVNULL)
        return json.loads(made.stdout)
    except (ValueError, subprocess.TimeoutExpired) as error:
        said = getattr(error, "stderr", None) or (made.stderr if isinstance(error, ValueError) else "")
        what = f"the trial itself failed: {error}: {str(said).strip()[-300:]}"
        return {**specification["drawn"], "fired": False, "code": None, "status": "none", "exceptions": [what], "seconds": 0}


def can_have(systems):
    """The faults that variants of these systems can have."""
    return {fault for variants_of_system in systems for variant in variants_of_system for pattern in variant["patterns"]
            for wait in variant["waits"] for fault in draw.possible(variant, pattern, wait)}


def wanted(arguments, found, seed):
    """The trials to be made, in an order in which systems and faults alternate."""
    systems = sorted(found)
    if arguments.systems:
        systems = [name for name in systems if name in arguments.systems.split(",")]
    if arguments.short:
        # Each fault once, at one system after the other; of systems that were named, what they can have.
        chosen, rest = [], list(kinds.FAULTS)
        if arguments.systems:
            possible = can_have(found[name] for name in systems)
            rest = [fault for fault in rest if fault in possible]
        for index in range(TRIALS):
            for system in systems:
                drawn = draw.trial(seed, system, index, found[system])
                is_long = drawn["fault"].startswith("stop-") or drawn["fault"] == "plugin-hang"
                has_turn = len(systems) == 1 or sum(one["system"] == system for one in chosen) <= index // 3
                if drawn["fault"] in rest and has_turn:
                    rest.remove(drawn["fault"])
                    chosen.append({**drawn, "is_long": is_long})
        if rest:
            sys.exit(f"faults: no transport that is here has {', '.join(rest)} within {TRIALS} trials")
        # The longest begin first.
        return sorted(chosen, key=lambda drawn: not drawn.pop("is_long"))
    return [draw.trial(seed, system, index, found[system]) for index in range(arguments.trials) for system in systems]


def had_no_effect(trial):
    """Whether everything was measured all the same."""
    return trial["code"] == 0 and trial["status"] == "complete" and not trial.get("damaged")


def table(file):
    """Passes of each system and fault, as Markdown: of the build that the last trial is of."""
    trials = read(file)
    if not trials:
        print("No campaign is kept yet.")
        return
    of = [one for one in trials if one["build"] == trials[-1]["build"]]
    groups = sorted({one["fault"] for one in of}, key=list(kinds.FAULTS).index)
    counts = collections.defaultdict(lambda: [0, 0, 0])
    for trial in of:
        for cell in ((trial["system"], trial["fault"]), (trial["system"], "all"), ("all", trial["fault"]), ("all", "all")):
            counts[cell][0] += not trial["exceptions"]
            counts[cell][1] += 1
            counts[cell][2] += had_no_effect(trial)
    systems = sorted({one["system"] for one in of})
    print("| fault | trials | passed | without effect | systems with exceptions |\n| --- | ---: | ---: | ---: | --- |")
    for fault in [*groups, "all"]:
        passed, made, without = counts["all", fault]
        bad = [f"{name} {counts[name, fault][1] - counts[name, fault][0]}" for name in systems
               if counts[name, fault][0] < counts[name, fault][1]]
        print(f"| {fault} | {made} | {passed} | {without} | {', '.join(bad) or 'none'} |")
    print("\n| system | trials | passed |\n| --- | ---: | ---: |")
    for name in [*systems, "all"]:
        passed, made, _ = counts[name, "all"]
        print(f"| {name} | {made} | {passed} |")
    bad = [one for one in of if one["exceptions"]]
    print(f"\n{len(of)} trials of build `{of[0]['build']}`, seed {of[0]['seed']}: {len(of) - len(bad)} passed, "
          f"{len(bad)} {'exception' if len(bad) == 1 else 'exceptions'}.")
    for trial in bad:
        print(f"- {trial['transport']} {trial['index']}, {trial['fault']} at {trial['moment']}: "
              f"{trial['exceptions'][0].split('; its log is')[0][:240].replace('|', ' ').replace(chr(10), ' ')}")


def main():
    parser = argparse.ArgumentParser(prog="scripts/faults.sh", description="see the head of scripts/faults.sh")
    parser.add_argument("--tripmeter", type=pathlib.Path, help="the program (TRIPMETER)")
    parser.add_argument("--transports", type=pathlib.Path, help="the folder of plugins (TRIPMETER_TRANSPORTS)")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of faults and moments (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=TRIALS, help="trials of each system (default: %(default)s)")
    parser.add_argument("--systems", help="systems, with commas (default: all that can run here)")
    parser.add_argument("--short", action="store_true", help="each fault once, over several systems")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin no trial after that time")
    parser.add_argument("--jobs", type=int, default=4, help="trials at once (default: %(default)s)")
    parser.add_argument("--file", type=pathlib.Path, help="where trials are kept (default: target/faults/trials.jsonl)")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="print a file of trials as a table, and end")
    parser.add_argument("--keep", action="store_true", help="add the trials to docs/results/faults")
    arguments = parser.parse_args()
    if arguments.table:
        return table(arguments.table)
    file = arguments.file or REPOSITORY / "target" / "faults" / "trials.jsonl"
    if arguments.keep:
        if not file.exists():
            sys.exit(f"faults: no trials to keep: '{file}' is not there")
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        trials = {}
        for trial in read(KEPT) + read(file):
            # What is made last comes last: the table is of its build.
            trials.pop(address(trial), None)
            trials[address(trial)] = trial
        lines = "".join(json.dumps(trial) + "\n" for trial in trials.values())
        KEPT.write_bytes(gzip.compress(lines.encode(), mtime=0))
        return print(f"faults: {KEPT.relative_to(REPOSITORY)}; next: scripts/update-docs.sh")
    tripmeter, transports = arguments.tripmeter.resolve(), arguments.transports.resolve()
    name = build(tripmeter, transports)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    specification = {"tripmeter": str(tripmeter), "transports": str(transports), "faulty": str(faulty(target, transports))}
    file.parent.mkdir(parents=True, exist_ok=True)
    drawn = [{"build": name, "seed": arguments.seed, **trial}
             for trial in wanted(arguments, variants(tripmeter, transports), arguments.seed)]
    if not drawn:
        sys.exit("faults: nothing to do: no such system is here, or no trial is wanted")
    # Of a short campaign every trial is made again.
    earlier = [] if arguments.short else read(KEPT) + read(file)
    made = {address(trial): trial for trial in earlier}
    todo = [trial for trial in drawn if address(trial) not in made]
    begin, lock, counts = time.monotonic(), threading.Lock(), {"made": 0, "left out": 0}

    def make(drawn):
        if arguments.budget and not arguments.short and time.monotonic() - begin > arguments.budget:
            return
        line = one({**specification, "drawn": drawn})
        with lock:
            if "skipped" in line:
                counts["left out"] += 1
                print(f"SKIPPED: {drawn['transport']} {drawn['index']}: {drawn['fault']}: {line['skipped']}", flush=True)
                return
            counts["made"] += 1
            made[address(line)] = line
            with file.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            mark = "FAILED" if line["exceptions"] else "ok, without effect" if had_no_effect(line) else "ok"
            print(f"{mark} {drawn['transport']} {drawn['pattern']} {drawn['wait']} {drawn['index']}: {drawn['fault']} at "
                  f"{drawn['moment']} ({line['seconds']} s)", *line["exceptions"], sep="\n  ", flush=True)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(make, todo))
    of = [made[address(trial)] for trial in drawn if address(trial) in made]
    bad = [trial for trial in of if trial["exceptions"]]
    missing = len(drawn) - len(of) - counts["left out"]
    print(f"faults: {counts['made']} trials made now and {len(of) - counts['made']} before, {len(bad)} with exceptions, "
          f"{counts['left out']} left out, {missing} not made, build {name}, {file}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
