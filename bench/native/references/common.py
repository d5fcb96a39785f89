"""Shared code of the references. A reference is a module beside this one with

- `CELLS`: dictionaries with `native` (reference's name in tables), `transport` and `wait` (Tripmeter's), `confined`
  (true if all threads of a process are bound to one CPU, for a tool that binds no thread itself; otherwise only the
  measuring threads are bound), and keys of its own
- `missing()`: text that says what to install; None if nothing is missing
- `build()`: builds what there is to build, or raises SystemExit
- `run(options, cell, payload_bytes)`: the median of half a round trip in nanoseconds; raises RunFailed. `options` are
  the command line's.
- `surroundings(options)`, where a system needs some: a context manager around all runs, Tripmeter's too, that starts a
  daemon and stops it
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
RUN_TIMEOUT_S = 180


class RunFailed(Exception):
    """One run of a reference or of Tripmeter gave no figures."""


def parse_payload(text):
    """Bytes of `1k`, `4M` or `512`; k and M are powers of 1024."""
    units = {"k": 1 << 10, "M": 1 << 20}
    digits = text[:-1] if text[-1:] in units else text
    if not digits.isdigit() or int(digits) == 0:
        raise argparse.ArgumentTypeError(f"payload '{text}' is not a size such as 1k, 64k or 4M")
    return int(digits) * units.get(text[-1:], 1)


def payload_name(payload_bytes):
    for unit, size in (("M", 1 << 20), ("k", 1 << 10)):
        if payload_bytes % size == 0:
            return f"{payload_bytes // size}{unit}"
    return str(payload_bytes)


def call(command, **settings):
    """Output of a command that must succeed in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, **settings)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"{command[0]}: no end after {RUN_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise RunFailed(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def missing_plugin(system):
    """Error text if Tripmeter's plugin is missing; None if it exists."""
    named = os.environ.get("TRIPMETER_TRANSPORTS", "").split(":")
    folders = [folder for folder in named if folder] + [str(ROOT / "target" / "transports")]
    if any((Path(folder) / f"tripmeter_{system}.so").exists() for folder in folders):
        return None
    return f"no tripmeter_{system}.so in {', '.join(folders)}; build it: scripts/build-transports.sh {system}"


class Loop:
    """A minimal loop: a crate or, with a Makefile, C++ in the folder `name`. Its program takes --payload, --samples,
    --warmup, --leader-cpu and --follower-cpu and prints {"rtt_ns": {"p50": ...}} in its last line."""

    def __init__(self, name):
        self.folder = Path(__file__).resolve().parent.parent / name
        self.target = Path(os.environ.get("CARGO_TARGET_DIR", self.folder.parent.parent.parent / "target")) / "native"
        self.program = self.target / "release" / f"native-{name}"

    def build(self):
        if (self.folder / "Makefile").exists():
            command = ["make", "--silent", "-C", str(self.folder), f"OUT={self.program.parent}"]
        else:
            command = ["cargo", "build", "--release", "--locked", "--manifest-path", str(self.folder / "Cargo.toml"),
                       "--target-dir", str(self.target)]
        if subprocess.run(command, stdout=sys.stderr).returncode != 0:
            sys.exit(f"{self.folder.name}: its loop does not build; see above")

    def run(self, options, payload_bytes, *arguments):
        """The median of half a round trip in nanoseconds."""
        output = call([str(self.program), "--payload", str(payload_bytes), "--samples", str(options.samples),
                       "--warmup", str(options.warmup), "--leader-cpu", str(options.leader_cpu),
                       "--follower-cpu", str(options.follower_cpu), *arguments])
        return json.loads(output.strip().splitlines()[-1])["rtt_ns"]["p50"] / 2
