#!/usr/bin/env python3
"""Runs the commands of the documents: scripts/doc_commands.py PROGRAM [DOCUMENT...].

Every line of a shell block in README.md and docs/*.md is run, in the order of its document; documents run in parallel. Each
document has a folder with results under the names that documents use (RESULTS), limits made from such results, and a bag. If
the sentence before a block names a TOML or CSV file, the block is written to that file.

Lines are made short: SMALLER appends flags that a line lacks, REPLACED replaces parts that take long. SKIPPED lists lines that
cannot run here, with the reason; they are counted. A new line is run, and fails the check if its exit code is not in GOOD.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from mcap.writer import Writer

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Verdicts are answers: 1 is a finding, 75 a part that was not measured on a busy machine.
GOOD = {0, 1, 75}
# `check` ends with the number of sub-experiments that fail.
GOOD_OF_CHECK = range(64)
# No command hangs: each takes seconds on a machine without other work.
LONGEST_S = 300

# Results folders that documents name, and the preset that each is made with.
RESULTS = {"old": "quick", "new": "quick", "monday": "quick", "tuesday": "quick", "2026-01-31_12-00-00": "aimrt-channel"}

# Beginning of a command, and flags that make it short; the first match counts.
SMALLER = [
    ("tripmeter run quick", "--only uds --wait block -n 20 --payloads 1k --rounds 1 --no-report"),
    ("tripmeter run camera.toml", "-n 20 --rounds 1 --wait block --no-report"),
    ("tripmeter run aimrt-channel-2host", "--only tcp --wait block -n 20 --payloads 1k --rounds 1 --no-report"),
    ("tripmeter run aimrt-rpc-2host", "--only tcp --wait block -n 20 --payloads 1k --rounds 1 --no-report"),
    ("tripmeter run aimrt-channel --only", "-n 20 --payloads 1k --rounds 1 --no-report"),
    ("tripmeter run fastrtps", "--only uds --wait block -n 20 --payloads 1k --rounds 1 --raw samples,eprosima --no-report"),
    ("tripmeter run aimrt-channel", "--only uds --wait block -n 20 --payloads 1k --rounds 1 --no-report"),
    ("tripmeter run aimrt-log", "--only write -n 20 --payloads 1k --rounds 1 --no-report"),
    ("tripmeter run --resume", ""),
    ("tripmeter run ecal", "--only ecal -n 20 --payloads 1k --rounds 1 --no-report"),
    ("tripmeter run", "--only uds --wait block -n 20 --payloads 1k --rounds 1 --no-report"),
    ("tripmeter ping ", "-n 20 --payloads 1k --wait block --attempts 1 --no-report"),
    ("tripmeter publish uds tcp --topic ", "--duration 0.2 --wait block --no-report"),
    ("tripmeter publish ", "-n 20 --payloads 1k --wait block --no-report"),
    ("tripmeter call ", "-n 20 --payloads 1k --wait block --no-report"),
    ("tripmeter throughput ", "--payloads 1k --duration 0.05 --wait block --no-report"),
    ("tripmeter explain ", "-n 50 --no-report"),
    ("tripmeter ab ", "-n 20 --rounds 6 --wait block"),
    ("tripmeter choose ", "-n 20 --rounds 2 --wait block"),
    ("tripmeter history ", "--figures p50"),
]

# Parts of commands that are replaced, because they take long or name something that this machine lacks.
REPLACED = [
    (r"(tripmeter limits --runs) \d+ --of (quick|aimrt-channel)", r"\1 2 --of small.toml"),
    (r"(tripmeter limits --runs) \d+", r"\1 2"),
    (r"--effect 5% --budget 1200", "--effect 5%"),
    (r"--cpus 2,3 --seconds 2", "--cpus 0,1 --seconds 0.1"),
    (r"build/(old|new)", '"$TRIPMETER_TRANSPORTS"'),
    (r"^tripmeter choose (?=--)", "tripmeter choose shm iceoryx2 "),
    (r"--from 10 --until 20", "--from 0.1 --until 0.6"),
    # Hosts that scripts/hosts.sh makes on this machine.
    (r"^scripts/hosts\.sh 1 target/release/tripmeter", "tripmeter"),
    (r"--to user@lab2", "--to h1"),
    (r"--to lab2 --to lab3", "--to h1 --to h2"),
    (r"^(tripmeter (?:ping|publish|doctor|run \S+-2host) .*--to h1.*)", rf"{ROOT}/scripts/hosts.sh 2 \1"),
]

# Files in documents are used unchanged, except for these replacements: a built-in transport, and few messages.
WRITTEN = {"camera.toml": [('transport = "iceoryx2"', 'transport = "uds"'), ("samples = 300", "samples = 20")]}

# Lines that cannot run here: a pattern, and the reason.
SKIPPED = [
    (r"\bsudo\b|apt(-get)? install", "changes the machine, as root"),
    (r"\bssh\b|\bfleet\b|--hosts\b|slurm", "needs a list of hosts; tests/program/fleet.rs runs it between namespaces"),
    (r"^ros2 ", "is a command of ROS 2, which no package of Debian has"),
    (r"tripmeter-archive|archive/|s3://|test-archive", "needs the archive, a build of its own; scripts/test-archive.sh runs it"),
    (r"tripmeter install|--all\b.*install|pip install|\bpip\b|venv", "installs packages of a registry"),
    (r"\bcargo\b|build-transports|scripts/test\.sh|package\.sh|site\.sh|update-docs|sanitize|fuzz|\bgit\b", "builds for minutes"),
    (r"^(python3 )?(bench|tests|tools)/|isolated\.sh|keep-results|faults\.sh|campaign|selftest", "measures or tests for minutes"),
    (r"--for \d+h|24h|1000000000", "lasts a day"),
    (r"\bfollow\b|--rendezvous|iceperf (follower|leader)", "needs two terminals; tests run both"),
    (r"duckdb", "needs DuckDB"),
    (r"mine/|-C mine", "builds a copy of an example; the conformance tests build and run it"),
    (r"results/(long|day)\b", "shows what a command makes that is not run here"),
    (r"\beprosima\b", "needs experiments of eProsima's scripts; tests/program/eprosima runs each command"),
    (r"(?<!hosts\.sh 1 )target/release/", "is part of a loop"),
    (r"docker|kubectl|gh |curl|wget|npm", "needs a service or a network"),
    (r"^(for|do|done|if|fi|while|export|cd)\b|&$", "part of a loop, of a shell or of a background job"),
]


def blocks(text: str):
    """Blocks of a document, with their language and the text before them."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield found[1], found[2], text[: found.start()].rstrip()


