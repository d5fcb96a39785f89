#!/usr/bin/env python3
"""Keeps results that the documents show: scripts/keep-results.py SOURCE NAME.

SOURCE is one of
  a results folder: its manifest.json and trials.jsonl are kept in docs/results/NAME, without the audits, which name
      other processes on the machine;
  the folder of `tripmeter selftest --full -o`, once the campaign is complete: selftest.json and comparisons.jsonl, one
      line with its seed per verdict, are kept in docs/results/NAME;
  a JSON file of bench/overhead/run.py: it is kept as docs/results/NAME.json without the paths of the machine that made it.
"""

import json
import sys
from pathlib import Path

KEPT = Path(__file__).resolve().parent.parent / "docs" / "results"
PATHS = ("tripmeter", "output")
# Comparisons of each kind in a complete campaign.
CAMPAIGN = {"aa-uds": 100, "aa-shm": 100, "uds-plus-10": 100, "uds-plus-5": 50}


def keep_manifest(folder, name):
    target = KEPT / name
    target.mkdir(parents=True, exist_ok=True)
    for file in ("manifest.json", "trials.jsonl"):
        (target / file).write_text((folder / file).read_text())
    return target


class Refused(Exception):
    """Reason why results are not kept."""


def keep_selftest(folder, name):
    made = json.loads((folder / "selftest.json").read_text())
    if made["status"] != "complete":
        raise Refused(f"the campaign is {made['status']}; the same command of selftest goes on")
    found = {one["phase"]: one["comparisons"] for one in made["comparisons"]}
    if found != CAMPAIGN:
        raise Refused(f"only whole campaigns are kept: comparisons are {found} and should be {CAMPAIGN}")
    text = (folder / "comparisons.jsonl").read_text()
    header, *lines = [json.loads(line) for line in text.split("\n")[:-1]]
    if header["seed"] != made["seed"] or header["tripmeter_version"] != made["tripmeter_version"]:
        raise Refused("comparisons.jsonl is of another campaign than selftest.json: seed or version differ")
    logged = {phase: sum(line["phase"] == phase for line in lines) for phase in CAMPAIGN}
    if logged != CAMPAIGN:
        raise Refused(f"comparisons.jsonl has {logged} comparisons and should have {CAMPAIGN}")
    target = KEPT / name
    target.mkdir(parents=True, exist_ok=True)
    (target / "selftest.json").write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n")
    (target / "comparisons.jsonl").write_text(text)
    return target


def keep_overhead(file, name):
    document = json.loads(file.read_text())
    document["options"] = {key: value for key, value in document["options"].items() if key not in PATHS}
    target = KEPT / f"{name}.json"
    KEPT.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=1) + "\n")
    return target


def main():
    if len(sys.argv) != 3:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 64
    source, name = Path(sys.argv[1]), sys.argv[2]
    if not source.exists():
        print(f"keep-results: '{source}' is not there", file=sys.stderr)
        return 66
    if not source.is_dir():
        keep = keep_overhead
    elif (source / "comparisons.jsonl").exists():
        keep = keep_selftest
    else:
        keep = keep_manifest
    try:
        kept = keep(source, name)
    except (OSError, Refused) as error:
        print(f"keep-results: '{source}' is not kept: {error}", file=sys.stderr)
        return 65
    print(f"keep-results: {kept.relative_to(KEPT.parent.parent)}; next: scripts/update-docs.sh")
    return 0


if __name__ == "__main__":
    sys.exit(main())
