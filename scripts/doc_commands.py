#!/usr/bin/env python3
"""Runs the commands of the documents: scripts/doc_commands.py PROGRAM [DOCUMENT...].

Every line of a block of shell in README.md and docs/*.md is run as it stands, in the order of its document. All documents share
one folder, with the results that they name (RESULTS), so that a command finds what those before it have made. Where a block of TOML or CSV comes after a sentence that ends with the name of a file, the file has
its text.

A line is made smaller, not other: SMALLER appends flags, the last of which counts. What cannot run here is in SKIPPED with the
reason, and is counted. A line that is new runs, and fails the check if its exit code is none of GOOD.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Verdicts are answers: 1 is a finding, 75 a part that was not measured on a busy machine.
GOOD = {0, 1, 75}
# No command hangs: the longest takes seconds.
LONGEST_S = 60

# Results folders that documents name and no command of theirs makes.
RESULTS = ("old", "monday", "tuesday", "2026-01-31_12-00-00")

# Beginning of a command, and what makes it small.
SMALLER = [
    ("tripmeter ping ", "-n 20 --payloads 1k --time-cap 1 --attempts 1 --no-report"),
    ("tripmeter publish ", "-n 20 --payloads 1k --time-cap 1 --no-report"),
    ("tripmeter call ", "-n 20 --payloads 1k --time-cap 1 --no-report"),
    ("tripmeter throughput ", "--payloads 1k --duration 0.05 --no-report"),
    ("tripmeter explain ", "-n 50 --time-cap 1 --no-report"),
    ("tripmeter ab ", "-n 20 --rounds 2 --time-cap 1"),
    ("tripmeter choose ", "-n 20 --rounds 2"),
    ("tripmeter limits --runs", "--runs 2 --only uds -n 20 --payloads 1k"),
    ("tripmeter run --resume", ""),
    ("tripmeter run aimrt-channel --only", "-n 20 --payloads 1k --rounds 1 --no-report"),
    ("tripmeter run camera.toml", "-n 20 --rounds 1 --no-report"),
    ("tripmeter run ", "--only uds -n 20 --payloads 1k --rounds 1 --time-cap 1 --no-report"),
]

# What cannot run here: a pattern of the line, and why.
SKIPPED = [
    (r"\bsudo\b|apt(-get)? install", "changes the machine, as root"),
    (r"--to\b|\bssh\b|\bfleet\b|--hosts\b|slurm|hosts\.sh", "needs other hosts; tests run it between namespaces"),
    (r"tripmeter-archive|archive/|s3://|test-archive", "needs the archive, a build of its own; scripts/test-archive.sh runs it"),
    (r"tripmeter install|--all\b.*install|pip install|\bpip\b|venv", "installs packages of a registry"),
    (r"\bcargo\b|build-transports|scripts/test\.sh|package\.sh|site\.sh|update-docs|sanitize|fuzz|\bgit\b", "builds for minutes"),
    (r"^(python3 )?(bench|tests|tools)/|isolated\.sh|keep-results|faults\.sh|campaign|selftest", "measures or tests for minutes"),
    (r"--for \d+h|24h|1000000000", "lasts a day"),
    (r"\bfollow\b|--rendezvous|iceperf (follower|leader)", "needs two terminals; tests run both"),
    (r"docker|kubectl|gh |curl|wget|npm", "needs a service or a network"),
    (r"^(for|do|done|if|fi|while|export|cd)\b|&$", "part of a loop, of a shell or of a background job"),
]


def blocks(text: str):
    """Blocks of a document, with their language and what stands before them."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield found[1], found[2], text[: found.start()].rstrip()


def lines(block: str) -> list[str]:
    """Commands of a block: one a line, or several that end with a backslash, or within quotes."""
    commands, open_line = [], ""
    for line in block.replace("\\\n", " ").splitlines():
        open_line = f"{open_line}\n{line}" if open_line else line
        if open_line.count('"') % 2 or open_line.count("'") % 2:
            continue
        command = re.sub(r"\s+#( .*)?$", "", open_line).strip()
        if command and not command.startswith("#"):
            commands.append(command)
        open_line = ""
    return commands


def reason(command: str, systems: set[str]) -> str:
    """Why a command is not run; empty if it is."""
    for pattern, why in SKIPPED:
        if re.search(pattern, command):
            return why
    missing = [name for name in re.findall(r"(?<![\w/.-])(\w+)(?=/|\?|\*|'|\s|$)", command) if name in systems]
    return f"transport {missing[0]} is not installed here" if missing else ""


def smaller(command: str) -> str:
    """The command with flags that make it small."""
    parts = re.split(r"(\s&&\s|\s\|\s|\s;\s)", command)
    for index in range(0, len(parts), 2):
        for begin, flags in SMALLER:
            if parts[index].startswith(begin):
                used = parts[index].split()
                flags = flags if flags.startswith("--runs") else " ".join(
                    one for one in re.findall(r"--?\S+(?: [^-\s]\S*)?", flags) if one.split()[0] not in used)
                parts[index] = f"{parts[index]} {flags}".rstrip()
                break
    return "".join(parts)


def run(command: str, folder: pathlib.Path, environment: dict) -> subprocess.CompletedProcess:
    """A command made small, with its exit code; 124 if it did not end."""
    words = ["timeout", str(LONGEST_S), "bash", "-c", smaller(command)]
    return subprocess.run(words, cwd=folder, env=environment, text=True, capture_output=True, check=False)


def main() -> int:
    """Runs all commands, and prints what failed."""
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 64
    program = pathlib.Path(sys.argv[1]).resolve()
    named = [ROOT / name for name in sys.argv[2:]] or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    listed = json.loads(subprocess.run([program, "list", "--json"], capture_output=True, text=True, check=True).stdout)
    systems = {one["system"] for one in listed if not one["available"]}
    ran, failed, skipped = 0, [], []
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as place:
        folder = pathlib.Path(place)
        (folder / "bin").mkdir()
        (folder / "bin/tripmeter").symlink_to(program)
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        for name in RESULTS:
            command = f"tripmeter run aimrt-channel --only uds --wait block -o results/{name}"
            done = run(command, folder, environment)
            assert done.returncode in GOOD, done.stderr
        for document in named:
            for language, block, before in blocks(document.read_text()):
                file = re.search(r"`([\w.-]+\.(?:toml|csv|json))`[^`]*$", before)
                if language in ("toml", "csv", "text") and file and len(before) - file.end() < 120:
                    (folder / file[1]).write_text(block)
                if language != "sh":
                    continue
                for command in lines(block):
                    why = reason(command, systems)
                    if why:
                        skipped.append((document.name, command, why))
                        continue
                    ran += 1
                    done = run(command, folder, environment)
                    if done.returncode not in GOOD:
                        said = (done.stderr.strip().splitlines() or [""])[-1]
                        failed.append(f"{document.name}: `{smaller(command)}` ends with {done.returncode}: {said}")
    for document, command, why in skipped:
        print(f"SKIPPED: {document}: `{' '.join(command.split())}`: {why}")
    print(f"documents: {ran} commands ran, {len(failed)} failed, {len(skipped)} skipped")
    for line in failed:
        print(f"doc_commands: {line}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