def lines(block: str) -> list[str]:
    """Commands of a block: one per line; a backslash or an open quote continues a command on the next line."""
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
    """Reason why a command is not run; empty if it is run."""
    for pattern, why in SKIPPED:
        if re.search(pattern, command):
            return why
    missing = [name for name in re.findall(r"(?<![\w/.-])(\w+)(?=/|\?|\*|'|\s|$)", command) if name in systems]
    return f"transport {missing[0]} is not installed here" if missing else ""


def smaller(command: str) -> str:
    """The command with replacements and flags that make it short."""
    for pattern, words in REPLACED:
        command = re.sub(pattern, words, command)
    parts = re.split(r"(\s&&\s|\s\|\s|\s;\s|\s>\s)", command)
    for index in range(0, len(parts), 2):
        for begin, flags in SMALLER:
            if re.sub(r"^\S+hosts\.sh 2 ", "", parts[index]).startswith(begin):
                # eCAL only has the wait `callback`.
                used = {*parts[index].split(), *(["--wait"] if re.search(r"\becal\b", parts[index]) else [])}
                flags = [one for one in re.findall(r"--?\S+(?: [^-\s]\S*)?", flags) if one.split()[0] not in used]
                parts[index] = " ".join([parts[index], *flags])
                break
    return "".join(parts)


def run(command: str, folder: pathlib.Path, environment: dict) -> subprocess.CompletedProcess:
    """Runs a command made short; returns it with its exit code, 124 if it did not end."""
    output = re.search(r" -o (results/\S+)", command)
    if output and (folder / output[1]).exists():
        shutil.rmtree(folder / output[1])
    words = ["timeout", str(LONGEST_S), "bash", "-o", "pipefail", "-c", smaller(command)]
    return subprocess.run(words, cwd=folder, env=environment, text=True, capture_output=True, check=False)


