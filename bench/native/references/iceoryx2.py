"""iceoryx2: a minimal ping-pong of two processes on its crate (bench/native/iceoryx2)."""

import shutil

from .common import Loop, missing_plugin

LOOP = Loop("iceoryx2")
CELLS = [{"native": "loop on the crate", "transport": "iceoryx2/publish-subscribe", "wait": "poll",
          "confined": False}]


def missing():
    return missing_plugin("iceoryx2") if shutil.which("cargo") else "cargo is not installed"


def build():
    LOOP.build()


def run(options, cell, payload_bytes):
    return LOOP.run(options, payload_bytes)
