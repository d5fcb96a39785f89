"""iceoryx: the loop of its example iceperf, two processes on its C++ API (bench/native/iceoryx), with one RouDi for all
runs. The cells lead from iceperf's settings to Tripmeter's, changing one at a time."""

import contextlib
import shutil
import sys

from .common import ROOT, Loop, missing_plugin

sys.path.insert(0, str(ROOT / "bench" / "overhead"))
from roudi import RouDi  # noqa: E402

LOOP = Loop("iceoryx")


def cell(name, history, queue, release_first=1, per_reading=1):
    return {"native": name, "transport": "iceoryx/shm", "wait": "poll", "confined": False, "history": history,
            "queue": queue, "release_first": release_first, "per_reading": per_reading}


# More trips per reading of the clock than a run has: one reading, as in iceperf.
ONE_READING = 1 << 40
CELLS = [
    cell("loop: history 1, queue 1, one clock reading (iceperf)", 1, 1, per_reading=ONE_READING),
    cell("loop: history 1, queue 1", 1, 1),
    cell("loop: history 1, queue 16", 1, 16),
    cell("loop: history 0, queue 1", 0, 1),
    cell("loop: history 0, queue 16", 0, 16),
    cell("loop: history 1, queue 16, released after the answer", 1, 16, release_first=0),
    cell("loop: history 0, queue 16, released after the answer (Tripmeter)", 0, 16, release_first=0),
]


def missing():
    for program in ("iox-roudi", "make", "c++"):
        if not shutil.which(program):
            return f"{program} is not installed"
    return missing_plugin("iceoryx")


def build():
    LOOP.build()


@contextlib.contextmanager
def surroundings(options):
    with RouDi(max(options.payloads)) as roudi:
        roudi.ensure()
        yield


def run(options, cell, payload_bytes):
    return LOOP.run(options, payload_bytes, "--history", str(cell["history"]), "--queue", str(cell["queue"]),
                    "--release-first", str(cell["release_first"]), "--per-reading", str(cell["per_reading"]))