def prepare(folder: pathlib.Path, environment: dict) -> None:
    """Makes the files that every document starts with."""
    folder.mkdir()
    commands = ["tripmeter run quick --print > small.toml"]
    commands += [f"tripmeter run {preset} -q -o results/{name}" for name, preset in RESULTS.items()]
    commands += ["tripmeter limits --runs 2 --of small.toml --runs-dir limits_of_small -o limits.csv"]
    for command in commands:
        done = run(command, folder, environment)
        if done.returncode not in GOOD:
            sys.exit(f"doc_commands: `{smaller(command)}` ends with {done.returncode}: {done.stderr.strip()}")
    write_bag(folder / "drive")


def write_bag(folder: pathlib.Path) -> None:
    """Writes a bag of two topics, in the form of rosbag2."""
    folder.mkdir()
    with (folder / "drive_0.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start("ros2", "doc_commands.py")
        schema = writer.register_schema("example/msg/Bytes", "ros2msg", b"uint8[] data")
        channels = {topic: writer.register_channel(topic, "cdr", schema) for topic in ("/imu", "/camera")}
        for index in range(80):
            topic = "/camera" if index % 10 == 0 else "/imu"
            time_ns = 10**18 + index * 10**7
            writer.add_message(channels[topic], time_ns, bytes(200), time_ns, index)
        writer.finish()
    (folder / "metadata.yaml").write_text(
        "rosbag2_bagfile_information:\n  version: 9\n  storage_identifier: mcap\n  relative_file_paths:\n    - drive_0.mcap\n"
    )


def write_file(folder: pathlib.Path, language: str, block: str, before: str) -> None:
    """Writes a block to the file that the sentence before it names."""
    ends = {"toml": ".toml"}.get(language, ".csv")
    named = [name for name in re.findall(r"`([\w.-]+)`", before.rsplit("\n\n", 1)[-1]) if name.endswith(ends)]
    if named:
        for here, there in WRITTEN.get(named[0], []):
            block = block.replace(here, there)
        (folder / named[0]).write_text(block)


def run_document(document: pathlib.Path, folder: pathlib.Path, systems: set[str], environment: dict) -> tuple:
    """Number of commands that ran, lines on failures, and skipped commands with the reason."""
    here, ran, failed, skipped = folder / document.stem, 0, [], []
    shutil.copytree(folder / "begin", here)
    for language, block, before in blocks(document.read_text()):
        if language in ("toml", "csv", "text"):
            write_file(here, language, block, before)
        for command in lines(block) if language == "sh" else []:
            why = reason(command, systems)
            if why:
                skipped.append((document.name, command, why))
                continue
            ran += 1
            done = run(command, here, environment)
            if done.returncode not in (GOOD_OF_CHECK if "tripmeter check " in command else GOOD):
                said = (done.stderr.strip().splitlines() or [""])[-1]
                failed.append(f"{document.name}: `{smaller(command)}` ends with {done.returncode}: {said}")
    return ran, failed, skipped


def main() -> int:
    """Runs all commands, and prints what failed."""
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 64
    program = pathlib.Path(sys.argv[1]).resolve()
    named = [ROOT / name for name in sys.argv[2:]] or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    listed = json.loads(subprocess.run([program, "list", "--json"], capture_output=True, text=True, check=True).stdout)
    systems = {one["system"] for one in listed if not one["available"]}
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as place:
        folder = pathlib.Path(place)
        (folder / "bin").mkdir()
        (folder / "bin/tripmeter").symlink_to(program)
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TRIPMETER": str(program)}
        prepare(folder / "begin", environment)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            parts = list(pool.map(lambda one: run_document(one, folder, systems, environment), named))
    ran, failed, skipped = sum(part[0] for part in parts), *([one for part in parts for one in part[at]] for at in (1, 2))
    for document, command, why in skipped:
        print(f"SKIPPED: {document}: `{' '.join(command.split())}`: {why}")
    print(f"documents: {ran} commands ran, {len(failed)} failed, {len(skipped)} skipped")
    for line in failed:
        print(f"doc_commands: {line}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
