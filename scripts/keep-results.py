#!/usr/bin/env python3
"""Keeps results that the documents show: scripts/keep-results.py SOURCE NAME.

SOURCE is a results folder, of which the manifest is kept as docs/results/NAME/manifest.json, without the audits, which
name whatever else ran on the machine; or a JSON file of bench/overhead/run.py, which is kept as docs/results/NAME.json
without the paths of the machine that made it.
"""

import json
import sys
from pathlib import Path

KEPT = Path(__file__).resolve().parent.parent / "docs" / "results"
PATHS = ("tripmeter", "output")


def keep_manifest(folder, name):
    manifest = json.loads((folder / "manifest.json").read_text())
    for audit in ("audit_before", "audit_after"):
        manifest["environment"].pop(audit, None)
    target = KEPT / name
    target.mkdir(parents=True, exist_ok=True)
    (target / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
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
    kept = keep_manifest(source, name) if source.is_dir() else keep_overhead(source, name)
    print(f"keep-results: {kept.relative_to(KEPT.parent.parent)}; next: scripts/update-docs.sh")
    return 0


if __name__ == "__main__":
    sys.exit(main())
