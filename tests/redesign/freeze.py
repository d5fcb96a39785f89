#!/usr/bin/env python3
"""Hashes every view and every export of results folders: freeze.py PROGRAM FOLDER... > HASHES.

A line per view: folder, words, exit code, and hashes of standard output and standard error. Paths are taken out of the texts,
so that two programs, and the same one twice, give the same lines wherever they are. All CPUs are used.
"""

import concurrent.futures
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TABLES = ["figures", "all", "screen", "iceperf", "ecal", "aimrt"]
SHOW = [[], ["--wide"], ["--wide", "--intervals"], ["--notes"], ["--legend"], ["--intervals"], ["--json"]]
SHOW += [["--tables", one] for one in TABLES]
EXPORT = [["--format", form, "--tables", table] for form in ("csv", "json", "markdown") for table in TABLES]
EXPORT += [["--format", form] for form in ("openmetrics", "junit", "github", "bencher")]
LONGEST_S = 300


def digest(text):
    """The begin of its hash."""
    return hashlib.sha256(text).hexdigest()[:16]


def run(words, place):
    """Exit code, and hashes of both outputs without the place."""
    done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=LONGEST_S, check=False,
                          cwd=place, env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"})
    texts = [digest(text.replace(str(place).encode(), b"")) for text in (done.stdout, done.stderr)]
    return f"{done.returncode} {' '.join(texts)}"


def views(program, folder):
    """Lines of one folder."""
    lines = []
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place).resolve()
        copy = place / folder.name
        shutil.copytree(folder, copy)
        for command, forms in (("show", SHOW), ("export", EXPORT)):
            for words in forms:
                lines.append(f"{folder.name} {command} {' '.join(words)}: {run([program, command, *words, folder.name], place)}")
        lines.append(f"{folder.name} limits: {run([program, 'limits', folder.name, '-q', '-o', 'limits.csv'], place)}")
        limits = place / "limits.csv"
        if limits.exists():
            lines.append(f"{folder.name} limits.csv: {digest(limits.read_bytes())}")
            words = [program, "check", folder.name, "--limits", "limits.csv", "--all"]
            lines.append(f"{folder.name} check: {run(words, place)}")
        lines.append(f"{folder.name} compare: {run([program, 'compare', folder.name, folder.name, '--all'], place)}")
        lines.append(f"{folder.name} svg: {run([program, 'export', '--format', 'svg', '-o', 'plots', folder.name], place)}")
        for file in sorted(one for one in (place / "plots").rglob("*") if one.is_file()):
            lines.append(f"{folder.name} svg {file.relative_to(place)}: {digest(file.read_bytes())}")
        lines.append(f"{folder.name} report: {run([program, 'report', folder.name, '-o', 'page.html'], place)}")
        if (place / "page.html").exists():
            page = (place / "page.html").read_bytes().replace(str(place).encode(), b"")
            lines.append(f"{folder.name} page: {digest(page)}")
    return lines


def main():
    if len(sys.argv) < 3:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 64
    program, folders = str(pathlib.Path(sys.argv[1]).resolve()), [pathlib.Path(one).resolve() for one in sys.argv[2:]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines in pool.map(lambda folder: views(program, folder), folders):
            print("\n".join(lines), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
